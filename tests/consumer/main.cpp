// What a user's first program may look like: one operator on the default device, its answer checked.
#include <cstdio>
#include <vector>

#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>

int main(int argc, char** argv) try {
  const dlprim::Context context(argc > 1 ? argv[1] : "");
  const dlprim::Stream stream(context);
  const dlprim::Tensor x(stream, {2, 3}), row(stream, {3}), y(stream, {2, 3});
  dlprim::write(stream, x, std::vector<float>{-2, -1, 0, 1, 2, 3});
  dlprim::write(stream, row, std::vector<float>{1, 10, 100});
  dlprim::pointwise(stream, {x, row}, {y}, {}, "y0 = relu(x0) * x1");
  const bool right = dlprim::read<float>(stream, y) == std::vector<float>{0, 0, 0, 1, 20, 300};
  std::printf("%s on %s\n", right ? "right" : "wrong", context.device().name().c_str());
  return right ? 0 : 1;
} catch (const dlprim::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
