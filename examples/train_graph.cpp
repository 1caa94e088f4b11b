// A network by name learns which of its random images is which: graph, loss, Trainer.
#include <cstdio>

#include <dlprim/net_host.hpp>
#include <dlprim/net_networks.hpp>
#include <dlprim/net_training.hpp>

int main(int argc, char** argv) {
  using namespace dlprim;
  const Context context(argc > 1 ? argv[1] : "");
  const Stream stream(context);

  networks::Config of_network;
  of_network.classes = 4;
  NetGraph graph = networks::make("resnet18", of_network);
  add_class_loss(graph, "output", "labels");
  Trainer::Config config;
  config.optimizer.method = OptimizerMethod::adam;
  config.rate = LearningRate::cosine(1e-3, 3, 20);
  Trainer trainer(stream, graph, config);

  std::vector<double> pixels(4 * 3 * 32 * 32);
  for (size_t i = 0; i < pixels.size(); i++)
    pixels[i] = static_cast<double>((i * 2654435761U) >> 16 & 255) / 128 - 1;
  const Tensor images = to_device(stream, host_tensor(DType::f32, {4, 3, 32, 32}, pixels));
  const Tensor labels = to_device(stream, host_tensor(DType::i64, {4}, std::vector<int64_t>{0, 1, 2, 3}));
  double first = 0, last = 0;
  for (int step = 0; step < 20; step++) {
    const Tensor loss = trainer.step({{"input", images}, {"labels", labels}}).at("loss");
    last = numbers_of(to_host(stream, loss))[0];  // waits; a program would look now and then
    if (step == 0) first = last;
  }
  std::printf("%s: loss %.3f, after %lld updates %.3f\n", context.device().name().c_str(), first,
              static_cast<long long>(trainer.updates()), last);
  return last < first ? 0 : 1;
}
