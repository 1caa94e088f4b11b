// What every operator does with arguments at the edge: outputs in memory of other tensors, sizes of 0.
#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include <dlprim/class_loss.hpp>
#include <dlprim/conv.hpp>
#include <dlprim/embedding.hpp>
#include <dlprim/gather.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/gradients.hpp>
#include <dlprim/group_norm.hpp>
#include <dlprim/histogram.hpp>
#include <dlprim/interpolate.hpp>
#include <dlprim/linear.hpp>
#include <dlprim/loss.hpp>
#include <dlprim/masked.hpp>
#include <dlprim/movement.hpp>
#include <dlprim/pixel_shuffle.hpp>
#include <dlprim/pool.hpp>
#include <dlprim/random.hpp>
#include <dlprim/reduction.hpp>
#include <dlprim/softmax.hpp>
#include <dlprim/sort.hpp>
#include <dlprim/unique.hpp>

#include "cases/operators.hpp"
#include "catch.hpp"
#include "core/check.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

int64_t bytes_of(const Operand& o) {
  return element_count(o.shape) * static_cast<int64_t>(size_of(o.dtype));
}

/// A tensor of zeros, so that indices are some.
Tensor zeros(const Operand& o) {
  const Tensor x(stream(), o.shape, o.dtype);
  fill(stream(), 0, x);
  return x;
}

/// Two operands in one memory: the smaller one begins 8 bytes behind the larger one where that has more, so
/// that they are not the same elements.
void put_together(const Operand& a, Tensor& x, const Operand& b, Tensor& y) {
  const bool a_first = bytes_of(a) >= bytes_of(b);
  const int64_t shift = std::max(bytes_of(a), bytes_of(b)) > 8 ? 8 : 0;
  const Tensor memory = zeros({"memory", {bytes_of(a) + bytes_of(b) + shift}, DType::u8, false});
  const auto view = [&](const Operand& o, int64_t at) {
    return memory.slice(0, at, at + bytes_of(o)).reinterpret(o.dtype).reshape(o.shape);
  };
  x = view(a, a_first ? 0 : shift);
  y = view(b, a_first ? shift : 0);
}

/// The engines that a plan knows: a line of explain() for each but the first, its name in front.
std::vector<std::string> engines_of(const Plan& plan) {
  std::vector<std::string> names;
  std::istringstream lines(plan.explain());
  std::string line, name;
  for (std::getline(lines, line); std::getline(lines, line);)
    if (std::istringstream(line) >> name) names.push_back(name.substr(0, name.find(':')));
  return names;
}

/// Calls `f` for all ways to put zeros in the place of some of the sizes, but none.
template <class F>
void with_zeros(const Sizes& sizes, const F& f) {
  for (unsigned zeroed = 1; zeroed < 1u << sizes.size(); zeroed++) {
    Sizes some = sizes;
    for (size_t i = 0; i < sizes.size(); i++)
      if (zeroed >> i & 1u) some[i] = 0;
    f(some);
  }
}

/// Serves or refuses.
template <class F>
void run_or_refuse(const F& f) {
  try {
    f();
  } catch (const ValidationError&) {
  }
  stream().finish();
}

}  // namespace

TEST_CASE("no output may share memory with another tensor, but be the same elements", "[arguments][small]") {
  for (const OperatorCall& op : operator_calls()) {
    const Operands operands = op.operands(op.sizes);
    Tensors apart;
    for (const Operand& o : operands) apart.push_back(zeros(o));
    CAPTURE(op.name);
    CHECK_NOTHROW(op.call(stream(), apart));
    for (size_t i = 0; i < operands.size(); i++)
      for (size_t j = 0; j < i; j++) {
        if (!operands[i].written && !operands[j].written) continue;
        Tensors tensors = apart;
        put_together(operands[i], tensors[i], operands[j], tensors[j]);
        CAPTURE(operands[i].name, operands[j].name);
        const std::string refusal = error_of<ValidationError>([&] { op.call(stream(), tensors); });
        CAPTURE(refusal);
        CHECK((refusal.find("shares memory") != std::string::npos ||
               refusal.find("overlaps") != std::string::npos));
      }
    stream().finish();
  }
}

