// PlanCache: the plans that calls made, kept in the context under a key of bytes. The least recently used go
// when they take too much of the host's memory, or when their programs do.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/rehearsal.hpp>
#include <dlprim/tensor.hpp>

#include "core/fields.hpp"

namespace dlprim::detail {

/// Bytes that name a plan: the operator and everything its constructor was given.
class PlanKey {
 public:
  explicit PlanKey(const char* op) { add(std::string(op)); }
  template <class T>
  std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>, PlanKey&> add(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
    return *this;
  }
  PlanKey& add(const std::string& text) {
    add(text.size());
    bytes_ += text;
    return *this;
  }
  PlanKey& add(const Dims& dims) {
    add(dims.size());
    for (int64_t d : dims) add(d);
    return *this;
  }
  PlanKey& add(const TensorDesc& desc) {
    return add(desc.dtype).add(desc.aligned).add(desc.shape).add(desc.strides);
  }
  template <class T>
  PlanKey& add(const std::optional<T>& value) {
    add(value.has_value());
    return value ? add(*value) : *this;
  }
  template <class T>
  PlanKey& add(const std::vector<T>& values) {
    add(values.size());
    for (const T& value : values) add(value);
    return *this;
  }
  template <class T, size_t n>
  PlanKey& add(const std::array<T, n>& values) {
    for (const T& value : values) add(value);
    return *this;
  }
  /// Every field of a description.
  template <class T>
  std::enable_if_t<(kFields<T> > 0), PlanKey&> add(const T& desc) {
    std::apply([this](const auto&... field) { (add(field), ...); }, fields_of(desc));
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// What an engine's descriptions and handles of kernels take of the host's memory: an estimate, not measured.
constexpr size_t kOfEngine = 2048;
/// The same of a plan, with its texts.
DLPRIM_API size_t host_bytes(const Plan& plan);

class PlanCache {
 public:
  /// `crowded` says that more programs are in memory than should be.
  explicit PlanCache(std::function<bool()> crowded) : crowded_(std::move(crowded)) {}

  /// The plan under `key`, made by `make()` if there is none. Two threads may make the same plan at once; the
  /// first to finish is kept.
  template <class P, class Make>
  std::shared_ptr<const P> get(const PlanKey& key, const Make& make) {
    if (auto found = find(key.bytes())) return std::static_pointer_cast<const P>(found);
    if (Rehearsal::active()) return std::make_shared<const P>(make());
    auto made = std::make_shared<const P>(make());
    size_t bytes = sizeof(P);
    if constexpr (std::is_base_of_v<Plan, P>)
      bytes += host_bytes(*made);
    else  // several in one
      bytes += 4 * kOfEngine;
    return std::static_pointer_cast<const P>(insert(key.bytes(), std::move(made), bytes));
  }
  /// Gives all up; false if there are none.
  bool clear() {
    std::unordered_map<std::string, Entry> gone;  // end behind the lock
    std::lock_guard<std::mutex> lock(mutex_);
    gone.swap(plans_);
    ages_.clear();
    bytes_ = 0;
    return !gone.empty();
  }
  size_t bytes() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return bytes_;
  }
  size_t size() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return plans_.size();
  }

  /// What all plans may take of the host's memory.
  static constexpr size_t kMostBytes = size_t{32} << 20;

 private:
  /// Plans that stay though programs are many: those may be of plans that are not kept here.
  static constexpr size_t kLeast = 256;
  struct Entry {
    std::shared_ptr<const void> plan;
    std::list<const std::string*>::iterator age;
    size_t bytes = 0;
  };

  std::shared_ptr<const void> find(const std::string& key) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = plans_.find(key);
    if (it == plans_.end()) return nullptr;
    ages_.splice(ages_.begin(), ages_, it->second.age);
    return it->second.plan;
  }
  std::shared_ptr<const void> insert(const std::string& key, std::shared_ptr<const void> plan, size_t bytes) {
    bytes += 2 * key.size() + sizeof(Entry);
    // Two go for one that comes while programs are too many: fewer and fewer are left, and no call pays for
    // all.
    int going = crowded_() ? 2 : 0;
    std::vector<std::shared_ptr<const void>> gone;  // end behind the lock
    std::lock_guard<std::mutex> lock(mutex_);
    auto [it, fresh] = plans_.try_emplace(key);
    if (!fresh) return it->second.plan;
    ages_.push_front(&it->first);
    it->second = {plan, ages_.begin(), bytes};
    bytes_ += bytes;
    while (plans_.size() > 1 && (bytes_ > kMostBytes || (going-- > 0 && plans_.size() > kLeast))) {
      const auto oldest = plans_.find(*ages_.back());
      gone.push_back(std::move(oldest->second.plan));
      bytes_ -= oldest->second.bytes;
      ages_.pop_back();
      plans_.erase(oldest);
    }
    return plan;
  }

  std::function<bool()> crowded_;
  mutable std::mutex mutex_;
  size_t bytes_ = 0;
  std::list<const std::string*> ages_;  ///< newest first
  std::unordered_map<std::string, Entry> plans_;
};

}  // namespace dlprim::detail
