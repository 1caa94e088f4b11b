// Pooling of regions and the choice of boxes, against plain loops over samples, elements and pairs.
#include <dlprim/roi.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

#include "cases/indexing.hpp"
#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

struct Problem {
  int64_t images = 2, channels = 3, height = 9, width = 7, rows = 2, columns = 3;
  RoiParams params;
  int64_t of_y() const { return params.by_position ? channels / (rows * columns) : channels; }
};

using Values64 = std::vector<double>;

/// An element of x's plane that a bin reads, and by what it is multiplied.
using Tap = std::function<void(int64_t h, int64_t w, double weight)>;

void sampled(const Problem& p, const double* roi, int64_t bin_row, int64_t bin_column, const Tap& tap) {
  const double half = p.params.aligned ? 0.5 : 0;
  const double left = roi[1] * p.params.scale - half, top = roi[2] * p.params.scale - half;
  double across = roi[3] * p.params.scale - half - left, down = roi[4] * p.params.scale - half - top;
  if (!p.params.aligned) across = std::max(across, 1.0), down = std::max(down, 1.0);
  const double row = down / static_cast<double>(p.rows), column = across / static_cast<double>(p.columns);
  const auto count = [&](double bin) {
    return p.params.samples > 0 ? p.params.samples : static_cast<int64_t>(std::ceil(bin));
  };
  const int64_t m = count(row), n = count(column);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double y = top + static_cast<double>(bin_row) * row +
                 (static_cast<double>(i) + 0.5) * row / static_cast<double>(m),
             x = left + static_cast<double>(bin_column) * column +
                 (static_cast<double>(j) + 0.5) * column / static_cast<double>(n);
      if (y < -1 || y > static_cast<double>(p.height) || x < -1 || x > static_cast<double>(p.width)) continue;
      y = std::clamp(y, 0.0, static_cast<double>(p.height - 1));
      x = std::clamp(x, 0.0, static_cast<double>(p.width - 1));
      const auto h = static_cast<int64_t>(y), w = static_cast<int64_t>(x);
      const double v = y - static_cast<double>(h), u = x - static_cast<double>(w);
      const double share = 1.0 / static_cast<double>(m * n);
      tap(h, w, (1 - v) * (1 - u) * share);
      if (u > 0) tap(h, w + 1, (1 - v) * u * share);
      if (v > 0) tap(h + 1, w, v * (1 - u) * share);
      if (u > 0 && v > 0) tap(h + 1, w + 1, v * u * share);
    }
}

/// Elements of a bin with rounded ends along one axis; `more` of them belong to a region, `room` bounds them.
std::pair<int64_t, int64_t> ends(double low, double high, int64_t more, int64_t bins, int64_t bin,
                                 int64_t room) {
  const auto first = static_cast<int64_t>(std::round(low));
  const int64_t length = std::max<int64_t>(static_cast<int64_t>(std::round(high)) - first + more, 1);
  const auto bound = [&](int64_t at) { return std::clamp<int64_t>(at + first, 0, room); };
  return {bound(bin * length / bins), bound((bin * length + length + bins - 1) / bins)};
}

void elements(const Problem& p, const double* roi, int64_t bin_row, int64_t bin_column, const Tap& tap) {
  const double s = p.params.scale;
  const auto [top, bottom] = ends(roi[2] * s, roi[4] * s, 0, p.rows, bin_row, p.height - 1);
  const auto [left, right] = ends(roi[1] * s, roi[3] * s, 0, p.columns, bin_column, p.width - 1);
  for (int64_t h = top; h < bottom; h++)
    for (int64_t w = left; w < right; w++)
      tap(h, w, 1.0 / static_cast<double>((bottom - top) * (right - left)));
}