TEST_CASE("sizes of 0 are served or refused by every operator", "[arguments][small]") {
  for (const OperatorCall& op : operator_calls())
    with_zeros(op.sizes, [&](const Sizes& sizes) {
      const std::string text = op.name + " " + to_string(Dims(sizes));
      if (!is_selected(text)) return;
      INFO(again(text));
      std::vector<Guarded> guards;
      Tensors tensors;
      for (const Operand& o : op.operands(sizes)) {
        guards.emplace_back(o.shape, o.dtype);
        tensors.push_back(guards.back().tensor());
        if (!o.written) fill(stream(), 0, tensors.back());
      }
      run_or_refuse([&] { op.call(stream(), tensors); });
      CHECK(std::all_of(guards.begin(), guards.end(), [](const Guarded& g) { return g.intact(); }));
    });
}

TEST_CASE("sizes of 0 are served or refused by every engine of GEMM and convolution", "[arguments][small]") {
  const auto product = [](const Sizes& s) {
    GemmDesc desc;
    desc.a = TensorDesc({s[0], s[1], s[3]});
    desc.b = TensorDesc({s[0], s[3], s[2]});
    desc.c = TensorDesc({s[0], s[1], s[2]});
    return desc;
  };
  const Sizes gemm_sizes = {2, 40, 50, 60};
  for (const std::string& name : engines_of(Gemm(context(), product(gemm_sizes))))
    with_zeros(gemm_sizes, [&](const Sizes& s) {
      INFO(name << " " << to_string(Dims(s)));
      run_or_refuse([&] {
        const GemmDesc desc = product(s);
        const Tensor a(stream(), desc.a.shape), b(stream(), desc.b.shape);
        const Guarded c(desc.c.shape);
        Gemm(context(), desc, engine(name)).run(stream(), a, b, {}, c.tensor());
        if (s[3] == 0)
          CHECK(host_values(c.tensor()) == std::vector<float>(static_cast<size_t>(s[0] * s[1] * s[2])));
        CHECK(c.intact());
      });
    });

  const Sizes conv_sizes = {2, 8, 9, 10, 16};
  const ConvParams params{{}, {1, 1}, {1, 1}};
  const auto windows = [&](const Sizes& s) {
    return ConvDesc{TensorDesc({s[0], s[1], s[2], s[3]}), TensorDesc({s[4], s[1], 3, 3}),
                    TensorDesc({s[0], s[4], s[2], s[3]}), params};
  };
  for (const std::string& name : engines_of(Conv(context(), windows(conv_sizes))))
    with_zeros(conv_sizes, [&](const Sizes& s) {
      INFO(name << " " << to_string(Dims(s)));
      const ConvDesc desc = windows(s);
      const Tensor x(stream(), desc.x.shape), w(stream(), desc.w.shape), y(stream(), desc.y.shape);
      run_or_refuse([&] { conv(stream(), x, w, {}, params, y, engine(name)); });
      run_or_refuse([&] { conv_backward_data(stream(), y, w, params, x, engine(name)); });
      run_or_refuse([&] { conv_backward_filter(stream(), x, y, params, w, engine(name)); });
      SUCCEED();
    });
}

