// Winograd's tiles: which F(m, r) serves a problem, how transformed tensors lie in memory, and the kernels
// that transform. The engine that makes a convolution of these is conv_winograd.cpp.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/composed.hpp"
#include "core/gen/winograd.hpp"
#include "ops/conv/conv_problem.hpp"
#include "ops/lib/int64.hpp"

namespace dlprim::detail {

#include "kernels/conv/conv_winograd.h"

/// Along height and width.
using Plane = std::array<int, 2>;

/// F(results, taps) along each axis; F(1, 1) where the window has one tap. Backward filter's taps are the
/// pixels of a tile of dy, its results those of dw.
struct WinogradForm {
  Plane results{1, 1}, taps{1, 1};
  int products(size_t axis) const { return results[axis] + taps[axis] - 1; }
  int points() const { return products(0) * products(1); }
};

/// For tiles of `m` results (backward filter: pixels of dy) along each axis that has several taps.
WinogradForm winograd_form(const ConvProblem& p, int m);
/// Why the error exceeds that of a chain of multiply-adds, empty if it does not. `tiles`: in a whole run.
/// docs/notes/2026-11-22-winograd.md has the measurements.
std::string refuse_winograd_strict(const ConvProblem& p, const WinogradForm& form, int64_t tiles);
/// Why there is none; empty if there is.
std::string refuse_winograd_form(const ConvProblem& p, const WinogradForm& form);

/// A transformed tensor: for each point a matrix [tile][channel], or [channel][tile].
struct WinogradLayout {
  bool channels_last = true;
  int64_t points = 0, tiles = 0, channels = 0, pitch = 0, plane = 0;
  int64_t parts = 1;  ///< so many, each of `points` planes, one behind the other
  WinogradLayout() = default;
  /// Runs are `run` elements long or a multiple of it, planes an odd multiple of `unit`.
  WinogradLayout(bool channels_last, int64_t points, int64_t tiles, int64_t channels, int64_t run,
                 int64_t unit);
  /// The same, `count` times.
  WinogradLayout in_parts(int64_t count) const;
  int64_t part() const { return points * plane; }
  size_t bytes() const { return static_cast<size_t>(parts * part()) * sizeof(float); }
  /// [parts x points, tiles, channels]; of the first `count` tiles of each.
  TensorDesc desc(int64_t count) const;
  TensorDesc desc() const { return desc(tiles); }
  Tensor view(const Tensor& memory, size_t at, int64_t count) const;
};

/// A tensor as tiles see it: images of `channels`, which in a filter are whatever takes their places.
struct WinogradImages {
  int images = 0, channels = 0;
  Plane size{1, 1}, tiles{1, 1}, pad{0, 0};
  std::array<int64_t, 4> strides{};  ///< of image, channel, row, column; negative ones count from `first`
  int64_t first = 0, extent = 0;
  bool aligned = false;  ///< as TensorDesc's
  int rows() const { return images * tiles[0]; }
};

enum class WinogradMatrix : uint8_t { source, filter, target };

/// One of the kernels.
class WinogradTransform {
 public:
  WinogradTransform() = default;
  /// `step`: from a tile to the next. `cpu`: the kernels for CPUs, which want channels last.
  WinogradTransform(const Context& context, const ConvProblem& p, const WinogradForm& form,
                    WinogradMatrix matrix, const WinogradImages& images, Plane step, bool channels_last,
                    bool cpu);

  /// `rows` rows of tiles from `first` on between `images` and `transformed`, as many into each of the
  /// layout's parts. The target's matrix adds the parts up, and has the epilogue.
  void run(const Stream& stream, const Tensor& images, const Tensor& transformed,
           const WinogradLayout& layout, int first, int rows, const EpilogueTensors& with = {}) const;

 private:
  WinogradImages images_;
  bool target_ = false, channels_last_ = true, cpu_ = false;
  bool pairs_ = false;  ///< of channels
  int lanes_ = 1, units_ = 1;
  Kernel kernel_;
};

/// Elements that the CPU's kernels move at a time.
int winograd_lanes(const Device& device);

}  // namespace dlprim::detail
