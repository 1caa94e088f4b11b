// What the subjects of tuning share: operands of small integers, the result, and plans over them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/engine.hpp"
#include "core/tune/measure.hpp"

namespace dlprim::detail {

/// A tensor as described. `whole` is the memory from its first to its last element.
Tensor tune_memory(const Stream& stream, const TensorDesc& desc, Tensor* whole = nullptr);
/// The same, filled with whole numbers from -2 to 2. Products of up to 4 M of them are summed without
/// rounding, and they are exact in every dtype and in every part of a split one.
Tensor tune_integers(const Stream& stream, const TensorDesc& desc, uint64_t seed);
/// A subject whose engines are those of plans.
class PlanSubject : public TuneSubject {
 public:
  PlanSubject(const Context& context, const Options& options);

  std::vector<std::string> candidates() const override { return tried().timed; }
  std::vector<std::string> references() const override { return tried().references; }
  bool exhaustive() const override { return mode_ == TuneMode::exhaustive; }
  const Stream& stream() const override { return stream_; }
  void poison() override;
  void keep_result() override;

 protected:
  /// Those that a measurement keeps: what engines may do, not which of them.
  const Options& options() const { return options_; }
  virtual TuneCandidates found(const Options& options) const = 0;
  virtual void make_operands() = 0;
  virtual const Tensor& result() const = 0;

  /// A plan of `desc` with this engine, which `run(plan, workspace)` runs.
  template <class Plan, class Desc, class Run>
  TuneRun run_of(const Desc& desc, const std::string& engine, const Run& run) {
    if (!right_.defined()) make_all_operands();
    Options options = options_;
    options.engine = engine;
    const auto plan = std::make_shared<const Plan>(stream_.context(), desc, options);
    provide_workspace(plan->workspace_size());
    return {plan->request(), [this, plan, run] { run(*plan, workspace_); }};
  }
  /// How many elements of the result are not as in the one kept by `expression`, of x0 and x1. Waits for the
  /// device.
  int64_t count(const char* expression) const;

 private:
  TuneCandidates tried() const;
  void make_all_operands();
  void provide_workspace(size_t bytes);

  const TuneMode mode_;
  Options options_;
  Stream stream_;
  Tensor right_, workspace_;
};

/// Whether a measurement of so many operations and bytes takes seconds, not minutes, and a small part of
/// memory.
bool tune_fits(const Device& device, double flops, double bytes);

}  // namespace dlprim::detail