TEST_CASE("numbers of 0 by which sizes are divided are refused", "[arguments][small]") {
  const auto of = [](const Shape& shape) { return zeros({"x", shape, DType::f32, true}); };
  const Tensor x = of({2, 4, 4, 6}), w = of({4, 4, 1, 1}), y = of({2, 4, 4, 6}), none;
  const Stream& st = stream();
  ConvParams strideless, undilated, ungrouped;
  strideless.stride = {0, 0}, undilated.dilation = {0, 0}, ungrouped.groups = 0;
  PoolParams still{PoolMode::max, {2, 2}}, tight = still, nothing = still;
  still.stride = {0, 0}, tight.dilation = {0, 0}, nothing.kernel = {0, 0};
  const std::vector<std::pair<const char*, std::function<void()>>> calls = {
      {"conv stride", [&] { conv(st, x, w, {}, strideless, y); }},
      {"conv dilation", [&] { conv(st, x, w, {}, undilated, y); }},
      {"conv groups", [&] { conv(st, x, w, {}, ungrouped, y); }},
      {"conv_backward_data stride", [&] { conv_backward_data(st, y, w, strideless, x); }},
      {"conv_backward_filter groups", [&] { conv_backward_filter(st, x, y, ungrouped, w); }},
      {"conv_output_shape", [&] { conv_output_shape(x.shape(), w.shape(), strideless); }},
      {"pool stride", [&] { pool(st, x, still, y); }},
      {"pool dilation", [&] { pool(st, x, tight, y); }},
      {"pool kernel", [&] { pool(st, x, nothing, y); }},
      {"pool_output_shape", [&] { pool_output_shape(x.shape(), still); }},
      {"adaptive_pool",
       [&] {
         pool(st, x, adaptive_pool(PoolMode::average, {0, 0}), of({2, 4, 1, 1}));
       }},
      {"group_norm", [&] { group_norm(st, x, none, none, 0, 1e-5, y); }},
      {"group_norm_backward",
       [&] {
         group_norm_backward(st, y, x, none, of({2, 1}), of({2, 1}), 0, of({2, 4, 4, 6}), none, none);
       }},
      {"pixel_shuffle", [&] { pixel_shuffle(st, x, 0, y); }},
      {"pixel_unshuffle", [&] { pixel_unshuffle(st, x, 0, y); }},
      {"channel_shuffle", [&] { channel_shuffle(st, x, 0, y); }},
      {"slice_backward", [&] { slice_backward(st, of({3}), 0, 0, 3, 0, of({3})); }},
      {"slice", [&] { x.slice(0, 0, 2, 0); }},
      {"split", [&] { split(x, 0, 0); }},
      {"random_exponential", [&] { random_exponential(st, 0, {}, y); }},
      {"random_geometric", [&] { random_geometric(st, 0, {}, y); }},
      {"random_integers",
       [&] {
         random_integers(st, 3, 3, {}, zeros({"y", {5}, DType::i64, true}));
       }},
      {"update_loss_scale",
       [&] {
         update_loss_scale(st, of({1}), {2, 0.5, 0}, of({1}), zeros({"n", {1}, DType::i32, true}));
       }},
  };
  for (const auto& [name, call] : calls) {
    INFO(name);
    CHECK(error_of<ValidationError>(call) != "(nothing was thrown)");
  }
}

TEST_CASE("expanded tensors of 2^40 elements are refused, not walked through for hours",
          "[arguments][small]") {
  const auto huge = [](const Shape& shape, DType dtype = DType::f32) {
    return zeros({"one", Dims::filled(shape.size(), 1), dtype, false}).expand(shape);
  };
  const int64_t half = 1 << 20, quarter = 1 << 10;
  const Tensor x = huge({half, half}), y = zeros({"y", {1}, DType::f32, true}),
               row = zeros({"y", {1, 1}, DType::f32, true});
  const Tensor labels = zeros({"labels", {1}, DType::i64, false}).expand({half * half});
  const Stream& st = stream();
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"reduce", [&] { reduce(st, {x}, {y}, {}, sum_of("x0")); }},
      {"reduction", [&] { reduction(st, "var", x, {0}, {y}); }},
      {"argmax",
       [&] {
         reduction(st, "argmax", x, {}, {zeros({"i", {1}, DType::i64, true})});
       }},
      {"logsumexp",
       [&] {
         logsumexp(st, huge({1, half * half}), 1, row);
       }},
      {"linear_backward_bias",
       [&] {
         linear_backward_bias(st, huge({half * half, 1}), y);
       }},
      {"conv_backward_bias",
       [&] {
         conv_backward_bias(st, huge({half, 1, quarter, quarter}), y);
       }},
      {"tile_backward", [&] { tile_backward(st, x, row); }},
      {"loss", [&] { loss(st, "mse", x, x, {}, {}, y); }},
      {"nll_loss",
       [&] {
         nll_loss(st, huge({half * half, 1}), labels, {}, {}, y);
       }},
      {"cross_entropy",
       [&] {
         cross_entropy(st, huge({half * half, 1}), labels, {}, {}, y);
       }},
      {"histc", [&] { histc(st, huge({half * half}), {}, y); }},
      {"bincount",
       [&] {
         bincount(st, labels, {}, zeros({"y", {1}, DType::i64, true}));
       }},
      {"median",
       [&] {
         median(st, x, 1, zeros({"y", {half, 1}, DType::f32, true}));
       }},
      {"gather_backward",
       [&] {
         gather_backward(st, x, labels.as_strided({half, half}, {0, 0}), 0,
                         zeros({"dx", {1, half}, DType::f32, true}));
       }},
      {"embedding_backward",
       [&] {
         embedding_backward(st, huge({half * half, 1}), labels, {}, row);
       }},
      {"masked_select",
       [&] {
         masked_select(st, x, x, y, zeros({"count", {1}, DType::i64, true}));
       }},
      {"unique",
       [&] {
         unique(st, x, {y, zeros({"count", {1}, DType::i64, true}), {}, {}});
       }},
  };
  for (const auto& [name, call] : calls) {
    INFO(name);
    const std::string refusal = error_of<ValidationError>(call);
    CAPTURE(refusal);
    CHECK(refusal != "(nothing was thrown)");
  }
  CHECK(error_of<ValidationError>(calls[0].second) ==
        "inputs[0]: too many elements in [1048576, 1048576], must be fewer than 2^40");
  // What is just below is prepared, not refused: no device has as much memory, but nobody knows all devices.
  const TensorDesc below({half, half - 1}, {0, 0}, DType::f32, true);
  CHECK_NOTHROW(Reduce(context(), {below}, {TensorDesc({1})}, 0, sum_of("x0")));
}

