// Pooling of regions of interest, as weighted elements that are gathered, and folded by sum or maximum.
#include <algorithm>
#include <cmath>

#include <dlprim/index.hpp>
#include <dlprim/pointwise.hpp>

#include "net/nodes/families.hpp"
#include "net/nodes/tables.hpp"

namespace dlprim::detail {
namespace {

constexpr int64_t kMostGathered = int64_t{1} << 24;  ///< elements at a time: 64 MiB

/// Elements of a plane of x that some outputs read, `taps` for each, of weight 0 where there are fewer.
struct RegionTaps {
  int64_t taps = 0;
  std::vector<int64_t> images, places;  ///< an image for each output, a place for each tap
  std::vector<float> weights;

  int64_t outputs() const { return static_cast<int64_t>(images.size()); }
  void add(int64_t place, float weight) {
    places.push_back(place);
    weights.push_back(weight);
  }
};

/// Rows `first` and on of y [regions * bins, C] from x [N, C, plane].
void pool_taps(NodeStep& step, const Tensor& x, const RegionTaps& taps, const Tensor& y, int64_t first,
               bool maximum) {
  const int64_t count = taps.outputs(), channels = x.shape()[1];
  const Tensor to = y.slice(0, first, first + count).reshape({count, 1, channels});
  if (taps.taps == 0) return fill(step.stream, 0, to, step.options);
  const Tensor near = step.scratch({count, taps.taps, channels}, x.dtype());
  const Tensor images = table(step, {count, 1}, taps.images);
  index(step.stream, x, {images, {}, table(step, {count, taps.taps}, taps.places)}, near, step.options);
  const Tensor weights = table(step, {count, taps.taps, 1}, taps.weights);
  reduce(step.stream, {near, weights}, {to}, {}, maximum ? max_of("x0 * x1") : sum_of("x0 * x1"),
         step.options);
}

struct RegionSizes {
  int64_t height, width, rows, columns;  ///< of x's planes, of y's
};

/// Pools region after region, those with as many taps together. `taps_of(r, taps)` gives those of a region,
/// all of its bins.
template <class F>
void pool_regions(NodeStep& step, int64_t regions, const RegionSizes& sizes, bool maximum, F taps_of) {
  const Shape& shape = step.shape(0);
  const int64_t channels = shape[1], bins = sizes.rows * sizes.columns;
  const Tensor x = step.dense(0).reshape({shape[0], channels, sizes.height * sizes.width});
  const Tensor y = step.scratch({regions * bins, channels}, step.dtype(0));
  RegionTaps gathered;
  int64_t first = 0;
  const auto flush = [&]() {
    if (gathered.outputs() != 0) pool_taps(step, x, gathered, y, first, maximum);
    first += gathered.outputs();
    gathered = RegionTaps();
  };
  for (int64_t r = 0; r < regions; r++) {
    RegionTaps own;
    taps_of(r, own);
    const int64_t elements = (gathered.outputs() + bins) * own.taps * channels;
    if (own.taps != gathered.taps || elements > kMostGathered) flush();
    gathered.taps = own.taps;
    gathered.images.insert(gathered.images.end(), own.images.begin(), own.images.end());
    gathered.places.insert(gathered.places.end(), own.places.begin(), own.places.end());
    gathered.weights.insert(gathered.weights.end(), own.weights.begin(), own.weights.end());
  }
  flush();
  copy(step.stream, y.reshape({regions, sizes.rows, sizes.columns, channels}).permute({0, 3, 1, 2}), step.y(),
       step.options);
}

RegionSizes region_sizes(const NodeStep& step, const Dims& size) {
  const Shape& x = step.shape(0);
  require(x.size() == 4, "x", x, " must have rank 4");
  require(size.size() == 2 && size[0] > 0 && size[1] > 0, "size", size, " must be two numbers above 0");
  return {x[2], x[3], size[0], size[1]};
}

int64_t checked_image(const NodeStep& step, int64_t image) {
  require(image >= 0 && image < step.shape(0)[0], "inputs", "a region of image ", image, " of x, ",
          step.shape(0));
  return image;
}

/// A sample between four elements; more than one element outside of the plane it is 0.
void bilinear(const RegionSizes& sizes, float y, float x, float factor, RegionTaps& taps) {
  const auto height = static_cast<float>(sizes.height), width = static_cast<float>(sizes.width);
  if (!(y >= -1 && y <= height && x >= -1 && x <= width)) {
    for (int i = 0; i < 4; i++) taps.add(0, 0);
    return;
  }
  const auto split = [](float at, int64_t size, int64_t& low, int64_t& high, float& part) {
    at = std::max(at, 0.0f);
    low = std::min(static_cast<int64_t>(at), size - 1);
    high = std::min(low + 1, size - 1);
    part = low == size - 1 ? 0 : at - static_cast<float>(low);
  };
  int64_t top = 0, bottom = 0, left = 0, right = 0;
  float down = 0, across = 0;
  split(y, sizes.height, top, bottom, down);
  split(x, sizes.width, left, right, across);
  taps.add(top * sizes.width + left, (1 - down) * (1 - across) * factor);
  taps.add(top * sizes.width + right, (1 - down) * across * factor);
  taps.add(bottom * sizes.width + left, down * (1 - across) * factor);
  taps.add(bottom * sizes.width + right, down * across * factor);
}

/// Inputs: x [N, C, H, W]; regions [R, 4]: x and y of two corners; the image of each, [R]. Attributes: size,
/// of y's planes; scale, of regions; samples along each side of a bin (0: about one for each element); shift:
/// regions are moved by half an element; maximum: of samples' weighted elements, not the mean. (He et al.,
/// 2017) In f32, as everybody has it: how many samples there are depends on the rounding.
void infer_roi_align(NodeStep& step) {
  const RegionSizes sizes = region_sizes(step, step.dims("size"));
  const Shape& regions = step.shape(1);
  require(regions.size() == 2 && regions[1] == 4 && step.shape(2) == Shape{regions[0]}, "inputs",
          "regions are ", regions, ", their images ", step.shape(2), ", must be [R, 4] and [R]");
  step.output(0, step.dtype(0), {regions[0], step.shape(0)[1], sizes.rows, sizes.columns});
}
void run_roi_align(NodeStep& step) {
  if (step.y().numel() == 0) return;
  const RegionSizes sizes = region_sizes(step, step.dims("size"));
  const std::vector<double> corners = step.numbers(1);
  const std::vector<int64_t> images = step.integers(2);
  const bool shift = step.flag("shift", true), maximum = step.flag("maximum");
  const auto scale = static_cast<float>(step.number("scale", 1));
  const int64_t samples = step.integer("samples", 0);
  const auto taps_of = [&](int64_t r, RegionTaps& taps) {
    const auto corner = [&](int k) {
      return static_cast<float>(corners[static_cast<size_t>(4 * r + k)]) * scale - (shift ? 0.5f : 0.0f);
    };
    float across = corner(2) - corner(0), down = corner(3) - corner(1);
    if (!shift) across = std::max(across, 1.0f), down = std::max(down, 1.0f);
    const float row = down / static_cast<float>(sizes.rows),
                column = across / static_cast<float>(sizes.columns);
    require(std::isfinite(row) && std::isfinite(column), "inputs", "region ", r, " is not finite");
    const auto how_many = [&](float bin) {
      return samples > 0 ? samples : std::max<int64_t>(0, static_cast<int64_t>(std::ceil(bin)));
    };
    const int64_t rows = how_many(row), columns = how_many(column);
    require(rows * columns <= kMostGathered / 4, "inputs", "region ", r, " has ", rows, " x ", columns,
            " samples");
    const float factor = maximum ? 1.0f : 1.0f / static_cast<float>(std::max<int64_t>(1, rows * columns));
    taps.taps = 4 * rows * columns;
    for (int64_t bin = 0; bin < sizes.rows * sizes.columns; bin++) {
      taps.images.push_back(checked_image(step, images[static_cast<size_t>(r)]));
      const auto top = static_cast<float>(bin / sizes.columns),
                 left = static_cast<float>(bin % sizes.columns);
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
          bilinear(sizes,
                   corner(1) + top * row + (static_cast<float>(i) + 0.5f) * row / static_cast<float>(rows),
                   corner(0) + left * column +
                       (static_cast<float>(j) + 0.5f) * column / static_cast<float>(columns),
                   factor, taps);
    }
  };
  pool_regions(step, step.shape(1)[0], sizes, maximum, taps_of);
}

/// Inputs: x [N, C, H, W]; regions [R, 5]: an image, x and y of two corners, which are rounded to elements.
/// Attributes: size, of y's planes; scale, of regions. The maximum of each bin, of empty ones 0. (Girshick,
/// 2015)
void infer_roi_max(NodeStep& step) {
  const RegionSizes sizes = region_sizes(step, step.dims("size"));
  const Shape& regions = step.shape(1);
  require(regions.size() == 2 && regions[1] == 5, "inputs", "regions are ", regions, ", must be [R, 5]");
  step.output(0, step.dtype(0), {regions[0], step.shape(0)[1], sizes.rows, sizes.columns});
}

/// Elements [begin, end) of a bin along one axis.
struct Bin {
  int64_t begin, end;
};
Bin bin_of(float start, float end, int64_t bins, int64_t bin, int64_t size) {
  const float extent = std::max(end - start + 1, 1.0f), each = extent / static_cast<float>(bins);
  const auto bound = [&](float at) {
    return static_cast<int64_t>(std::clamp(at + start, 0.0f, static_cast<float>(size)));
  };
  return {bound(std::floor(static_cast<float>(bin) * each)),
          bound(std::ceil(static_cast<float>(bin + 1) * each))};
}

void run_roi_max(NodeStep& step) {
  if (step.y().numel() == 0) return;
  const RegionSizes sizes = region_sizes(step, step.dims("size"));
  const std::vector<double> regions = step.numbers(1);
  const auto scale = static_cast<float>(step.number("scale", 1));
  const auto taps_of = [&](int64_t r, RegionTaps& taps) {
    const auto corner = [&](int k) {
      return std::round(static_cast<float>(regions[static_cast<size_t>(5 * r + k)]) * scale);
    };
    const auto image = static_cast<int64_t>(regions[static_cast<size_t>(5 * r)]);
    std::vector<std::pair<Bin, Bin>> bins;
    for (int64_t i = 0; i < sizes.rows; i++)
      for (int64_t j = 0; j < sizes.columns; j++)
        bins.emplace_back(bin_of(corner(2), corner(4), sizes.rows, i, sizes.height),
                          bin_of(corner(1), corner(3), sizes.columns, j, sizes.width));
    for (const auto& [rows, columns] : bins)
      taps.taps = std::max(taps.taps, std::max<int64_t>(0, rows.end - rows.begin) *
                                          std::max<int64_t>(0, columns.end - columns.begin));
    for (const auto& [rows, columns] : bins) {
      taps.images.push_back(checked_image(step, image));
      const size_t before = taps.places.size();
      for (int64_t i = rows.begin; i < rows.end; i++)
        for (int64_t j = columns.begin; j < columns.end; j++) taps.add(i * sizes.width + j, 1);
      // Smaller bins have their first element again, empty ones nothing but zeros.
      const bool empty = taps.places.size() == before;
      const int64_t again = empty ? 0 : taps.places[before];
      while (static_cast<int64_t>(taps.places.size() - before) < taps.taps) taps.add(again, empty ? 0 : 1);
    }
  };
  pool_regions(step, step.shape(1)[0], sizes, true, taps_of);
}

constexpr NodeKind kKinds[] = {
    {"roi_align", 3, 3, infer_roi_align, run_roi_align},
    {"roi_max", 2, 2, infer_roi_max, run_roi_max},
};

}  // namespace

KindList region_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