/// Calls f(place in y, place in x, weight) for all that all bins read.
template <class F>
void all_taps(const Problem& p, const Values64& rois, const F& f) {
  const auto regions = static_cast<int64_t>(rois.size() / 5);
  for (int64_t r = 0; r < regions; r++) {
    const double* roi = rois.data() + 5 * r;
    if (roi[0] < 0 || roi[0] >= static_cast<double>(p.images)) continue;
    for (int64_t c = 0; c < p.of_y(); c++)
      for (int64_t i = 0; i < p.rows; i++)
        for (int64_t j = 0; j < p.columns; j++) {
          const int64_t plane = p.params.by_position ? (c * p.rows + i) * p.columns + j : c;
          const int64_t in_y = ((r * p.of_y() + c) * p.rows + i) * p.columns + j;
          const Tap tap = [&](int64_t h, int64_t w, double weight) {
            const int64_t in_x =
                ((static_cast<int64_t>(roi[0]) * p.channels + plane) * p.height + h) * p.width + w;
            f(static_cast<size_t>(in_y), static_cast<size_t>(in_x), weight);
          };
          p.params.bins == RoiBins::samples ? sampled(p, roi, i, j, tap) : elements(p, roi, i, j, tap);
        }
  }
}

/// The largest difference, in units of the largest expected number.
double farthest(const Tensor& found, const Values64& expected) {
  if (found.dtype() != DType::f64) return deviation(host_values(found), expected);
  const Values64 values = read<double>(stream(), found);
  double most = 0, scale = 0;
  for (size_t i = 0; i < values.size(); i++) {
    most = std::max(most, std::abs(values[i] - expected[i]));
    scale = std::max(scale, std::abs(expected[i]));
  }
  return most / scale;
}

void check(const Problem& p, const Values64& rois, DType dtype, double bound) {
  const auto regions = static_cast<int64_t>(rois.size() / 5);
  const Shape x_shape{p.images, p.channels, p.height, p.width}, y_shape{regions, p.of_y(), p.rows, p.columns};
  Rng rng(5);
  const std::vector<float> xs = integers(element_count(x_shape), rng),
                           dys = integers(element_count(y_shape), rng);
  const Tensor x = device_tensor(x_shape, xs, dtype), dy = device_tensor(y_shape, dys, dtype),
               boxes = device_tensor({regions, 5}, std::vector<float>(rois.begin(), rois.end()), dtype);
  Values64 y(dys.size()), dx(xs.size());
  all_taps(p, rois, [&](size_t in_y, size_t in_x, double weight) {
    y[in_y] += weight * static_cast<double>(xs[in_x]);
    dx[in_x] += weight * static_cast<double>(dys[in_y]);
  });
  const Guarded found(y_shape, dtype), gradient(x_shape, dtype), again(x_shape, dtype);
  roi_pool(stream(), x, boxes, p.params, found.tensor());
  roi_pool_backward(stream(), dy, boxes, p.params, gradient.tensor());
  roi_pool_backward(stream(), dy, boxes, p.params, again.tensor());
  CHECK(farthest(found.tensor(), y) <= bound);
  CHECK(farthest(gradient.tensor(), dx) <= bound);
  CHECK(host_bytes(gradient.tensor()) == host_bytes(again.tensor()));
  CHECK((found.intact() && gradient.intact()));
  // What lies otherwise is read as it lies.
  const Tensor turned =
      device_tensor({p.height, p.width, p.images, p.channels}, xs, dtype).permute({2, 3, 0, 1});
  const Tensor packed(stream(), x_shape, dtype), first(stream(), y_shape, dtype),
      second(stream(), y_shape, dtype);
  copy(stream(), turned, packed);
  roi_pool(stream(), turned, boxes, p.params, first);
  roi_pool(stream(), packed, boxes, p.params, second);
  CHECK(host_bytes(first) == host_bytes(second));
}

/// Regions whose corners are multiples of an eighth, some outside of the image.
const Values64 kBoxes = {0, 0, 0, 4, 4, 1, 1, 2, 5, 6, 1, -3, -2, 2.5, 3,  0, 4,    5,   12,   11,
                         1, 2, 2, 2, 2, 0, 5, 6, 3, 1, 0, -9, -9, -5,  -6, 1, 0.25, 0.5, 6.75, 8.125};

}  // namespace