TEST_CASE("axes whose taps 32 bits cannot count are refused before tables are made of them",
          "[arguments][small]") {
  const int64_t most = int64_t{1} << 28;
  const TensorDesc x({1, 1, 4}), y({1, 1, most + 1}), expanded({1, 1, most + 1}, {0, 0, 0}, DType::f32, true);
  for (const auto mode : {InterpolateMode::nearest, InterpolateMode::linear}) {
    CHECK(error_of<ValidationError>([&] {
            Interpolate(context(), {x, y, {mode}});
          }) == "y: size 268435457 of axis 2 must be 2^28 or less");
    CHECK(error_of<ValidationError>([&] {
            Interpolate(context(), {expanded, x, {mode}});
          }) == "x: size 268435457 of axis 2 must be 2^28 or less");
  }
}

TEST_CASE("memory_overlaps misses no shared byte", "[arguments][small]") {
  Rng rng(20);
  const Tensor memory = zeros({"memory", {512}, DType::u8, false});
  const auto view = [&] {
    const DType dtype = std::vector<DType>{DType::u8, DType::f16, DType::f32, DType::i64}[rng.next() % 4];
    const Tensor whole = memory.reinterpret(dtype);
    for (;;) {
      Shape shape;
      Strides strides;
      for (int64_t rank = rng.integer(0, 3); rank > 0; rank--) {
        shape.push_back(rng.integer(1, 4));
        strides.push_back(rng.integer(0, 12));
      }
      const int64_t at = rng.integer(0, whole.numel() - 1);
      if (at + detail::extent_of(TensorDesc(shape, strides, dtype, false)) <= whole.numel())
        return whole.as_strided(shape, strides, at);
    }
  };
  const auto bytes_of_elements = [](const Tensor& x) {
    std::set<int64_t> bytes;
    const auto size = static_cast<int64_t>(size_of(x.dtype()));
    for (int64_t i = 0; i < x.numel(); i++) {
      int64_t at = x.offset(), rest = i;
      for (int d = 0; d < x.rank(); d++) at += rest % x.shape()[d] * x.strides()[d], rest /= x.shape()[d];
      for (int64_t b = 0; b < size; b++) bytes.insert(at * size + b);
    }
    return bytes;
  };
  int shared = 0, known_apart = 0;
  for (int i = 0; i < 20000; i++) {
    const Tensor a = view(), b = view();
    const std::set<int64_t> of_a = bytes_of_elements(a), of_b = bytes_of_elements(b);
    const bool meet =
        std::any_of(of_a.begin(), of_a.end(), [&](int64_t byte) { return of_b.count(byte) > 0; });
    shared += meet;
    known_apart += !detail::memory_overlaps(a, b);
    if (meet && !detail::memory_overlaps(a, b))
      FAIL(to_string(a.shape()) << to_string(a.strides()) << a.offset() << name_of(a.dtype()) << " and "
                                << to_string(b.shape()) << to_string(b.strides()) << b.offset()
                                << name_of(b.dtype()));
  }
  CHECK(shared > 1000);
  CHECK(known_apart > 1000);
}
