// Batches of training data, made ahead in a thread while the device computes.
//
//   BatchLoader loader(steps, [&](int64_t k) { return make_batch(k); });
//   while (auto batch = loader.next()) trainer.step(to_device(stream, *batch));
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <dlprim/export.hpp>
#include <dlprim/safetensors.hpp>

namespace dlprim {

/// One thread at a time may call next().
class DLPRIM_API BatchLoader {
 public:
  /// Tensors by the names of a graph's inputs.
  using Batch = std::map<std::string, HostTensor>;

  /// Calls `make` with 0, 1, ..., batches - 1, in this order, in a thread of its own, at most `ahead` batches
  /// before they are asked for. Throws ValidationError unless batches >= 0 and ahead >= 1.
  BatchLoader(int64_t batches, std::function<Batch(int64_t)> make, int64_t ahead = 2);
  /// Waits for the batch that is being made.
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// The next batch, for which it waits; nothing behind the last one. Throws what `make` threw for this
  /// batch, and from then on gives nothing.
  std::optional<Batch> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dlprim
