// The two engines of generated kernels: `gpu`, in groups of kGpuGroup work-items, and `cpu`, in groups of
// one, which every device runs.
#pragma once

#include <string>
#include <vector>

#include "core/engine.hpp"
#include "core/gen/loop_nest.hpp"

namespace dlprim::detail {

constexpr int kGpuGroup = 256;

/// The tensors of a generated kernel, and its form.
template <class Form>
struct GeneratedProblem {
  std::vector<TensorDesc> inputs, outputs;
  LoopNest nest;
  Form form;
  std::vector<TensorDesc> tensors() const {
    std::vector<TensorDesc> all = inputs;
    all.insert(all.end(), outputs.begin(), outputs.end());
    return all;
  }
};

template <class Problem>
std::string refuse_generated_gpu(const Context& context, const Problem&, const EngineOptions&) {
  const int most = context.device().facts().max_work_group;
  return most < kGpuGroup ? cat("groups of ", kGpuGroup, " exceed the device's ", most) : std::string();
}

template <class Problem, class Impl>
constexpr Engine<Problem, Impl> generated_gpu(typename Engine<Problem, Impl>::Make make) {
  return {"gpu", refuse_generated_gpu, make, avoid_on_cpus};
}
template <class Problem, class Impl>
constexpr Engine<Problem, Impl> generated_cpu(typename Engine<Problem, Impl>::Make make) {
  return {"cpu", nullptr, make};
}

}  // namespace dlprim::detail
