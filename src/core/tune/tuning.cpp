// The user's rows in memory.
#include "core/tune/tuning.hpp"

#include <algorithm>

namespace dlprim::detail {

const UserRow* Tuning::find(const TuneProblem& problem) const {
  const auto it =
      std::find_if(rows_.begin(), rows_.end(), [&](const UserRow& row) { return row.problem == problem; });
  return it == rows_.end() ? nullptr : &*it;
}

void Tuning::load() {
  for (const UserRow& row : database_.load(device_)) {
    const UserRow* known = find(row.problem);
    if (!known) rows_.push_back(row);
    if (known && row.exhaustive && !known->exhaustive) rows_[static_cast<size_t>(known - rows_.data())] = row;
  }
  loaded_ = true;
}

std::vector<TuneAnswer> Tuning::answers(const TuneProblem& problem) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!loaded_) load();
  return look_up(problem, device_, rows_, sheets_);
}

bool Tuning::knows(const TuneProblem& problem, bool exhaustive) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto known = [&] {
    const UserRow* row = find(problem);
    return row && (row->exhaustive || !exhaustive);
  };
  if (!loaded_ || !known()) load();
  return known();
}

bool Tuning::store(const UserRow& row) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!loaded_) load();
  rows_.erase(std::remove_if(rows_.begin(), rows_.end(),
                             [&](const UserRow& old) { return old.problem == row.problem; }),
              rows_.end());
  rows_.push_back(row);
  return database_.store(device_, row);
}

TuneDatabase Tuning::database() {
  std::lock_guard<std::mutex> lock(mutex_);
  load();
  return {database_.path(), database_.reason()};
}

}  // namespace dlprim::detail
