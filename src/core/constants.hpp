// Constants: what plans prepare of tensors whose contents do not change: weights packed into panels, split
// into parts, transformed. It belongs to the weight's memory and to the form that it is prepared in: every
// plan of a context that wants this form of this weight shares it, on every stream and thread, whatever the
// plan's other sizes are. It ends with the weight, with forget(), or when the context is short of memory.
//
// The weight's Storage owns it. Neither the context nor a plan may: a tensor holds its context, which holds
// plans.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include <dlprim/export.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

#include "core/plan_cache.hpp"

namespace dlprim::detail {

struct QueueState;
struct Storage;
struct PreparedConstants;

/// One form of one weight.
struct PreparedConstant {
  std::string form;
  int64_t offset = 0;                 ///< the weight's, in its memory
  Tensor tensor;                      ///< undefined while a thread prepares it
  std::shared_ptr<QueueState> queue;  ///< where it was prepared,
  Event ready;                        ///< and when; empty once it is known to be done
  PreparedConstants* owner = nullptr;
  std::list<PreparedConstant*>::iterator age;
};

/// All forms of the weights in one Storage, which owns them.
struct PreparedConstants {
  std::list<PreparedConstant> forms;
};

/// A context's list of them, by their last use. It owns none.
class ConstantStore {
 public:
  using Prepare = std::function<Tensor()>;

  Tensor get(const Stream& stream, const Tensor& source, const std::string& form, const Prepare& prepare);
  /// Gives up that form of all weights.
  void forget(const std::string& form);
  /// Gives up the least recently used one that nothing else holds; false if there is none.
  bool drop_oldest();
  /// Gives up what nothing else holds of the weights in that memory.
  DLPRIM_API void drop_unheld(Storage& weights);
  /// The memory of the weights ends.
  void end(PreparedConstants& constants) noexcept;

 private:
  PreparedConstant* find(const Tensor& source, const std::string& form) const;
  Tensor take_out(PreparedConstant& constant);
  Tensor make(std::unique_lock<std::mutex>& lock, const Stream& stream, const Tensor& source,
              const std::string& form, const Prepare& prepare);

  std::mutex mutex_;
  std::condition_variable prepared_;
  std::list<PreparedConstant*> ages_;  ///< newest first
};

/// What an engine prepares of one constant operand.
class Constants {
 public:
  /// Nothing is asked for.
  Constants() = default;
  /// `form` says all that the prepared bits depend on beside the operand's bits: the kernel and its macros,
  /// the operand's sizes and strides, the layout. Sizes of other operands do not belong there.
  Constants(const Context& context, const PlanKey& form);

  /// What `prepare` made of `source`, which is known by its memory and offset. If nothing is kept of it in
  /// this form, `prepare` is called: it makes a tensor and enqueues on `stream` what fills it. Work that
  /// `stream` is given after get() comes after that, whichever stream it was enqueued on. A recording does
  /// not prepare again in its replays. Throws what `prepare` throws, DeviceError.
  Tensor get(const Stream& stream, const Tensor& source, const ConstantStore::Prepare& prepare) const;
  /// What `fill` writes of `source`: to `room` if it is defined, in every run, or else to a tensor of that
  /// shape which is kept.
  template <class Fill>
  Tensor filled(const Stream& stream, const Tensor& source, const Tensor& room, const Shape& shape,
                DType dtype, const Fill& fill) const {
    if (room.defined()) {
      fill(room);
      return room;
    }
    return get(stream, source, [&] {
      const Tensor kept(stream, shape, dtype);
      fill(kept);
      return kept;
    });
  }
  /// This form of every weight is made anew when a plan next asks for it. Work already enqueued is not
  /// disturbed.
  void forget() const;

 private:
  std::shared_ptr<ConstantStore> store_;
  std::string form_;
};

}  // namespace dlprim::detail
