// One step of training on an ONNX model, for scripts/check-training.
//   onnx_step MODEL.onnx INPUT.pb LABELS.pb RATE RESULT.safetensors [FROZEN ...]
// The model's input and its first output, logits, take part; labels are i64. Plain descent by RATE, of all
// parameters but the frozen. The result has the loss, and each parameter and running statistic after the
// step, by name.
#include <cstdlib>
#include <iostream>

#include <dlprim/net_host.hpp>
#include <dlprim/net_training.hpp>
#include <dlprim/onnx.hpp>
#include <dlprim/safetensors.hpp>

#include "support.hpp"

using namespace dlprim;

int main(int argc, char** argv) {
  if (argc < 6) {
    std::cerr << "onnx_step MODEL.onnx INPUT.pb LABELS.pb RATE RESULT.safetensors [FROZEN ...]\n";
    return 2;
  }
  try {
    NetGraph graph = onnx::load_graph(argv[1]);
    const auto name_of = [&](int value) { return graph.values[static_cast<size_t>(value)].name; };
    const std::string input = name_of(graph.inputs.at(0)), logits = name_of(graph.outputs.at(0));
    add_class_loss(graph, logits, "labels");
    Trainer::Config config;
    config.rate.rate = std::strtod(argv[4], nullptr);
    config.frozen.assign(argv + 6, argv + argc);
    Trainer trainer(test::stream(), graph, config);
    const auto fed = [](const char* path) { return to_device(test::stream(), onnx::load_tensor(path)); };
    const Model::Tensors outputs = trainer.step({{input, fed(argv[2])}, {"labels", fed(argv[3])}});
    std::vector<HostTensor> result{to_host(test::stream(), outputs.at("loss"), "loss")};
    for (const auto* list : {&trainer.parameters(), &trainer.statistics()})
      for (const Trainer::Parameter& p : *list) result.push_back(to_host(test::stream(), p.value, p.name));
    save_safetensors(argv[5], result);
  } catch (const std::exception& error) {
    std::cerr << "onnx_step: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
