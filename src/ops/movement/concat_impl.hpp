// Concatenation as its engines see it.
#pragma once

#include <dlprim/movement.hpp>

#include "core/engine.hpp"

namespace dlprim {

struct Concat::Impl : detail::EngineImpl {
  explicit Impl(const ConcatDesc& d) : desc(d) {}
  /// Everything is checked, y has elements.
  virtual void run(const Stream& stream, const std::vector<Tensor>& inputs, const Tensor& y) const = 0;

  ConcatDesc desc;
};

namespace detail {

/// The axis counts from the front.
using ConcatEngine = Engine<ConcatDesc, Concat::Impl>;
/// On GPUs: dense tensors of one dtype, in one launch.
extern const ConcatEngine kConcatWords;

}  // namespace detail
}  // namespace dlprim
