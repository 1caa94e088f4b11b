// Matrix products and convolutions of lines of the log.
#include <dlprim/conv.hpp>
#include <dlprim/gemm.hpp>

#include "ops/tune/logged_kinds.hpp"
#include "ops/tune/tune_operands.hpp"

namespace dlprim::detail {
namespace {

Activation activation_of(ProblemLine& line, const char* field = "activation") {
  const std::string word = line.text(field, name_of(Activation::identity));
  const std::optional<Activation> activation = activation_named(word);
  if (!activation) line.refuse(field, "=", word, ": there is no such activation");
  return *activation;
}

/// A, B or C: its runs lie along its columns (or, `across`, along its rows), `pitch` apart.
TensorDesc matrix(int64_t batch, int64_t rows, int64_t columns, bool across, int64_t pitch, int64_t step,
                  DType dtype) {
  const Strides strides = across ? Strides{1, pitch} : Strides{pitch, 1};
  if (batch == 1) return {{rows, columns}, strides, dtype, true};
  return {{batch, rows, columns}, {step, strides[0], strides[1]}, dtype, true};
}

GemmDesc::Vector vector_of(ProblemLine& line, const char* name) {
  const std::string word = line.word(name, {"none", "row", "column"});
  return word == "row"      ? GemmDesc::Vector::row
         : word == "column" ? GemmDesc::Vector::column
                            : GemmDesc::Vector::none;
}

/// The description of a line's product.
GemmDesc gemm_desc(ProblemLine& line) {
  const int64_t m = line.size("m"), n = line.size("n"), k = line.size("k"), batch = line.size("batch", 1);
  const DType dtype = line.dtype("dtype", DType::f32);
  const DType result = line.dtype("c_dtype", dtype == DType::i8 ? DType::i32 : dtype);
  const bool a_across = line.word("a", {"mk", "km"}) == "km", b_across = line.word("b", {"kn", "nk"}) == "nk";
  const int64_t lda = line.size("lda", a_across ? m : k), ldb = line.size("ldb", b_across ? k : n),
                ldc = line.size("ldc", n);
  const int64_t a_step = line.whole("a_batch", lda * (a_across ? k : m)),
                b_step = line.whole("b_batch", ldb * (b_across ? n : k));
  GemmDesc desc{matrix(batch, m, k, a_across, lda, a_step, dtype),
                matrix(batch, k, n, b_across, ldb, b_step, dtype),
                matrix(batch, m, n, false, ldc, ldc * m, result)};
  desc.alpha = line.number("alpha", 1), desc.beta = line.number("beta", 0);
  desc.bias = vector_of(line, "bias"), desc.scale = vector_of(line, "scale");
  desc.activation = activation_of(line);
  desc.residual = line.flag("residual"), desc.preactivation = line.flag("preactivation");
  desc.constant_a = line.flag("constant_a"), desc.constant_b = line.flag("constant_b");
  if (line.has("batches"))
    line.refuse("batches=", line.text("batches", ""), ": the line does not say how they lie in memory");
  line.finish();
  return desc;
}

TuneRun make_gemm(const Stream& stream, ProblemLine& line, const Options& options) {
  const GemmDesc desc = gemm_desc(line);
  const auto plan = std::make_shared<const Gemm>(stream.context(), desc, options);
  const int rank = desc.c.shape.size();
  const auto vector = [&](GemmDesc::Vector form, uint64_t seed) {
    if (form == GemmDesc::Vector::none) return Tensor();
    const int64_t size = desc.c.shape[form == GemmDesc::Vector::row ? rank - 1 : rank - 2];
    return tune_integers(stream, TensorDesc({size}, desc.c.dtype), seed);
  };
  EpilogueTensors with(vector(desc.bias, 4));
  with.scale = vector(desc.scale, 5);
  if (desc.residual) with.residual = tune_integers(stream, desc.c, 6);
  if (desc.preactivation) with.preactivation = tune_memory(stream, desc.c);
  return logged_run(plan,
                    [stream, with, a = tune_integers(stream, desc.a, 1), b = tune_integers(stream, desc.b, 2),
                     c = tune_integers(stream, desc.c, 3)](const Gemm& p) { p.run(stream, a, b, with, c); });
}

// Convolutions: a line has x, w and y as engines see them, with gradients in their places, and exchanged if
// the operator is transposed.

enum class Written { x, w, y };

struct LoggedConv {
  TensorDesc x, w, y;  ///< as the operator has them
  ConvParams params;
  bool bias, scale, residual, preactivation, statistics, constant_w, add;
  bool prologue;
  Activation prologue_activation;

  LoggedConv(ProblemLine& line, Written written) {
    const int64_t n = line.size("n"), c = line.size("c"), k = line.size("k");
    params.groups = line.size("groups", 1);
    if (c % params.groups != 0 || k % params.groups != 0)
      line.refuse("groups=", params.groups, " do not divide c=", c, " and k=", k);
    const Dims size = line.sizes("size", {}), window = line.sizes("window", {});
    const int axes = size.size();
    if (window.size() != axes) line.refuse("size= has ", axes, " numbers, window= ", window.size());
    params.stride = along(line, "stride", axes, 1), params.dilation = along(line, "dilation", axes, 1);
    params.pad_begin = along(line, "pad", axes, 0);
    params.transposed = line.flag("transposed");
    const Dims result = results(line, size, window);
    params.activation = activation_of(line);
    bias = line.flag("bias"), scale = line.flag("scale"), residual = line.flag("residual");
    preactivation = line.flag("preactivation"), statistics = line.flag("statistics");
    constant_w = line.flag("constant_w");
    add = line.word("write", {"replace", "add"}) == "add";
    prologue = line.has("prologue");
    prologue_activation = activation_of(line, "prologue");
    const DType dtype = line.dtype("dtype", DType::f32), other = line.dtype("result_dtype", dtype);
    x = described(line, "x_strides", n, c, size, dtype);
    w = described(line, "w_strides", k, c / params.groups, window, dtype);
    y = described(line, "y_strides", n, k, result, dtype);
    line.finish();
    if (params.transposed) std::swap(x, y);
    (written == Written::x ? x : written == Written::w ? w : y).dtype = other;
  }