TEST_CASE("roi_pool: bins of samples and of elements, exact", "[small]") {
  // Bins and samples are multiples of 2^-5, so that weights are exact in f32, and sums of small integers too.
  Problem p;
  p.columns = 2;
  for (bool aligned : {false, true})
    for (int64_t samples : {1, 2, 4}) {
      INFO("aligned " << aligned << " samples " << samples);
      p.params = {RoiBins::samples, 1, samples, aligned, false};
      check(p, kBoxes, DType::f32, 0);
      p.params.scale = 0.5;
      check(p, kBoxes, DType::f32, 0);
    }
  p.channels = 8;
  p.params = {RoiBins::samples, 0.25, 2, true, true};
  check(p, kBoxes, DType::f32, 0);
}

TEST_CASE("roi_pool: any bins, dtypes, many channels and regions", "[small]") {
  // Places of samples are below 2^5 and rounded a few times, so that they err by 2^-19 * 2^5 / 2^5 of an
  // element at most; a weight is a difference of places, and bins have one for each axis.
  const double f32 = 0x1p-18;
  Problem p;
  for (bool aligned : {false, true})
    for (int64_t samples : {0, 3}) {
      p.params = {RoiBins::samples, 0.7, samples, aligned, false};
      check(p, kBoxes, DType::f32, f32);
    }
  p.channels = 19;
  check(p, kBoxes, DType::f32, f32);
  check(p, kBoxes, DType::f16, 0x1p-10);
  if (has_doubles()) check(p, kBoxes, DType::f64, 1e-13);
  p.channels = 12;
  p.params = {RoiBins::samples, 0.7, 0, true, true};
  check(p, kBoxes, DType::f32, f32);
  p.params = {RoiBins::elements, 1, 0, false, true};
  check(p, kBoxes, DType::f32, f32);
  p.params.scale = 0.5;
  check(p, kBoxes, DType::bf16, 0x1p-7);
  Rng rng(9);
  Values64 many;
  for (int r = 0; r < 200; r++)
    for (int k = 0; k < 5; k++)
      many.push_back(k == 0 ? static_cast<double>(rng.integer(-1, 2))
                            : static_cast<double>(rng.integer(-40, 200)) / 8);
  p = Problem();
  p.height = p.width = 20;
  p.params = {RoiBins::samples, 1, 2, false, false};
  check(p, many, DType::f32, f32);
}

TEST_CASE("roi_pool: nothing to do", "[small]") {
  const Tensor x(stream(), {1, 2, 3, 3}), none(stream(), {0, 5}), y(stream(), {0, 2, 2, 2});
  const Guarded dx({1, 2, 3, 3});
  roi_pool(stream(), x, none, {}, y);
  roi_pool_backward(stream(), y, none, {}, dx.tensor());
  CHECK(host_values(dx.tensor()) == std::vector<float>(18, 0.0f));
  nms(stream(), Tensor(stream(), {0, 4}), 0.5, Tensor(stream(), {0}, DType::boolean));
}

TEST_CASE("roi_max_pool: the largest element of each bin, and its place", "[small]") {
  const Problem p;
  const Shape x_shape{p.images, p.channels, p.height, p.width};
  const auto regions = static_cast<int64_t>(kBoxes.size() / 5);
  const Shape y_shape{regions, p.channels, p.rows, p.columns};
  Rng rng(6);
  const std::vector<float> xs = integers(element_count(x_shape), rng);
  const Tensor boxes = device_tensor({regions, 5}, std::vector<float>(kBoxes.begin(), kBoxes.end()));
  for (const double scale : {1.0, 0.5}) {
    std::vector<float> y;
    std::vector<int64_t> indices;
    for (int64_t r = 0; r < regions; r++)
      for (int64_t c = 0; c < p.channels; c++)
        for (int64_t i = 0; i < p.rows; i++)
          for (int64_t j = 0; j < p.columns; j++) {
            const double* roi = kBoxes.data() + 5 * r;
            const auto [top, bottom] = ends(roi[2] * scale, roi[4] * scale, 1, p.rows, i, p.height);
            const auto [left, right] = ends(roi[1] * scale, roi[3] * scale, 1, p.columns, j, p.width);
            float most = 0;
            int64_t at = -1;
            for (int64_t h = top; h < bottom; h++)
              for (int64_t w = left; w < right; w++) {
                const float v = xs[static_cast<size_t>(
                    ((static_cast<int64_t>(roi[0]) * p.channels + c) * p.height + h) * p.width + w)];
                if (at < 0 || v > most) most = v, at = h * p.width + w;
              }
            y.push_back(most);
            indices.push_back(at);
          }
    const Guarded found(y_shape), places(y_shape, DType::i32);
    roi_max_pool(stream(), device_tensor(x_shape, xs), boxes, scale, found.tensor(), places.tensor());
    CHECK(host_values(found.tensor()) == y);
    CHECK(read<int32_t>(stream(), places.tensor()) == std::vector<int32_t>(indices.begin(), indices.end()));
    CHECK((found.intact() && places.intact()));
  }
}

