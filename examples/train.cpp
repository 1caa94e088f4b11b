// Trains a small convolutional network to tell in which half of an image a bright stripe lies, and prints the
// loss on the way. Links dlprim::net.
#include <cstdio>
#include <random>

#include <dlprim/copy.hpp>
#include <dlprim/solver.hpp>

using namespace dlprim;

int main(int argc, char** argv) try {
  const Context context(argc > 1 ? argv[1] : "");  // the device named, or the default one
  const Stream stream(context);
  Net net(stream, /*seed=*/1);
  const Value images = net.input({1, 12, 12}), labels = net.input({}, DType::i32);
  Value h = net.relu(net.batch_norm(net.conv(images, ConvLayer(8, 3).pad(1).without_bias())));
  h = net.linear(net.flatten(net.max_pool(h, 2)), 2);
  const Value loss = net.cross_entropy(h, labels), correct = net.count_correct(h, labels);
  Adam solver(net);

  std::mt19937 random(1);
  std::uniform_real_distribution<float> noise(-1, 1);
  constexpr int64_t kBatch = 64;
  float share = 0;
  for (int step = 0; step <= 60; step++) {
    std::vector<float> pixels(kBatch * 144);
    std::vector<int32_t> halves(kBatch);
    for (size_t i = 0; i < pixels.size(); i++) {
      int32_t& half = halves[i / 144];
      if (i % 144 == 0) half = static_cast<int32_t>(random() % 2);
      const size_t row = i % 144 / 12;
      pixels[i] = noise(random) + (row == (half ? 8u : 3u) ? 1.0f : 0.0f);
    }
    const Tensor x(stream, {kBatch, 1, 12, 12}), target(stream, {kBatch}, DType::i32);
    write(stream, x, pixels);
    write(stream, target, halves);

    Pass pass = net.forward(stream, Mode::training, {{images, x}, {labels, target}}, {loss, correct});
    pass.backward(loss);
    solver.step(stream);
    if (step % 20 != 0) continue;
    share = read<float>(stream, pass[correct])[0] / kBatch;
    std::printf("step %2d  loss %.3f  right %3.0f %%\n", step, read<float>(stream, pass[loss])[0],
                100 * share);
  }
  return share > 0.9f ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
