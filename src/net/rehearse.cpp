// A pass is rehearsed before the first of its kind runs: its programs are known then, and are compiled side
// by side, where operators one after the other would wait for one at a time.

#include <dlprim/rehearsal.hpp>

#include "core/plan_cache.hpp"
#include "net/graph.hpp"

namespace dlprim::detail {
namespace {

constexpr size_t kMostKinds = 64;  // a net that is fed ever new sizes starts over

/// What tells passes of one graph apart: their mode, outputs and feeds.
PlanKey kind_of(const PassState& pass) {
  PlanKey kind(pass.mode == Mode::training ? "training" : "evaluation");
  for (size_t id = 0; id < pass.values.size(); id++) {
    if (pass.is_output[id]) kind.add(id);
    if (pass.ran[id] && pass.graph->nodes[id]->inputs.empty()) kind.add(TensorDesc(pass.values[id]));
  }
  return kind;
}

/// The first output that backward() could begin at by itself; -1 if there is none.
int loss_of(const PassState& pass) {
  for (size_t id = 0; id < pass.values.size(); id++) {
    const Node& node = *pass.graph->nodes[id];
    if (pass.is_output[id] && node.has_gradient() && node.dtype == DType::f32 && !node.inputs.empty() &&
        element_count(pass.shapes[id]) == 1)
      return static_cast<int>(id);
  }
  return -1;
}

}  // namespace

void rehearse_once(const PassState& pass) {
  Graph& graph = *pass.graph;
  if (graph.rehearsed.size() >= kMostKinds) graph.rehearsed.clear();
  if (!graph.rehearsed.insert(kind_of(pass).bytes()).second) return;
  const Rehearsal rehearsal;
  const RandomState random = graph.random;
  try {
    PassState trial = pass;
    run_forward(trial);
    const int loss = pass.mode == Mode::training ? loss_of(pass) : -1;
    if (loss >= 0) rehearse_backward(trial, static_cast<size_t>(loss));
  } catch (const Error&) {  // the pass itself will say it
  }
  graph.random = random;
}

}  // namespace dlprim::detail