 private:
  /// A number for each axis.
  static Dims along(ProblemLine& line, const char* name, int axes, int64_t otherwise) {
    const Dims list = line.integers(name, 'x', Dims::filled(axes, otherwise));
    if (list.size() != axes) line.refuse(name, "= has ", list.size(), " numbers for ", axes, " axes");
    return list;
  }

  /// The sizes of y; pad_end becomes what leads to them.
  Dims results(ProblemLine& line, const Dims& size, const Dims& window) {
    const Dims given = line.sizes("result", Dims{0});
    if (given.size() != size.size() && given != Dims{0})
      line.refuse("result= has ", given.size(), " numbers for ", size.size(), " axes");
    Dims result;
    for (int i = 0; i < size.size(); i++) {
      const int64_t reach = (window[i] - 1) * params.dilation[i] + 1, stride = params.stride[i];
      if (stride < 1) line.refuse("stride= has ", stride, ", must be 1 or more");
      const int64_t free = size[i] + 2 * params.pad_begin[i] - reach;
      if (given == Dims{0} && free < 0) line.refuse("the window does not fit into size= and pad=");
      result.push_back(given == Dims{0} ? free / stride + 1 : given[i]);
      params.pad_end.push_back((result[i] - 1) * stride + reach - size[i] - params.pad_begin[i]);
    }
    return result;
  }

  static TensorDesc described(ProblemLine& line, const char* strides, int64_t a, int64_t b, const Dims& space,
                              DType dtype) {
    Shape shape{a, b};
    for (int64_t s : space) shape.push_back(s);
    const TensorDesc packed(shape, dtype);
    const Strides given = line.integers(strides, ',', packed.strides);
    if (given.size() != shape.size())
      line.refuse(strides, "= has ", given.size(), " numbers for ", shape.size(), " dimensions");
    return {shape, given, dtype, true};
  }
};

Tensor channels(const Stream& stream, int64_t count, DType dtype, uint64_t seed) {
  return tune_integers(stream, TensorDesc({count}, dtype), seed);
}

ConvExtras prologue_tensors(const Stream& stream, const LoggedConv& c) {
  ConvExtras with;
  if (c.prologue) with.input_scale = channels(stream, c.x.shape[1], DType::f32, 8);
  if (c.prologue) with.input_shift = channels(stream, c.x.shape[1], DType::f32, 9);
  return with;
}

TuneRun make_conv(const Stream& stream, ProblemLine& line, const Options& options) {
  const LoggedConv c(line, Written::y);
  ConvDesc desc{c.x, c.w, c.y, c.params, c.bias, c.scale, c.residual, c.preactivation, c.statistics};
  desc.prologue = c.prologue, desc.prologue_activation = c.prologue_activation;
  desc.constant_w = c.constant_w;
  const auto plan = std::make_shared<const Conv>(stream.context(), desc, options);
  ConvExtras with = prologue_tensors(stream, c);
  const int64_t k = c.y.shape[1];
  if (c.bias) with.bias = channels(stream, k, c.y.dtype, 4);
  if (c.scale) with.scale = channels(stream, k, c.y.dtype, 5);
  if (c.residual) with.residual = tune_integers(stream, c.y, 6);
  if (c.preactivation) with.preactivation = tune_memory(stream, c.y);
  if (c.statistics) with.mean = Tensor(stream, {k}), with.variance = Tensor(stream, {k});
  return logged_run(plan, [stream, with, x = tune_integers(stream, c.x, 1), w = tune_integers(stream, c.w, 2),
                           y = tune_memory(stream, c.y)](const Conv& p) { p.run(stream, x, w, with, y); });
}

TuneRun make_conv_backward_data(const Stream& stream, ProblemLine& line, const Options& options) {
  const LoggedConv c(line, Written::x);
  const auto plan = std::make_shared<const ConvBackwardData>(
      stream.context(), ConvBackwardDataDesc{c.y, c.w, c.x, c.params}, options);
  return logged_run(plan,
                    [stream, dy = tune_integers(stream, c.y, 1), w = tune_integers(stream, c.w, 2),
                     dx = tune_memory(stream, c.x)](const ConvBackwardData& p) { p.run(stream, dy, w, dx); });
}

TuneRun make_conv_backward_filter(const Stream& stream, ProblemLine& line, const Options& options) {
  const LoggedConv c(line, Written::w);
  ConvBackwardFilterDesc desc{c.x, c.y, c.w, c.params, c.add ? Write::add : Write::replace};
  desc.prologue = c.prologue, desc.prologue_activation = c.prologue_activation;
  const auto plan = std::make_shared<const ConvBackwardFilter>(stream.context(), desc, options);
  return logged_run(plan, [stream, with = prologue_tensors(stream, c), x = tune_integers(stream, c.x, 1),
                           dy = tune_integers(stream, c.y, 2), dw = tune_integers(stream, c.w, 3)](
                              const ConvBackwardFilter& p) { p.run(stream, x, dy, with, dw); });
}

}  // namespace

std::vector<LoggedKind> logged_products() {
  return {{"gemm", make_gemm},
          {"conv", make_conv},
          {"conv_backward_data", make_conv_backward_data},
          {"conv_backward_filter", make_conv_backward_filter}};
}

}  // namespace dlprim::detail
