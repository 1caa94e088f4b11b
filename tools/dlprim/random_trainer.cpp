#include "random_trainer.hpp"

#include <dlprim/rehearsal.hpp>

namespace dlprim::cli {

Trainer random_trainer(NetGraph graph, const ModelOptions& options, const ModelRun& run,
                       Model::Tensors& feeds) {
  const Model model(graph);
  const std::string output = model.outputs().at(0).name;
  Tensor logits;
  {
    const Rehearsal rehearsal;  // their shape is all that is asked for
    logits = model.run(run.stream, feeds, run.options).at(output);
  }
  Shape shape;
  for (int i = 0; i + 1 < logits.rank(); i++) shape.push_back(logits.shape()[i]);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < element_count(shape); i++) labels.push_back(i * 7919 % logits.shape().back());
  feeds["dlprim.labels"] = to_device(run.stream, host_tensor(DType::i64, shape, labels));
  add_class_loss(graph, output, "dlprim.labels", {"dlprim.loss"});
  Trainer::Config config;
  config.loss = "dlprim.loss";
  config.optimizer.method = OptimizerMethod::adam;
  config.precision = options.precision();
  config.without = options.without;
  config.options = run.options;
  return Trainer(run.stream, graph, config);
}

}  // namespace dlprim::cli
