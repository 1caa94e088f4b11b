// Operators with one engine: a fixed sequence of generated kernels (the engine's name is then `generated`),
// or an own kernel with nothing to choose. They need no list, only a name and a refusal; and as they run
// several kernels they need their tensors checked against each other before the first, and one workspace cut
// into parts.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/engine.hpp"
#include "core/launch.hpp"
#include "core/state.hpp"

namespace dlprim::detail {

/// The info of a plan whose only engine is `engine`. `info` brings text, flops, bytes and workspace; "
/// engine=..." is put into the text behind the operator's name. Throws ValidationError as choose_engine does.
std::shared_ptr<const PlanInfo> single_engine(const char* op, const char* engine, const std::string& refusal,
                                              const Context& context, const Options& options, PlanInfo info);

/// "f32[2,3,4]", and "f32[2,3,4]/12,1,3" if it is not row-major: for plans' texts, without white space.
std::string brief(const TensorDesc& desc);
/// Bytes of the tensors' elements.
double traffic(const std::vector<TensorDesc>& tensors);

/// Elements lie row-major without gaps; the strides of dimensions of size 1 do not matter.
bool is_row_major(const TensorDesc& desc);

/// Strides as require_strides wants them, and f32, f16, bf16; f64 too if `f64` is true. Throws
/// ValidationError otherwise.
void require_floating(const char* argument, const TensorDesc& desc, bool f64);

struct Named {
  const char* name;
  const Tensor& tensor;
};
/// Every tensor exists.
void require_defined(std::initializer_list<Named> tensors);
/// No output shares memory with another output or with an input. Undefined tensors share none.
void require_apart(std::initializer_list<Named> outputs, std::initializer_list<Named> inputs);
/// The checks of a run that moves x into y, has no use for a workspace, and has none of the three share
/// memory.
void require_moved(const PlanInfo& info, const Stream& stream, const TensorDesc& from, const Tensor& x,
                   const TensorDesc& to, const Tensor& y, const Tensor& workspace);
/// The checks of a workspace that a run of the plan has no use for: it is of the context, and shares no
/// memory with the tensors.
void require_unused(const PlanInfo& info, const Stream& stream, const Tensor& workspace,
                    std::initializer_list<Named> tensors);
/// y is x (the same elements of the same memory), or shares no memory with it.
void require_same_or_apart(const Named& y, const Named& x);

/// Of a tensor that may be left out: its description, and that it is there exactly if the plan has it.
inline std::optional<TensorDesc> described(const Tensor& tensor) {
  return tensor.defined() ? std::make_optional<TensorDesc>(tensor) : std::nullopt;
}
void require_optional(const char* name, const Tensor& tensor, const Context& context,
                      const std::optional<TensorDesc>& desc);

/// One of the two.
inline void require_write(const char* argument, Write write) {
  require(write == Write::replace || write == Write::add, argument, static_cast<int>(write), " is no Write");
}

/// The plan that a call needs: from the context's cache under `key` and the options, or made of the options.
/// A workspace that the call was given is all that the plan may use.
template <class P, class Make>
std::shared_ptr<const P> plan_under(const Stream& stream, PlanKey key, const Make& make,
                                    const Options& options, const Tensor& workspace) {
  const size_t limit = workspace.defined()
                           ? std::min(options.workspace_limit, static_cast<size_t>(workspace.bytes()))
                           : options.workspace_limit;
  key.add(options.engine).add(limit).add(options.math).add(options.tune).add(options.plan);
  return stream.context().state().plans.get<P>(key, [&] {
    Options within = options;
    within.workspace_limit = limit;
    return make(within);
  });
}
/// The same of an operator with a description.
template <class P, class Desc>
std::shared_ptr<const P> cached_plan(const Stream& stream, PlanKey key, const Desc& desc,
                                     const Options& options = {}, const Tensor& workspace = {}) {
  const auto make = [&](const Options& within) { return P(stream.context(), desc, within); };
  return plan_under<P>(stream, std::move(key), make, options, workspace);
}
/// The same under the operator's name and every field of the description.
template <class P, class Desc>
std::shared_ptr<const P> cached_plan(const Stream& stream, const char* op, const Desc& desc,
                                     const Options& options = {}, const Tensor& workspace = {}) {
  return cached_plan<P>(stream, PlanKey(op).add(desc), desc, options, workspace);
}

/// Options for a plan that has all of its operator's workspace.
inline Options same_limit(const Options& options) {
  Options result;
  result.workspace_limit = options.workspace_limit;
  return result;
}

/// Parts of one workspace, each on a 64-byte boundary.
class WorkspaceParts {
 public:
  /// The place of a part of `bytes`.
  size_t add(size_t bytes) {
    const size_t at = size_;
    size_ += (bytes + kBoundary - 1) / kBoundary * kBoundary;
    return at;
  }
  size_t size() const { return size_; }
  /// Options for a plan whose workspace becomes one more part, within the operator's limit.
  Options rest(const Options& options) const {
    Options result;
    result.workspace_limit =
        options.workspace_limit > size_ ? (options.workspace_limit - size_) / kBoundary * kBoundary : 0;
    return result;
  }

 private:
  static constexpr size_t kBoundary = 64;
  size_t size_ = 0;
};

/// The part at `at` as a row-major tensor; an undefined one if the shape has no elements.
DLPRIM_API Tensor workspace_part(const Tensor& workspace, size_t at, const Shape& shape,
                                 DType dtype = DType::f32);

/// The scratch memory of a generated kernel that is a part of its operator's.
inline Tensor workspace_scratch(const Tensor& workspace, size_t at, const Plan& kernel) {
  return workspace_part(workspace, at, {static_cast<int64_t>(kernel.workspace_size())}, DType::u8);
}

/// `items` work-items, rounded up to whole groups.
inline size_t items_in_groups(int64_t items, int64_t group = 256) {
  return static_cast<size_t>(round_up(items, group));
}

}  // namespace dlprim::detail
