#include "core/memory_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dlprim::detail {
namespace {

uint64_t rounded(uint64_t bytes, uint64_t align) {
  return (std::max<uint64_t>(bytes, 1) + align - 1) / align * align;
}

bool live_at_once(const Lifetime& a, const Lifetime& b) {
  return a.begin < b.end && b.begin < a.end;
}

/// In this order, each goes into the smallest gap that holds it.
MemoryPlan placed_in(const std::vector<size_t>& order, const std::vector<Lifetime>& lifetimes,
                     uint64_t align) {
  MemoryPlan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<size_t> placed;  // by offset
  for (size_t tensor : order) {
    const uint64_t size = rounded(lifetimes[tensor].bytes, align);
    uint64_t end = 0;  // of those in the way so far
    uint64_t best = 0, best_gap = std::numeric_limits<uint64_t>::max();
    for (size_t other : placed) {
      if (!live_at_once(lifetimes[tensor], lifetimes[other])) continue;
      const uint64_t begin = plan.offsets[other];
      if (begin >= end + size && begin - end < best_gap) best = end, best_gap = begin - end;
      end = std::max(end, begin + rounded(lifetimes[other].bytes, align));
    }
    if (best_gap == std::numeric_limits<uint64_t>::max()) best = end;
    plan.offsets[tensor] = best;
    plan.bytes = std::max(plan.bytes, best + size);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), best,
                                   [&](uint64_t offset, size_t p) { return offset < plan.offsets[p]; }),
                  tensor);
  }
  return plan;
}

}  // namespace

uint64_t largest_live_set(const std::vector<Lifetime>& lifetimes, uint64_t align) {
  std::vector<std::pair<uint64_t, int64_t>> changes;  // ends come before begins of the same time
  for (const Lifetime& life : lifetimes) {
    const auto size = static_cast<int64_t>(rounded(life.bytes, align));
    changes.emplace_back(life.begin, size);
    changes.emplace_back(life.end, -size);
  }
  std::sort(changes.begin(), changes.end());
  int64_t now = 0, most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, now += change);
  return static_cast<uint64_t>(most);
}

size_t LifetimeLog::begin(uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  list_.push_back({bytes, clock_++});
  return list_.size() - 1;
}

void LifetimeLog::end(size_t tensor) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (open_) list_[tensor].end = clock_++;
}

void LifetimeLog::close() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  open_ = false;
}

std::vector<Lifetime> LifetimeLog::list() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return list_;
}

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, uint64_t align) {
  constexpr size_t kMostRounds = 32,
                   kMostLooks = size_t{1} << 28;  // at other tensors: some tenths of a second
  const size_t count = std::max<size_t>(lifetimes.size(), 1),
               rounds = std::min(kMostRounds, kMostLooks / (count * count));
  const uint64_t least = largest_live_set(lifetimes, align);
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  MemoryPlan plan = placed_in(order, lifetimes, align), best = plan;
  for (size_t round = 0; round < rounds && best.bytes > least; round++) {
    std::vector<size_t> sooner = order;
    for (size_t i = 0; i < order.size(); i++) {
      const size_t tensor = order[i];
      if (plan.offsets[tensor] + rounded(lifetimes[tensor].bytes, align) <= least) continue;
      const auto place = std::find(sooner.begin(), sooner.end(), tensor);
      std::rotate(sooner.begin() + (place - sooner.begin()) / 2, place, place + 1);
    }
    order = std::move(sooner);
    plan = placed_in(order, lifetimes, align);
    if (plan.bytes < best.bytes) best = plan;
  }
  return best;
}

}  // namespace dlprim::detail
