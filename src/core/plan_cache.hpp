// PlanCache: the plans that calls made, kept in the context under a key of bytes. The least recently used go
// when there are too many, or when their programs are.
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
    return std::static_pointer_cast<const P>(insert(key.bytes(), std::make_shared<const P>(make())));
  }

 private:
  /// Plans that stay though programs are many: those may be of plans that are not kept here.
  static constexpr size_t kMost = 4096, kLeast = 256;
  struct Entry {
    std::shared_ptr<const void> plan;
    std::list<const std::string*>::iterator age;
  };

  std::shared_ptr<const void> find(const std::string& key) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = plans_.find(key);
    if (it == plans_.end()) return nullptr;
    ages_.splice(ages_.begin(), ages_, it->second.age);
    return it->second.plan;
  }
  std::shared_ptr<const void> insert(const std::string& key, std::shared_ptr<const void> plan) {
    // Two go for one that comes while programs are too many: fewer and fewer are left, and no call pays for
    // all.
    const int going = crowded_() ? 2 : 1;
    std::shared_ptr<const void> gone[2];  // end behind the lock
    std::lock_guard<std::mutex> lock(mutex_);
    auto [it, fresh] = plans_.try_emplace(key);
    if (!fresh) return it->second.plan;
    ages_.push_front(&it->first);
    it->second = {plan, ages_.begin()};
    for (int i = 0; i < going && plans_.size() > (going == 2 ? kLeast : kMost); i++) {
      const auto oldest = plans_.find(*ages_.back());
      gone[i] = std::move(oldest->second.plan);
      ages_.pop_back();
      plans_.erase(oldest);
    }
    return plan;
  }

  std::function<bool()> crowded_;
  std::mutex mutex_;
  std::list<const std::string*> ages_;  ///< newest first
  std::unordered_map<std::string, Entry> plans_;
};

}  // namespace dlprim::detail
