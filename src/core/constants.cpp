// What plans keep of tensors that do not change.
#include "core/constants.hpp"

#include <algorithm>

#include <dlprim/rehearsal.hpp>

#include "core/state.hpp"

namespace dlprim::detail {

Tensor Constants::get(const Stream& stream, const Tensor& source,
                      const std::function<Tensor()>& prepare) const {
  // Preparing is only enqueued under the lock, so nobody waits long, and nobody prepares twice.
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::shared_ptr<QueueState>& queue = stream.state().queue;
  for (Entry& entry : entries_) {
    if (entry.offset != source.offset() || entry.memory.lock() != source.storage()) continue;
    if (entry.queue != queue && entry.ready.cl()() != nullptr) {
      if (entry.ready.done())
        entry.ready = Event();
      else
        stream.wait(entry.ready);
    }
    return entry.prepared;
  }
  entries_.erase(
      std::remove_if(entries_.begin(), entries_.end(), [](const Entry& e) { return e.memory.expired(); }),
      entries_.end());
  const Tensor prepared = prepare();
  if (Rehearsal::active()) return prepared;  // nothing was written
  entries_.push_back({source.storage(), source.offset(), prepared, queue, stream.record()});
  return prepared;
}

void Constants::forget() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.clear();
}

}  // namespace dlprim::detail
