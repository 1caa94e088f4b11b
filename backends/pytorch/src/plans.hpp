// Plans, found by all that they depend on: what is computed, parameters, dtypes, sizes, strides. A look-up
// makes no text and takes no memory.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <ATen/TensorIterator.h>
#include <ATen/core/grad_mode.h>
#include <dlprim/dims.hpp>
#include <dlprim/error.hpp>
#include <dlprim/rehearsal.hpp>
#include <dlprim/tensor.hpp>

#include "device.hpp"
#include "tensor.hpp"

namespace ocl {

class Key {
 public:
  static constexpr int kMostOperands = 5;

  /// Of numbers, enumerators, dims and tensors, in an order that tells them apart.
  template <class... Parts>
  static Key of(const Parts&... parts) {
    Key key;
    (key.add(parts), ...);
    return key;
  }

  /// Sizes, dtypes and strides. Bit i of the result: operand i is a number on the CPU.
  uint32_t add_operands(const at::TensorIteratorBase& iter) {
    check_rank(iter.ndim());
    TORCH_INTERNAL_ASSERT(iter.ntensors() <= kMostOperands);
    uint32_t on_host = 0;
    for (const int64_t size : iter.shape()) add(size);
    for (int i = 0; i < iter.ntensors(); i++) {
      const at::OperandInfo& op = iter.operand(i);
      if (op.tensor_base().device().is_cpu()) {
        on_host |= 1u << i;
        add(-1);
        continue;
      }
      const bool aligned = reinterpret_cast<uintptr_t>(op.data) % 16 == 0;
      add(static_cast<int64_t>(op.current_dtype) << 1 | static_cast<int64_t>(aligned));
      for (const int64_t stride : op.stride_bytes) add(stride);
    }
    return on_host;
  }

  template <class Number, std::enable_if_t<std::is_integral_v<Number> || std::is_enum_v<Number>, int> = 0>
  void add(Number number) {
    TORCH_INTERNAL_ASSERT(count_ < words_.size());
    words_[count_++] = static_cast<int64_t>(number);
  }
  void add(double number) {
    int64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    add(bits);
  }
  void add(const dlprim::Dims& dims) {
    add(dims.size());
    for (const int64_t value : dims) add(value);
  }
  /// What TensorDesc has of it; or that there is none.
  void add(const dlprim::Tensor& tensor) {
    if (!tensor.defined()) return add(-1);
    add(static_cast<int64_t>(tensor.dtype()) << 1 | static_cast<int64_t>(is_aligned(tensor)));
    add(tensor.shape());
    for (const int64_t stride : tensor.strides()) add(stride);
  }

  friend bool operator==(const Key& a, const Key& b) noexcept {
    return a.count_ == b.count_ &&
           std::memcmp(a.words_.data(), b.words_.data(), a.count_ * sizeof(int64_t)) == 0;
  }

  struct Hash {
    size_t operator()(const Key& key) const noexcept {
      uint64_t hash = key.count_;
      for (uint32_t i = 0; i < key.count_; i++) {
        hash = (hash ^ static_cast<uint64_t>(key.words_[i])) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
      }
      return hash;
    }
  };

 private:
  Key() = default;

  uint32_t count_ = 0;
  std::array<int64_t, 224> words_;  // an index by 8 tensors of 8 dimensions
};

/// Plans of all devices. Leaked, as devices are.
template <class Plan>
class Plans {
 public:
  /// The plan under this key, or else what make() gives. It is made outside of the lock.
  template <class Make>
  std::shared_ptr<const Plan> get(const Device& device, const Key& key, Make&& make) {
    Shelf& shelf = shelves_[static_cast<size_t>(device.index)];
    {
      const std::lock_guard lock(shelf.mutex);
      const auto found = shelf.plans.find(key);
      if (found != shelf.plans.end()) return found->second;
    }
    auto plan = std::make_shared<const Plan>(make());
    const std::lock_guard lock(shelf.mutex);
    if (shelf.plans.size() >= kMost) shelf.plans.clear();
    return shelf.plans.emplace(key, std::move(plan)).first->second;
  }

 private:
  static constexpr size_t kMost = 8192;
  struct Shelf {
    std::mutex mutex;
    std::unordered_map<Key, std::shared_ptr<const Plan>, Key::Hash> plans;
  };
  std::array<Shelf, kMaxDevices> shelves_;
};

/// Makes plans that will be wanted, so that their programs are compiled in the background.
template <class MakePlans>
void rehearse(const MakePlans& make_plans) {
  const dlprim::Rehearsal rehearsal;
  try {
    make_plans();
  } catch (const dlprim::Error&) {  // who makes the plan will say it
  }
}
/// Those of gradients, from the forward pass on, if autograd will want them.
template <class MakePlans>
void rehearse_gradients(const MakePlans& make_plans) {
  if (at::GradMode::is_enabled()) rehearse(make_plans);
}

/// Calls run(plan, stream) with the plan of this key and the thread's current stream. Keys of one type of
/// plan are told apart by their parts alone.
template <class Plan, class Make, class Run>
void run_plan(Device& on, const Key& key, Make&& make, Run&& run) {
  static auto* const plans = new Plans<Plan>;
  submit(on, [&](const dlprim::Stream& stream) { run(*plans->get(on, key, make), stream); });
}

}  // namespace ocl
