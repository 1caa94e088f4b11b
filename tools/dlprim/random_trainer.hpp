// Training that is only looked at: a model's first output against random classes.
#pragma once

#include <dlprim/net_training.hpp>

#include "model_commands.hpp"
#include "model_input.hpp"

namespace dlprim::cli {

/// A trainer of the graph, whose first output is [..., classes], by Adam, and random labels among its feeds.
Trainer random_trainer(NetGraph graph, const ModelOptions& options, const ModelRun& run,
                       Model::Tensors& feeds);

}  // namespace dlprim::cli
