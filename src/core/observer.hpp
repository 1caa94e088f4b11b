// OperatorObserver: what a test is told of operators as they run, so that it can spoil their outputs. There
// is none in a user's program, where it costs the look at a null pointer.
#pragma once

#include <string>

#include <dlprim/tensor.hpp>

namespace dlprim::detail {

struct StreamState;

struct OperatorObserver {
  virtual ~OperatorObserver() = default;
  /// An operator that is in no other starts; `text` is its line of the log.
  virtual void begins(const StreamState& stream, const std::string& text) = 0;
  /// A launch that is not yet on the queue reads or writes `tensor`.
  virtual void uses(const StreamState& stream, const Tensor& tensor) = 0;
  /// The operator's commands are all on the queue.
  virtual void ends(const StreamState& stream) = 0;
  /// The host is about to read `tensor`.
  virtual void reads(const Tensor& tensor) = 0;
};

extern OperatorObserver* operator_observer;

/// What Storage::touch does, for a tensor that a launch takes.
void touch(const StreamState& stream, const Tensor& tensor);

}  // namespace dlprim::detail
