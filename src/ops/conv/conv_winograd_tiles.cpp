// Winograd's tiles, and launches of their transforms.
#include "ops/conv/conv_winograd_tiles.hpp"

#include <algorithm>
#include <cstdlib>

#include "core/kernel_source.hpp"
#include "ops/lib/epilogue.hpp"

namespace dlprim::detail {
namespace {

constexpr int kSegment = 8;          // tiles side by side in a work-group of the kernels for CPUs
constexpr int kGroup = 64;           // work-items of the others, along one axis
constexpr int kRow = 32, kRows = 4;  // with pairs of channels, and rows of these
constexpr int kGroupsPerUnit = 8;    // of the kernels for CPUs

/// Rows too short for vectors are moved element by element (dw of 512 x 512 x 3 x 3: 1.6 against 11 ms).
constexpr int kLeastColumns = 4;
/// Filters one behind the other in a work-group, where the vectors' elements lie further apart than these
/// (512 x 512: 3.4 against 4 ms; otherwise one, 1.7 against 3).
constexpr int64_t kDeepFilters = 16;

enum class UnitAxis : uint8_t { none, channels, columns };

UnitAxis unit_axis(const WinogradImages& x) {
  if (x.strides[1] == 1 || x.channels == 1) return UnitAxis::channels;
  return x.strides[3] == 1 && x.size[1] >= kLeastColumns ? UnitAxis::columns : UnitAxis::none;
}

const FractionMatrix& matrix_of(const WinogradMatrices& all, WinogradMatrix which) {
  return which == WinogradMatrix::source   ? all.source
         : which == WinogradMatrix::filter ? all.filter
                                           : all.target;
}

/// Pixels of a tile.
int tile_size(const WinogradForm& form, WinogradMatrix matrix, size_t axis) {
  return matrix == WinogradMatrix::source   ? form.products(axis)
         : matrix == WinogradMatrix::filter ? form.taps[axis]
                                            : form.results[axis];
}

WinogradGrid grid_of(const WinogradImages& x, const WinogradLayout& layout, int first, int rows,
                     bool channels_last) {
  const auto number = [](int64_t n) { return static_cast<int>(n); };
  WinogradGrid g{};
  g.first = x.first, g.plane = layout.plane, g.part = layout.part(), g.parts = number(layout.parts);
  g.part_rows = std::max(1, rows / g.parts);
  g.extent = number(x.extent);
  g.channels = x.channels, g.height = x.size[0], g.width = x.size[1];
  g.n_stride = number(x.strides[0]), g.c_stride = number(x.strides[1]);
  g.h_stride = number(x.strides[2]), g.w_stride = number(x.strides[3]);
  g.tiles_h = x.tiles[0], g.tiles_w = x.tiles[1], g.pad_h = x.pad[0], g.pad_w = x.pad[1];
  g.first_row = first, g.rows = rows;
  g.tile_step = g.channel_step = 1;
  (channels_last ? g.tile_step : g.channel_step) = number(layout.pitch);
  return g;
}

/// Whether pairs of channels lie on 8-byte boundaries, as they do in transformed tiles.
bool has_pairs(const ConvProblem& p, const WinogradImages& x) {
  const auto even = [](int64_t n) { return n % 2 == 0; };
  return p.dtype == DType::f32 && p.result_dtype == DType::f32 && x.aligned && x.strides[1] == 1 &&
         even(x.channels) && even(x.strides[0]) && even(x.strides[2]) && even(x.strides[3]) && even(x.first);
}

}  // namespace

int winograd_lanes(const Device& device) {
  return device.facts().float_vector_width >= 16 ? 16 : 8;
}

WinogradForm winograd_form(const ConvProblem& p, int m) {
  WinogradForm form;
  const bool filter = p.direction == ConvDirection::backward_filter;
  for (size_t axis = 0; axis < 2; axis++) {
    const int taps = p.w_space[axis + 1];
    if (taps == 1) continue;
    form.results[axis] = filter ? taps : m;
    form.taps[axis] = filter ? m : taps;
  }
  return form;
}

std::string refuse_winograd_strict(const ConvProblem& p, const WinogradForm& form, int64_t tiles) {
  const bool filter = p.direction == ConvDirection::backward_filter;
  const bool both = p.w_space[1] > 1 && p.w_space[2] > 1;
  const int products = std::max(form.products(0), form.products(1));
  if (products > 4)
    return cat(products, " products for a row of a tile err more than multiply-adds, and math is strict");
  if (filter && !both) return "tiles of one axis err more than multiply-adds, and math is strict";
  // Transforms round as often for short sums as for long ones.
  const int64_t least = filter ? 64 : 16, terms = filter                                  ? tiles
                                                  : p.direction == ConvDirection::forward ? p.c
                                                                                          : p.k;
  if (terms < least)
    return cat("sums of ", terms, " products err more than multiply-adds, must be of ", least,
               " or more where math is strict");
  return {};
}

std::string refuse_winograd_form(const ConvProblem& p, const WinogradForm& form) {
  if (p.has_depth()) return "has three dimensions";
  static constexpr const char* kAxes[2] = {"H", "W"};
  bool any = false;
  for (size_t axis = 0; axis < 2; axis++) {
    const int taps = p.w_space[axis + 1];
    if (p.stride[axis + 1] != 1)
      return cat("stride along ", kAxes[axis], " is ", p.stride[axis + 1], ", not 1");
    if (taps > 1 && p.dilation[axis + 1] != 1)
      return cat("dilation along ", kAxes[axis], " is ", p.dilation[axis + 1], ", not 1");
    if (taps != 1 && taps != 3 && taps != 5 && taps != 7)
      return cat(taps, " taps along ", kAxes[axis], ", none of 1, 3, 5, 7");
    any |= taps > 1;
  }
  if (!any) return "has a window of one tap";
  // Eight points along both axes err ten times as much as a chain of multiply-adds.
  const bool both = p.w_space[1] > 1 && p.w_space[2] > 1;
  for (size_t axis = 0; axis < 2; axis++) {
    const int products = form.products(axis), most = both ? 6 : 8;
    if (products > most) return cat(products, " products along ", kAxes[axis], " exceed ", most);
  }
  return {};
}

WinogradLayout::WinogradLayout(bool last, int64_t count, int64_t of_tiles, int64_t of_channels, int64_t run,
                               int64_t unit)
    : channels_last(last), points(count), tiles(of_tiles), channels(of_channels) {
  pitch = round_up(channels_last ? channels : tiles, run);
  // Planes an odd number of units apart: at powers of two all of a tile's numbers would share a set of a
  // cache.
  const int64_t units = ceil_div((channels_last ? tiles : channels) * pitch, unit);
  plane = (units | 1) * unit;
}

WinogradLayout WinogradLayout::in_parts(int64_t count) const {
  WinogradLayout result = *this;
  result.parts = count;
  return result;
}

TensorDesc WinogradLayout::desc(int64_t count) const {
  TensorDesc result({parts * points, count, channels});
  result.strides = {plane, channels_last ? pitch : 1, channels_last ? 1 : pitch};
  return result;
}

Tensor WinogradLayout::view(const Tensor& memory, size_t at, int64_t count) const {
  const Tensor all = workspace_part(memory, at, {parts * part()});
  return all.as_strided(desc(count).shape, desc(count).strides);
}

WinogradTransform::WinogradTransform(const Context& context, const ConvProblem& p, const WinogradForm& form,
                                     WinogradMatrix matrix, const WinogradImages& images, Plane step,
                                     bool channels_last, bool cpu)
    : images_(images),
      target_(matrix == WinogradMatrix::target),
      channels_last_(channels_last),
      cpu_(cpu),
      lanes_(cpu ? winograd_lanes(context.device()) : 1),
      units_(std::max(1, context.device().facts().compute_units)) {
  pairs_ = !cpu && channels_last && has_pairs(p, images);
  const UnitAxis unit = unit_axis(images);
  const ConvChannels channels = cpu && unit != UnitAxis::columns ? ConvChannels::columns : ConvChannels::rows;
  Defines defines = target_ ? conv_defines(p, channels) : Defines().set("AB_TYPE", name_of(p.dtype));
  defines.set("STEP_H", step[0]).set("STEP_W", step[1]);
  defines.set("POINTS_H", form.products(0)).set("POINTS_W", form.products(1));
  if (!target_) defines.set("SIZE_H", tile_size(form, matrix, 0)).set("SIZE_W", tile_size(form, matrix, 1));
  if (cpu)
    defines.set("VW", lanes_).set("UNIT_AXIS", static_cast<int>(unit)).set("SEGMENT", kSegment);
  else
    defines.set("CHANNELS_LAST", channels_last).set("PAIRS", pairs_);
  const std::string name = target_ ? "conv_winograd_target" : "conv_winograd_source";
  const std::string file = name + (cpu ? "_cpu" : "");
  const WinogradMatrices along_h = winograd_matrices(form.results[0], form.taps[0]),
                         along_w = winograd_matrices(form.results[1], form.taps[1]);
  kernel_ = context.state().programs.generated(
      file, fill_winograd_slots(kernel_source(file), matrix_of(along_h, matrix), matrix_of(along_w, matrix)),
      name, defines);
}

void WinogradTransform::run(const Stream& stream, const Tensor& images, const Tensor& transformed,
                            const WinogradLayout& layout, int first, int rows,
                            const EpilogueTensors& with) const {
  const WinogradImages& x = images_;
  Launch launch(stream, kernel_);
  launch.arg(target_ ? transformed : images);
  if (target_) launch.arg(images);
  launch.arg(grid_of(x, layout, first, rows, channels_last_));
  if (target_)
    bind_epilogue(launch, DType::f32, with);  // no f64 here
  else
    launch.arg(transformed);
  if (!cpu_) {
    const size_t tiles = static_cast<size_t>(rows) * static_cast<size_t>(x.tiles[1]),
                 channels = static_cast<size_t>(x.channels);
    if (pairs_) {
      launch.run({items_in_groups(x.channels / 2, kRow), items_in_groups(static_cast<int64_t>(tiles), kRows)},
                 {kRow, kRows});
      return;
    }
    const int64_t fast = static_cast<int64_t>(channels_last_ ? channels : tiles);
    launch.run({items_in_groups(fast, kGroup), channels_last_ ? tiles : channels}, {kGroup, 1});
    return;
  }
  const int64_t segments = ceil_div(x.tiles[1], kSegment), blocks = ceil_div(x.channels, lanes_);
  const int64_t wanted = ceil_div(kGroupsPerUnit * units_, segments * blocks);
  const bool filters = x.tiles[0] == 1 && x.tiles[1] == 1;
  const int64_t most = !filters ? rows : std::abs(x.strides[1]) < std::abs(x.strides[0]) ? 1 : kDeepFilters;
  const auto deep = static_cast<int>(std::min(most, std::max<int64_t>(1, rows / wanted)));
  launch.arg(kSegment).arg(deep);
  launch.run(
      {static_cast<size_t>(blocks), static_cast<size_t>(segments), static_cast<size_t>(ceil_div(rows, deep))},
      {1, 1, 1});
}

}  // namespace dlprim::detail
