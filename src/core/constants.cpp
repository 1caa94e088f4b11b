// What plans prepare of tensors that do not change.
#include "core/constants.hpp"

#include <algorithm>
#include <vector>

#include <dlprim/rehearsal.hpp>

#include "core/recorder.hpp"
#include "core/rehearsed.hpp"
#include "core/state.hpp"

namespace dlprim::detail {

PreparedConstant* ConstantStore::find(const Tensor& source, const std::string& form) const {
  PreparedConstants* const of_source = source.storage()->prepared.get();
  if (!of_source) return nullptr;
  for (PreparedConstant& constant : of_source->forms)
    if (constant.offset == source.offset() && constant.form == form) return &constant;
  return nullptr;
}

/// Its tensor, which has to end behind the lock.
Tensor ConstantStore::take_out(PreparedConstant& constant) {
  Tensor tensor = std::move(constant.tensor);
  ages_.erase(constant.age);
  std::list<PreparedConstant>& forms = constant.owner->forms;
  forms.erase(
      std::find_if(forms.begin(), forms.end(), [&](const auto& other) { return &other == &constant; }));
  return tensor;
}

Tensor ConstantStore::get(const Stream& stream, const Tensor& source, const std::string& form,
                          const Prepare& prepare) {
  std::unique_lock<std::mutex> lock(mutex_);
  PreparedConstant* found = find(source, form);
  if (Rehearsal::active() && !(found && found->tensor.defined())) {  // nothing is written
    lock.unlock();
    const NoLifetimes not_counted;  // what is kept is no part of a recording's memory
    return prepare();
  }
  while (found && !found->tensor.defined()) {  // another thread prepares it
    prepared_.wait(lock);
    found = find(source, form);
  }
  if (!found) return make(lock, stream, source, form, prepare);
  ages_.splice(ages_.begin(), ages_, found->age);
  if (!Rehearsal::active() && found->queue != stream.state().queue && found->ready.cl()() != nullptr) {
    if (found->ready.done())
      found->ready = Event();
    else
      stream.wait(found->ready);
  }
  return found->tensor;
}

/// Prepares without the lock: that takes memory, for which other constants may have to go.
Tensor ConstantStore::make(std::unique_lock<std::mutex>& lock, const Stream& stream, const Tensor& source,
                           const std::string& form, const Prepare& prepare) {
  std::unique_ptr<PreparedConstants>& of_source = source.storage()->prepared;
  if (!of_source) of_source = std::make_unique<PreparedConstants>();
  PreparedConstant& made = of_source->forms.emplace_back();
  made.form = form, made.offset = source.offset(), made.owner = of_source.get();
  ages_.push_front(&made);
  made.age = ages_.begin();
  lock.unlock();
  try {
    const RecordingPause once;
    const Tensor tensor = prepare();
    const Event ready = stream.record();
    lock.lock();
    made.tensor = tensor, made.queue = stream.state().queue, made.ready = ready;
    prepared_.notify_all();
    return tensor;
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    take_out(made);
    prepared_.notify_all();
    throw;
  }
}

void ConstantStore::forget(const std::string& form) {
  std::vector<Tensor> gone;  // end behind the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = ages_.begin(); it != ages_.end();) {
    PreparedConstant& constant = **it++;
    if (constant.form == form && constant.tensor.defined()) gone.push_back(take_out(constant));
  }
}

namespace {

/// Nobody else has it, nor what was prepared of it in turn: else that would be prepared once more beside the
/// one that is held.
bool is_unheld(const PreparedConstant& constant) {
  if (!constant.tensor.defined() || constant.tensor.storage().use_count() > 1) return false;
  const PreparedConstants* const of_it = constant.tensor.storage()->prepared.get();
  return !of_it || std::all_of(of_it->forms.begin(), of_it->forms.end(), is_unheld);
}

}  // namespace

bool ConstantStore::drop_oldest() {
  Tensor gone;  // ends behind the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto oldest = std::find_if(ages_.rbegin(), ages_.rend(),
                                   [](const PreparedConstant* constant) { return is_unheld(*constant); });
  if (oldest == ages_.rend()) return false;
  gone = take_out(**oldest);
  return true;
}

void ConstantStore::drop_unheld(Storage& weights) {
  std::vector<Tensor> gone;  // end behind the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!weights.prepared) return;
  std::list<PreparedConstant>& forms = weights.prepared->forms;
  for (auto it = forms.begin(); it != forms.end();) {
    PreparedConstant& constant = *it++;
    if (is_unheld(constant)) gone.push_back(take_out(constant));
  }
}

void ConstantStore::end(PreparedConstants& constants) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const PreparedConstant& constant : constants.forms) ages_.erase(constant.age);
}

Constants::Constants(const Context& context, const PlanKey& form)
    : store_(context.state().constants), form_(form.bytes()) {}

Tensor Constants::get(const Stream& stream, const Tensor& source,
                      const ConstantStore::Prepare& prepare) const {
  return store_->get(stream, source, form_, prepare);
}

void Constants::forget() const {
  if (store_) store_->forget(form_);
}

}  // namespace dlprim::detail