TEST_CASE("nms: boxes in order, against a plain loop", "[small]") {
  for (const int count : {1, 2, 31, 33, 100, 300}) {
    Rng rng(count);
    std::vector<float> boxes;
    for (int i = 0; i < count; i++) {
      const auto x = static_cast<float>(rng.integer(0, 40)), y = static_cast<float>(rng.integer(0, 40));
      for (float v :
           {x, y, x + static_cast<float>(rng.integer(0, 16)), y + static_cast<float>(rng.integer(0, 16))})
        boxes.push_back(v);
    }
    for (const double threshold : {0.0, 0.1, 0.5, 1.0, 1.0 / 3}) {
      INFO(count << " boxes, threshold " << threshold);
      std::vector<float> expected;
      for (int i = 0; i < count; i++) {
        const float* a = boxes.data() + 4 * static_cast<size_t>(i);
        bool kept = true;
        for (int j = 0; j < i && kept; j++) {
          const float* b = boxes.data() + 4 * static_cast<size_t>(j);
          if (expected[static_cast<size_t>(j)] == 0) continue;
          const float shared = std::max(0.0f, std::min(a[2], b[2]) - std::max(a[0], b[0])) *
                               std::max(0.0f, std::min(a[3], b[3]) - std::max(a[1], b[1]));
          const float both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared;
          kept = !(static_cast<double>(shared / both) > threshold);
        }
        expected.push_back(kept ? 1 : 0);
      }
      const Guarded keep({count}, DType::boolean);
      nms(stream(), device_tensor({count, 4}, boxes), threshold, keep.tensor());
      CHECK(host_values(keep.tensor()) == expected);
      CHECK(keep.intact());
    }
  }
}

TEST_CASE("roi: refusals", "[small]") {
  const Tensor x(stream(), {1, 4, 3, 3}), rois(stream(), {2, 5}), y(stream(), {2, 4, 2, 2}),
      places(stream(), {2, 4, 2, 2}, DType::i32);
  const auto refusal = [](const auto& f) { return error_of<ValidationError>(f); };
  CHECK(refusal([&] { roi_pool(stream(), x, rois, {}, {}); }) == "y: is not defined");
  CHECK(refusal([&] { roi_pool(stream(), x, x, {}, y); }) == "rois: rank 4 must be 2, shape is [1, 4, 3, 3]");
  CHECK(refusal([&] {
          roi_pool(stream(), x, Tensor(stream(), {2, 4}), {}, y);
        }) == "rois: shape [2, 4] must be [R, 5]");
  CHECK(refusal([&] {
          roi_pool(stream(), x, rois, {RoiBins::samples, 1, 0, false, true}, y);
        }) == "y: shape [2, 4, 2, 2] has other channels than x, [1, 4, 3, 3]");
  CHECK(refusal([&] {
          roi_pool(stream(), x, rois, {RoiBins::samples, NAN}, y);
        }) == "scale: nan must be finite");
  CHECK(refusal([&] { roi_max_pool(stream(), x, rois, 1, y, y); }) == "indices: dtype f32 must be i32");
  CHECK(refusal([&] { nms(stream(), rois, 0.5, Tensor(stream(), {2}, DType::boolean)); }) ==
        "boxes: shape [2, 5] must be [N, 4]");
  CHECK(refusal([&] {
          nms(stream(), Tensor(stream(), {2, 4}), NAN, Tensor(stream(), {2}, DType::boolean));
        }) == "threshold: is not a number");
}
