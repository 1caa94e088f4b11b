#include "net/run_kinds.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>

#include "core/state.hpp"

namespace dlprim::detail {
namespace {

constexpr size_t kOthers = 16;  // kinds that are kept beside the recorded ones: learned, or of settings

/// What a recording takes of the host's memory: a kernel with its arguments for each launch, a node and what
/// is known of its outputs. An estimate, not measured.
constexpr uint64_t kOfLaunch = 4096, kOfNode = 1536;

uint64_t host_bytes(const RunKind& kind) {
  const uint64_t nodes = kind.graph ? kind.graph->nodes.size() : 0;
  return static_cast<uint64_t>(kind.recording.launches()) * kOfLaunch + nodes * kOfNode;
}

size_t hash_of(const HostTensor& tensor) {
  const std::string_view bytes(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  return std::hash<std::string_view>()(bytes);
}

bool same(const HostTensor& a, const HostTensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.name == b.name && a.data == b.data;
}

}  // namespace

void SharedConstants::share(NetGraph& graph, const NetGraph& known) {
  const auto drop_ended = [](auto& map) {
    for (auto it = map.begin(); it != map.end();) it = it->second.expired() ? map.erase(it) : std::next(it);
  };
  drop_ended(kept_), drop_ended(addresses_);
  for (auto& [value, constant] : graph.constants) {
    const auto own = known.constants.find(value);
    if (own != known.constants.end() && own->second == constant) continue;
    if (addresses_.count(constant.get())) continue;
    const size_t hash = hash_of(*constant);
    const auto [begin, end] = kept_.equal_range(hash);
    std::shared_ptr<const HostTensor> found;
    for (auto it = begin; it != end && !found; ++it) {
      found = it->second.lock();
      if (found && !same(*found, *constant)) found.reset();
    }
    if (found) {
      constant = found;
    } else {
      kept_.emplace(hash, constant);
      addresses_.emplace(constant.get(), constant);
    }
  }
}

RunKind& RunKinds::at(const std::string& key) {
  const auto found = places_.find(key);
  if (found != places_.end()) {
    kinds_.splice(kinds_.begin(), kinds_, found->second);
  } else {
    kinds_.emplace_front().key = key;
    places_.emplace(key, kinds_.begin());
    if (kinds_.size() > kept_.recordings + kOthers) trim(kinds_.front());
  }
  kinds_.front().used = context.state().pieces.now();
  return kinds_.front();
}

void RunKinds::erase(RunKind& kind) {
  const auto place = places_.find(kind.key)->second;
  places_.erase(kind.key);
  kinds_.erase(place);
}

void RunKinds::forget(RunKind& kind) {
  kind.base.reset();
  kind.learned = false;
  kind.facts.clear();
  kind.recording = Recording();
  kind.inputs.clear();
  kind.outputs.clear();
  kind.room.reset();
  kind.nodes = NodeMemory();
  kind.graph.reset();
  drop_unused_constants();
}

void RunKinds::forget_all() {
  for (RunKind& kind : kinds_) forget(kind);
}

/// Those that no graph has any more.
void RunKinds::drop_unused_constants() {
  for (auto it = constants.begin(); it != constants.end();)
    it = it->first.use_count() == 1 ? constants.erase(it) : std::next(it);
}

void RunKinds::drop_unheld_constants() {
  for (const auto& [constant, tensor] : constants)
    if (tensor.defined()) context.state().constants->drop_unheld(*tensor.storage());
}

void RunKinds::keep(const Model::Kept& kept) {
  kept_ = kept;
  if (!kinds_.empty()) trim(kinds_.front());
}

/// Device memory that is not the newest one's too, each arena once; and the host's.
uint64_t RunKinds::bytes_beside(const RunKind& newest) const {
  std::set<const void*> counted = {newest.recording.memory(), newest.room.get()};
  uint64_t bytes = 0;
  for (const RunKind& kind : kinds_) {
    if (!kind.recording || &kind == &newest) continue;
    bytes += host_bytes(kind) + kind.recording.own_bytes();
    if (counted.insert(kind.recording.memory()).second)
      bytes += kind.recording.bytes() - kind.recording.own_bytes();
    if (kind.room && counted.insert(kind.room.get()).second)
      bytes += static_cast<uint64_t>(kind.room->bytes());
  }
  return bytes;
}

void RunKinds::trim(const RunKind& newest) {
  const auto recordings = static_cast<size_t>(
      std::count_if(kinds_.begin(), kinds_.end(), [](const RunKind& kind) { return bool(kind.recording); }));
  size_t over = recordings > std::max<size_t>(1, kept_.recordings)
                    ? recordings - std::max<size_t>(1, kept_.recordings)
                    : 0;
  for (auto it = kinds_.rbegin(); it != kinds_.rend(); ++it) {
    if (over == 0 && bytes_beside(newest) <= kept_.bytes) break;
    if (!it->recording || it->running > 0 || &*it == &newest) continue;
    forget(*it);
    if (over > 0) over--;
  }
  for (auto it = kinds_.end(); kinds_.size() > kept_.recordings + kOthers && it != kinds_.begin();) {
    --it;
    if (it->running > 0 || it->recording || &*it == &newest) continue;
    places_.erase(it->key);
    it = kinds_.erase(it);
  }
}

/// The last of the list that has a recording and may go; null: none.
RunKind* RunKinds::least_recent() noexcept {
  for (auto it = kinds_.rbegin(); it != kinds_.rend(); ++it)
    if (it->recording && it->running == 0) return &*it;
  return nullptr;
}

uint64_t RunKinds::oldest() noexcept {
  const std::unique_lock<std::recursive_mutex> lock(mutex, std::try_to_lock);
  const RunKind* const kind = lock.owns_lock() ? least_recent() : nullptr;
  return kind ? kind->used : kNone;
}

bool RunKinds::drop_oldest() noexcept {
  const std::unique_lock<std::recursive_mutex> lock(mutex, std::try_to_lock);
  RunKind* const kind = lock.owns_lock() ? least_recent() : nullptr;
  if (!kind) return false;
  forget(*kind);
  return true;
}

}  // namespace dlprim::detail
