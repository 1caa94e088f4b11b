// Attention with a cache, as generating programs call it: each sample has its own number of places behind it.
#include <dlprim/copy.hpp>
#include <dlprim/gather.hpp>
#include <dlprim/pointwise.hpp>

#include "net/nodes/families.hpp"

namespace dlprim::detail {
namespace {

int64_t whole_number(NodeStep& step, int k, const char* name) {
  const std::vector<int64_t> numbers = step.integers(k);
  require(numbers.size() == 1 && numbers[0] >= 0, "inputs", name, " has ", numbers.size(),
          " numbers, must be one that is not negative");
  return numbers[0];
}

/// Inputs: what came before [B, K, C, D], or none; x [B, K, S, D]; how many places of each sample came
/// before, [B]; places in all, on the host. y: [B, K, places (C at least), D]: x behind those of its sample.
void infer_cache_append(NodeStep& step) {
  require(step.rank(0) == 4 && step.shape(1) == Shape{step.shape(0)[0]}, "inputs", "x is ", step.shape(0),
          ", places before it are ", step.shape(1));
  Shape shape = step.shape(0);
  shape[2] = whole_number(step, 2, "the number of places");
  if (step.has(3)) {
    Shape before = shape;
    before[2] = step.rank(3) == 4 ? step.shape(3)[2] : 0;
    require(step.shape(3) == before && step.dtype(3) == step.dtype(0), "inputs", "the cache is ",
            dlprim::name_of(step.dtype(3)), " ", step.shape(3), ", must be ", dlprim::name_of(step.dtype(0)),
            " ", before);
    shape[2] = std::max(shape[2], before[2]);
  }
  step.output(0, step.dtype(0), shape);
}
void run_cache_append(NodeStep& step) {
  const Tensor& y = step.y();
  const int64_t own = step.shape(0)[2], all = y.shape()[2], kept = step.has(3) ? step.shape(3)[2] : 0;
  if (y.numel() == 0) return;
  if (own == 0) {
    fill(step.stream, 0, y, step.options);
    if (kept != 0) copy(step.stream, step.x(3), y.slice(2, 0, kept), step.options);
    return;
  }
  const int64_t batch = y.shape()[0];
  const Tensor before = step.dense(1).reshape({batch, 1}), places = step.counting(0, all);
  const Tensor from = step.scratch({batch, all}, DType::i64);
  dlprim::pointwise(step.stream, {places, before}, {from}, {own - 1},
                    "const long p = x0 - x1; y0 = p < 0 ? 0 : p > s0 ? s0 : p", step.options);
  gather(step.stream, step.x(0), from.reshape({batch, 1, all, 1}).expand(y.shape()), 2, y, step.options);
  if (kept == 0) return;
  const Tensor beginning = y.slice(2, 0, kept);
  dlprim::pointwise(
      step.stream,
      {beginning, step.x(3), places.slice(0, 0, kept).reshape({kept, 1}), before.reshape({batch, 1, 1, 1})},
      {beginning}, {own}, "y0 = x2 >= x3 && x2 < x3 + s0 ? x0 : x1", step.options);
}

/// Inputs: places of q's rows [B, S]; lengths of k [B]; places in all, on the host; what is added to scores,
/// [B, H, S, places] or broadcasting; what each head adds to softmax's sum, [H], as its logarithm.
/// Attributes: causal; window: how many places a row sees, its own the last (-1: all); sink: an exp(0) in the
/// sum. y: f32, to be added to scores, -infinity where a row does not look; with a sum's addend a last column
/// of it.
void infer_cache_mask(NodeStep& step) {
  require(step.rank(0) == 2 && step.shape(1) == Shape{step.shape(0)[0]}, "inputs", "rows are ", step.shape(0),
          ", lengths are ", step.shape(1));
  const bool addend = step.has(4) || step.flag("sink");
  Shape shape{step.shape(0)[0], 1, step.shape(0)[1], whole_number(step, 2, "the number of places")};
  if (step.has(3)) shape = broadcast_shapes(shape, step.shape(3));
  require(shape[0] == step.shape(0)[0] && shape[2] == step.shape(0)[1], "inputs", "what is added is ",
          step.has(3) ? step.shape(3) : shape, " for rows ", step.shape(0));
  if (step.has(4)) {
    require(step.rank(4) == 1 && (shape[1] == 1 || shape[1] == step.shape(4)[0]), "inputs",
            "the sum's addends are ", step.shape(4), " for ", shape[1], " heads");
    shape[1] = step.shape(4)[0];
  }
  if (addend) shape[3]++;
  step.output(0, DType::f32, shape);
}
void run_cache_mask(NodeStep& step) {
  const Tensor& y = step.y();
  const bool addend = step.has(4) || step.flag("sink");
  const int64_t batch = y.shape()[0], rows = y.shape()[2], columns = y.shape()[3] - (addend ? 1 : 0);
  if (y.numel() == 0) return;
  const Tensor zero = step.scratch({}, DType::f32);
  fill(step.stream, 0, zero, step.options);
  if (columns != 0)
    dlprim::pointwise(step.stream,
                      {step.has(3) ? step.x(3) : zero, step.counting(0, columns),
                       step.dense(0).reshape({batch, 1, rows, 1}), step.dense(1).reshape({batch, 1, 1, 1})},
                      {y.slice(3, 0, columns)},
                      {step.flag("causal", true) ? 1 : 0, step.integer("window", -1)},
                      "const bool sees = x1 < x3 && (s0 == 0 || x1 <= x2) && (s1 < 0 || x1 > x2 - s1); "
                      "y0 = sees ? (float)x0 : -INFINITY",
                      step.options);
  if (addend)
    copy(step.stream,
         (step.has(4) ? step.dense(4).reshape({1, step.shape(4)[0], 1, 1}) : zero)
             .expand({batch, y.shape()[1], rows, 1}),
         y.slice(3, columns, columns + 1), step.options);
}

constexpr NodeKind kKinds[] = {
    {"cache_append", 3, 4, infer_cache_append, run_cache_append},
    {"cache_mask", 3, 5, infer_cache_mask, run_cache_mask},
};

}  // namespace

KindList cache_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
