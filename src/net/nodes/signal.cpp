// Windows and spectra. What depends on sizes alone is computed on the host, in double: windows, filters, and
// the matrices of which Fourier transforms are products. Those of up to 4096 numbers: longer ones would want
// an FFT.
#include <algorithm>
#include <cmath>

#include <dlprim/copy.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/pointwise.hpp>

#include "net/nodes/families.hpp"

namespace dlprim::detail {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr int64_t kLongest = 4096;
constexpr int64_t kMostOnHost = int64_t{1}
                                << 26;  // numbers: of a file that asks for more nothing is believed

int64_t one_number(NodeStep& step, int k, const char* what) {
  require(element_count(step.shape(k)) == 1, what, "is ", step.shape(k), ", must be one number");
  return step.integers(k)[0];
}

/// Input: how many numbers. function: hann, hamming, blackman. periodic: the first of a window with one more.
/// dtype.
void infer_window(NodeStep& step) {
  const std::string name = step.text("function");
  require(name == "hann" || name == "hamming" || name == "blackman", "function", "is '", name,
          "', must be hann, hamming or blackman");
  const int64_t size = one_number(step, 0, "size");
  require(size >= 0 && size <= kMostOnHost, "size", "is ", size, ", must be 0 to ", kMostOnHost);
  step.output(0, parse_dtype(step.text("dtype", "f32")), {size});
}
void run_window(NodeStep& step) {
  const std::string name = step.text("function");
  const int64_t size = step.out(0).shape[0];
  const double period = static_cast<double>(step.flag("periodic", true) ? size : size - 1);
  std::vector<double> y;
  for (int64_t i = 0; i < size; i++) {
    const double angle = 2 * kPi * static_cast<double>(i) / period;
    y.push_back(period == 0         ? 1  // the middle of a window of one
                : name == "hann"    ? std::pow(std::sin(angle / 2), 2)
                : name == "hamming" ? (25 - 21 * std::cos(angle)) / 46
                                    : 0.42 - 0.5 * std::cos(angle) + 0.08 * std::cos(2 * angle));
  }
  step.set_host(0, host_tensor(step.out(0).dtype, step.out(0).shape, y));
}

/// Inputs: bands, the transform's length, samples a second, lowest and highest frequency, one number each.
/// y: [length / 2 + 1, bands], triangles that are evenly spaced on the mel scale. dtype.
void infer_mel_weights(NodeStep& step) {
  for (int k = 3; k < 5; k++)
    require(element_count(step.shape(k)) == 1, "inputs", "input ", k, " must be one number");
  const int64_t bands = one_number(step, 0, "bands"), length = one_number(step, 1, "length");
  require(bands >= 0 && length >= 0 && one_number(step, 2, "rate") > 0, "inputs", bands,
          " bands of a length of ", length, ", must not be negative, the rate more than 0");
  require(bands <= kMostOnHost / (length / 2 + 1), "inputs", bands, " bands of a length of ", length,
          " have more than ", kMostOnHost, " weights");
  step.output(0, parse_dtype(step.text("dtype", "f32")), {length / 2 + 1, bands});
}
/// The bins where bands begin: each band ends where the second next one begins.
std::vector<int64_t> mel_bins(NodeStep& step, int64_t bands) {
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(step.numbers(3)[0]), high = mel(step.numbers(4)[0]);
  const auto length = static_cast<double>(step.integers(1)[0]),
             rate = static_cast<double>(step.integers(2)[0]);
  std::vector<int64_t> bins;
  for (int64_t i = 0; i < bands + 2; i++) {
    const double at = low + (high - low) / static_cast<double>(bands + 2) * static_cast<double>(i);
    const double bin = std::floor((length + 1) * 700 * (std::pow(10, at / 2595) - 1) / rate);
    require(bin >= 0 && bin < static_cast<double>(step.out(0).shape[0]), "inputs", "band ", i,
            " begins at bin ", bin, " of ", step.out(0).shape[0]);
    bins.push_back(static_cast<int64_t>(bin));
  }
  return bins;
}
void run_mel_weights(NodeStep& step) {
  const int64_t bands = step.out(0).shape[1];
  std::vector<double> y(static_cast<size_t>(element_count(step.out(0).shape)));
  const auto at = [&](int64_t bin, int64_t band) -> double& {
    return y[static_cast<size_t>(bin * bands + band)];
  };
  const std::vector<int64_t> bins = mel_bins(step, bands);
  for (int64_t i = 0; i < bands; i++) {
    const auto k = static_cast<size_t>(i);
    const int64_t low = bins[k], center = bins[k + 1], high = bins[k + 2];
    for (int64_t j = low; j < center; j++)
      at(j, i) = static_cast<double>(j - low) / static_cast<double>(center - low);
    at(center, i) = 1;
    for (int64_t j = center; j < high; j++)
      at(j, i) = static_cast<double>(high - j) / static_cast<double>(high - center);
  }
  step.set_host(0, host_tensor(step.out(0).dtype, step.out(0).shape, y));
}

/// A Fourier transform as a matrix. Complex numbers are two neighbours.
struct Transform {
  int64_t length;           ///< N
  int64_t inputs, outputs;  ///< numbers that are there of N: the rest are 0, or not wanted
  int in_parts, out_parts;  ///< 1: real, 2: complex
  bool inverse = false;
  bool halved = false;  ///< inputs are one half of a spectrum, the other is its mirror image
};

/// [inputs in_parts, outputs out_parts]: input j counts cos(2 pi j k / N) and sin of it in output k.
std::vector<double> transform_matrix(const Transform& t) {
  std::vector<double> cosines, sines;
  for (int64_t i = 0; i < t.length; i++) {
    const double angle = 2 * kPi * static_cast<double>(i) / static_cast<double>(t.length);
    cosines.push_back(std::cos(angle));
    sines.push_back(i * 2 == t.length ? 0 : t.inverse ? std::sin(angle) : -std::sin(angle));
  }
  std::vector<double> matrix;
  matrix.reserve(static_cast<size_t>(t.inputs * t.in_parts * t.outputs * t.out_parts));
  for (int64_t j = 0; j < t.inputs; j++) {
    double weight = t.inverse ? 1.0 / static_cast<double>(t.length) : 1;
    if (t.halved && j != 0 && j * 2 != t.length) weight *= 2;
    for (int part = 0; part < t.in_parts; part++)
      for (int64_t k = 0; k < t.outputs; k++) {
        const auto i = static_cast<size_t>(j * k % t.length);
        const double c = weight * cosines[i], s = weight * sines[i];
        matrix.push_back(part == 0 ? c : -s);
        if (t.out_parts == 2) matrix.push_back(part == 0 ? s : c);
      }
  }
  return matrix;
}

/// The transform of each row of x, dense: [rows, inputs in_parts]; in x's dtype, f32 or f64.
Tensor transformed(const NodeStep& step, const Transform& t, const Tensor& x) {
  const int64_t in = t.inputs * t.in_parts, out = t.outputs * t.out_parts;
  const Tensor w = to_device(step.stream, host_tensor(x.dtype(), {in, out}, transform_matrix(t)));
  const Tensor y = step.scratch({x.size(0), out}, x.dtype());
  gemm(step.stream, x, w, {}, {}, y, step.options);
  return y;
}

DType computed_in(DType dtype) {
  return dtype == DType::f64 ? dtype : DType::f32;
}

Transform dft_transform(NodeStep& step, int axis) {
  const int64_t size = step.shape(0)[axis];
  const bool inverse = step.flag("inverse"), onesided = step.flag("onesided");
  const auto parts = static_cast<int>(step.shape(0).back());
  const int64_t length = step.has(1)           ? one_number(step, 1, "length")
                         : inverse && onesided ? 2 * (size - 1)
                                               : size;
  require(length >= 1 && length <= kLongest, "length", "is ", length, ", must be 1 to ", kLongest);
  if (!inverse || !onesided)
    return {length, std::min(size, length), onesided && !inverse ? length / 2 + 1 : length, parts, 2, inverse,
            false};
  require(parts == 2, "x", "is real, must be complex for an inverse transform of one side");
  return {length, std::min(size, length / 2 + 1), length, 2, 1, true, true};
}
int dft_axis(NodeStep& step) {
  const int rank = step.rank(0);
  require(rank >= 2 && (step.shape(0).back() == 1 || step.shape(0).back() == 2) && is_floating(step.dtype(0)),
          "x", "is ", name_of(step.dtype(0)), step.shape(0),
          ", must be floating and end in 1, real, or 2, complex");
  const int axis = normal_axis(step.has(2) ? one_number(step, 2, "axis") : step.integer("axis", -2), rank);
  require(axis != rank - 1, "axis", axis, " is that of real and imaginary parts");
  return axis;
}

/// Inputs: x: [..., 1], real, or [..., 2], complex; the length N (that of the axis; what is missing is 0);
/// the axis (or an attribute, -2). y: [..., 2]. inverse: with 1 / N. onesided: y is the first N / 2 + 1 along
/// the axis; inverse, x is that and y, [..., 1], is real.
void infer_dft(NodeStep& step) {
  const int axis = dft_axis(step);
  const Transform t = dft_transform(step, axis);
  Shape shape = step.shape(0);
  shape[axis] = t.outputs;
  shape[shape.size() - 1] = t.out_parts;
  step.output(0, step.dtype(0), shape);
}
void run_dft(NodeStep& step) {
  const Tensor& y = step.y();
  if (y.numel() == 0) return;
  if (element_count(step.shape(0)) == 0) return fill(step.stream, 0, y, step.options);
  const int axis = dft_axis(step), rank = step.rank(0);
  const Transform t = dft_transform(step, axis);
  Dims order, back = Dims::filled(rank, 0);
  for (int i = 0; i < rank - 1; i++)
    if (i != axis) order.push_back(i);
  order.push_back(axis);
  order.push_back(rank - 1);
  Shape moved;
  for (int i = 0; i < rank; i++) {
    back[static_cast<int>(order[i])] = i;
    moved.push_back(y.shape()[static_cast<int>(order[i])]);
  }
  const Tensor rows = step.x(0).slice(axis, 0, t.inputs).permute(order);
  const Tensor x = step.scratch(rows.shape(), computed_in(step.dtype(0)));
  copy(step.stream, rows, x, step.options);
  const int64_t row = t.inputs * t.in_parts;
  const Tensor result = transformed(step, t, x.reshape({x.numel() / row, row}));
  copy(step.stream, result.reshape(moved).permute(back), y, step.options);
}

struct Frames {
  Transform transform;
  int64_t count, step;
};
Frames stft_frames(NodeStep& step) {
  const Shape& x = step.shape(0);
  require((x.size() == 2 || (x.size() == 3 && (x[2] == 1 || x[2] == 2))) && is_floating(step.dtype(0)), "x",
          "is ", name_of(step.dtype(0)), x, ", must be floating, [N, L], [N, L, 1] or [N, L, 2]");
  require(!step.has(2) || step.rank(2) == 1, "window", "must be a vector");
  const int parts = x.size() == 2 ? 1 : static_cast<int>(x[2]);
  const int64_t hop = one_number(step, 1, "step"), window = step.has(2) ? step.shape(2)[0] : x[1];
  const int64_t length = step.has(3) ? one_number(step, 3, "length") : window;
  require(hop >= 1, "step", "is ", hop, ", must be 1 or more");
  require(length >= 1 && length <= kLongest && length <= x[1], "length", "is ", length, ", must be 1 to ",
          std::min(kLongest, x[1]));
  const bool onesided = step.flag("onesided", true);
  require(!onesided || parts == 1, "onesided", "is for real signals only");
  const int64_t inputs = step.has(2) ? std::min(window, length) : length;
  return {{length, inputs, onesided ? length / 2 + 1 : length, parts, 2}, (x[1] - length) / hop + 1, hop};
}

/// Inputs: x: [N, L] or [N, L, 1], real, or [N, L, 2], complex; the step from frame to frame; a window; the
/// frames' length (the window's, or L). y: [N, frames, length, 2], of frames that lie wholly in x; onesided:
/// length / 2 + 1 of them.
void infer_stft(NodeStep& step) {
  const Frames frames = stft_frames(step);
  step.output(0, step.dtype(0), {step.shape(0)[0], frames.count, frames.transform.outputs, 2});
}
void run_stft(NodeStep& step) {
  const Tensor& y = step.y();
  if (y.numel() == 0) return;
  const Frames frames = stft_frames(step);
  const Transform& t = frames.transform;
  const int64_t batch = y.size(0), parts = t.in_parts, size = step.shape(0)[1];
  const Tensor seen = step.dense(0).as_strided({batch, frames.count, t.inputs, parts},
                                               {size * parts, frames.step * parts, parts, 1});
  const Tensor x = step.scratch(seen.shape(), computed_in(step.dtype(0)));
  if (step.has(2))
    dlprim::pointwise(step.stream, {seen, step.dense(2).slice(0, 0, t.inputs).reshape({t.inputs, 1})}, {x},
                      {}, "y0 = x0 * x1", step.options);
  else
    copy(step.stream, seen, x, step.options);
  const Tensor result = transformed(step, t, x.reshape({batch * frames.count, t.inputs * parts}));
  copy(step.stream, result.reshape(y.shape()), y, step.options);
}

constexpr NodeKind kKinds[] = {
    {"window", 1, 1, infer_window, run_window},
    {"mel_weights", 5, 5, infer_mel_weights, run_mel_weights},
    {"dft", 1, 3, infer_dft, run_dft},
    {"stft", 2, 4, infer_stft, run_stft},
};

}  // namespace

KindList signal_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
