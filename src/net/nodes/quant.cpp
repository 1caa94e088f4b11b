// Numbers as small integers with a scale and a zero: what they stand for, and back.
#include <dlprim/copy.hpp>
#include <dlprim/gather.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/reduction.hpp>

#include "core/integer_range.hpp"
#include "net/nodes/families.hpp"

namespace dlprim::detail {
namespace {

/// A scale or zero as it broadcasts to x: one for all; [C], one for each place along "axis"; or of x's rank,
/// one for each "block" places along it.
Tensor spread(NodeStep& step, int k) {
  const Shape& x = step.shape(0);
  const Shape& own = step.shape(k);
  if (element_count(own) == 1) return step.dense(k).reshape({});
  const int axis = step.axis("axis", 1, x.size());
  if (own.size() == 1) {
    require(own[0] == x[axis], "inputs", "input ", k, " has ", own[0], " numbers for axis ", axis, " of ", x);
    Shape shape = Shape::filled(x.size(), 1);
    shape[axis] = own[0];
    return step.dense(k).reshape(shape);
  }
  const int64_t block = step.integer("block", 0);
  Shape blocks = x;
  blocks[axis] = block > 0 ? (x[axis] + block - 1) / block : 0;
  require(block > 0 && own == blocks, "inputs", "input ", k, " is ", own, ", for blocks of ", block,
          " along axis ", axis, " of ", x);
  const Tensor places = step.counting(0, x[axis]), all = step.scratch(x, step.dtype(k));
  dlprim::pointwise(step.stream, {places}, {places}, {block}, "y0 = x0 / s0", step.options);
  index_select(step.stream, step.x(k), places, axis, all, step.options);
  return all;
}

/// x, scale and zero in this order; 1 and 0 for those that are left out.
std::vector<Tensor> spread_all(NodeStep& step) {
  std::vector<Tensor> inputs{step.x(0)};
  for (int k : {1, 2}) {
    if (step.has(k)) {
      inputs.push_back(spread(step, k));
      continue;
    }
    const Tensor one = step.scratch({}, DType::i32);
    fill(step.stream, k == 1 ? 1 : 0, one, step.options);
    inputs.push_back(one);
  }
  return inputs;
}

/// What f32 may be quantised to: the range of an integer dtype, or of "bits" of it.
IntegerRange range_of(const NodeStep& step, DType dtype) {
  const bool fits = dtype == DType::i8 || dtype == DType::u8 || dtype == DType::i16 || dtype == DType::u16 ||
                    dtype == DType::i32;
  require(fits, "dtype", dlprim::name_of(dtype), " must be i8, u8, i16, u16 or i32");
  const int64_t all = static_cast<int64_t>(size_of(dtype)) * 8, bits = step.integer("bits", all);
  require(bits > 0 && bits <= all, "bits", bits, " must be from 1 to ", all);
  return integer_range(dtype, bits);
}

/// Inputs: x, scale, zero. y = (x - zero) scale. Attributes: axis, block, dtype (the scale's).
void infer_dequantize(NodeStep& step) {
  require(step.has("dtype") || step.has(1), "inputs", "neither a scale nor a dtype says what the result is");
  step.output(0, step.has("dtype") ? parse_dtype(step.text("dtype")) : step.dtype(1), step.shape(0));
}
void run_dequantize(NodeStep& step) {
  const bool floating = is_floating(step.out(0).dtype);
  dlprim::pointwise(step.stream, spread_all(step), {step.y()}, {},
                    floating ? "y0 = (real)(x0 - x2) * x1" : "y0 = (x0 - x2) * x1", step.options);
}

/// Inputs: x, scale, zero. y = x / scale, rounded to even, + zero, kept in range; NaN gives the least number.
/// Attributes: axis, block,
/// dtype (the zero's, or u8; f32: neither rounded nor kept in a range), bits (the dtype's) that have the
/// range.
void infer_quantize(NodeStep& step) {
  const DType dtype = step.has(2) ? step.dtype(2) : parse_dtype(step.text("dtype", "u8"));
  if (dtype != DType::f32) range_of(step, dtype);
  step.output(0, dtype, step.shape(0));
}
void run_quantize(NodeStep& step) {
  const DType dtype = step.out(0).dtype;
  if (dtype == DType::f32)
    return dlprim::pointwise(step.stream, spread_all(step), {step.y()}, {}, "y0 = x0 / x1 + x2",
                             step.options);
  const auto [least, most] = range_of(step, dtype);
  dlprim::pointwise(step.stream, spread_all(step), {step.y()}, {least, most},
                    "const real v = rint((real)x0 / x1) + x2; y0 = v >= s0 ? (v > s1 ? s1 : v) : s0",
                    step.options);
}

/// Input: x. Outputs: y u8, its scale and zero, from the least and the largest number, and 0. Without a
/// number but 0 the scale is 1, with a NaN it is NaN, and y 0.
void infer_dynamic_quantize(NodeStep& step) {
  step.output(0, DType::u8, step.shape(0));
  step.output(1, step.dtype(0), {});
  step.output(2, DType::u8, {});
}
void run_dynamic_quantize(NodeStep& step) {
  const Tensor least = step.scratch({}, step.dtype(0)), most = step.scratch({}, step.dtype(0));
  if (step.x(0).numel() == 0) {
    fill(step.stream, 0, least, step.options);
    fill(step.stream, 0, most, step.options);
  } else {
    reduction(step.stream, "amin", step.x(0), {}, {least}, step.options);
    reduction(step.stream, "amax", step.x(0), {}, {most}, step.options);
  }
  dlprim::pointwise(step.stream, {least, most}, {step.y(1), step.y(2)}, {},
                    "const real low = x0 >= 0 ? 0 : x0, high = x1 <= 0 ? 0 : x1; "
                    "const real scale = low == 0 && high == 0 ? 1 : (high - low) / 255; const real zero = "
                    "rint(-low / scale); "
                    "y0 = scale; y1 = zero >= 0 ? zero : 0",
                    step.options);
  dlprim::pointwise(step.stream, {step.x(0), step.y(1), step.y(2)}, {step.y()}, {},
                    "const real v = rint(x0 / x1) + x2; y0 = v >= 0 ? (v > 255 ? 255 : v) : 0", step.options);
}

/// Inputs: packed u8 [N, blocks, bytes], scales [N * blocks], zeros (packed as numbers are, or as scales).
/// Attributes: bits (4 or 8), block, columns K, dtype. y: [N, K] = (number - zero) scale; without zeros the
/// middle of the range.
void infer_unpack(NodeStep& step) {
  const int64_t bits = step.integer("bits", 4), block = step.integer("block", 0),
                columns = step.integer("columns", 0);
  require((bits == 4 || bits == 8) && block >= 16 && columns > 0, "attributes", bits, " bits, blocks of ",
          block, ", ", columns, " columns");
  const int64_t blocks = (columns + block - 1) / block;
  require(step.rank(0) == 3 && step.dtype(0) == DType::u8 && step.shape(0)[1] == blocks &&
              step.shape(0)[2] == block * bits / 8,
          "inputs", "numbers are ", step.shape(0), ", must be u8 [N, ", blocks, ", ", block * bits / 8, "]");
  require(element_count(step.shape(1)) == step.shape(0)[0] * blocks, "inputs", "scales are ", step.shape(1));
  step.output(0, step.dtype(1), {step.shape(0)[0], columns});
}
/// Bytes [N, count of bytes] as numbers [N, count]: the low bits first.
Tensor unpacked(NodeStep& step, const Tensor& bytes, int64_t bits) {
  if (bits == 8) return bytes;
  const Shape& b = bytes.shape();
  const Tensor numbers = step.scratch({b[0], b[1], 2}, DType::u8);
  dlprim::pointwise(step.stream, {bytes.reshape({b[0], b[1], 1})},
                    {numbers.slice(2, 0, 1), numbers.slice(2, 1, 2)}, {}, "y0 = x0 & 15; y1 = x0 >> 4",
                    step.options);
  return numbers.reshape({b[0], b[1] * 2});
}
void run_unpack(NodeStep& step) {
  const int64_t bits = step.integer("bits", 4), block = step.integer("block", 0);
  const int64_t rows = step.shape(0)[0], blocks = step.shape(0)[1];
  const Tensor numbers = unpacked(step, step.dense(0).reshape({rows, blocks * block * bits / 8}), bits);
  const Tensor scales = step.dense(1).reshape({rows, blocks, 1});
  Tensor zeros = step.scratch({1, 1, 1}, DType::u8);
  if (!step.has(2)) {
    fill(step.stream, int64_t{1} << (bits - 1), zeros, step.options);
  } else if (step.dtype(2) == DType::u8) {
    const Tensor packed = step.dense(2).reshape({rows, element_count(step.shape(2)) / rows});
    zeros = unpacked(step, packed, bits)
                .slice(1, 0, blocks)
                .as_strided({rows, blocks, 1}, {(blocks * bits + 7) / 8 * 8 / bits, 1, 1});
  } else {
    zeros = step.dense(2).reshape({rows, blocks, 1});
  }
  const Tensor all = step.scratch({rows, blocks, block}, step.out(0).dtype);
  dlprim::pointwise(step.stream, {numbers.reshape({rows, blocks, block}), scales, zeros}, {all}, {},
                    "y0 = (real)(x0 - x2) * x1", step.options);
  step.set(0, all.reshape({rows, blocks * block}).slice(1, 0, step.out(0).shape[1]));
}

constexpr NodeKind kKinds[] = {
    {"dequantize", 1, 3, infer_dequantize, run_dequantize},
    {"dynamic_quantize", 1, 1, infer_dynamic_quantize, run_dynamic_quantize},
    {"quantize", 2, 3, infer_quantize, run_quantize},
    {"unpack", 2, 3, infer_unpack, run_unpack},
};

}  // namespace

KindList quant_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
