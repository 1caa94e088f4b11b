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

/// The list of engines, first the one of the device's kind.
template <class Problem, class Impl>
std::vector<Engine<Problem, Impl>> generated_engines(const Context& context,
                                                     decltype(Engine<Problem, Impl>::make) make_cpu,
                                                     decltype(Engine<Problem, Impl>::make) make_gpu) {
  const Engine<Problem, Impl> cpu = {
      "cpu", [](const Context&, const Problem&, const Options&) { return std::string(); }, make_cpu};
  const Engine<Problem, Impl> gpu = {
      "gpu",
      [](const Context& c, const Problem&, const Options&) {
        const int most = c.device().facts().max_work_group;
        return most < kGpuGroup ? cat("groups of ", kGpuGroup, " exceed the device's ", most) : std::string();
      },
      make_gpu};
  if (context.device().kind() == DeviceKind::cpu) return {cpu, gpu};
  return {gpu, cpu};
}

}  // namespace dlprim::detail
