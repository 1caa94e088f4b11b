// The insides of a Trainer: what it keeps on the device from step to step.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <dlprim/net_training.hpp>

#include "net/model_state.hpp"
#include "net/training/training_graph.hpp"

namespace dlprim {

using detail::Slot;

struct Trainer::State {
  /// Of the outputs that do without some inputs, as labels.
  struct Prediction {
    NetGraph fed;  ///< whose inputs are those that are fed
    detail::ModelState model;
  };

  State(const Stream& stream_, const NetGraph& given, Config config_);

  Model::Tensors step(const Model::Tensors& feeds);
  Model::Tensors predict(const Model::Tensors& feeds);
  void update(const std::vector<Tensor>& gradients);
  Model::Plan explain(const Model::Tensors& feeds);
  Model::Trace trace(const Model::Tensors& feeds);
  /// What predicts without inputs that are not among the feeds.
  Prediction& prediction_of(const Model::Tensors& feeds);
  /// Of the step's graph: feeds, and what is held.
  const std::vector<Slot>& inputs_of(const Model::Tensors& feeds);
  /// The lists that a checkpoint has, and their tensors: names begin with the list's.
  std::vector<Parameter> kept() const;

  Stream stream;
  Config config;
  detail::TrainingGraph graphs;
  NetGraph given;
  std::vector<Parameter> parameters, statistics;
  std::vector<std::vector<Tensor>> states;  ///< the optimizer's, as parameters
  std::vector<Tensor> sums;                 ///< of gradients, between updates
  std::vector<Slot> inputs;                 ///< of the last step
  Tensor seed, scale, good_steps, found_inf, norm, factor;
  int64_t updates = 0;
  int64_t summed = 0;  ///< steps whose gradients are in `sums`
  detail::ModelState step_model;
  std::map<std::vector<int>, Prediction> predictions;  ///< by the inputs that are left out
};

}  // namespace dlprim
