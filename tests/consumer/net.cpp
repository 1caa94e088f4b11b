// The same with dlprim::net: a network is made and one batch goes through it.
#include <cstdio>
#include <vector>

#include <dlprim/copy.hpp>
#include <dlprim/net.hpp>

int main(int argc, char** argv) try {
  const dlprim::Context context(argc > 1 ? argv[1] : "");
  const dlprim::Stream stream(context);
  dlprim::Net net(stream, /*seed=*/1);
  const dlprim::Value x = net.input({4}), y = net.relu(net.linear(x, 3));
  const dlprim::Tensor batch(stream, {2, 4});
  dlprim::fill(stream, 1, batch);
  dlprim::Pass pass = net.forward(stream, dlprim::Mode::evaluation, {{x, batch}}, {y});
  const std::vector<float> out = dlprim::read<float>(stream, pass[y]);
  for (float value : out)
    if (!(value >= 0)) return 1;
  std::printf("%zu outputs\n", out.size());
  return out.size() == 6 ? 0 : 1;
} catch (const dlprim::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
