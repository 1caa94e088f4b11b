// Operators whose lines of the log have each tensor: elements, copies, normalisations, pooling.
#include <dlprim/copy.hpp>
#include <dlprim/elementwise.hpp>
#include <dlprim/layer_norm.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/pool.hpp>
#include <dlprim/softmax.hpp>

#include <algorithm>
#include <cctype>

#include "ops/tune/logged_kinds.hpp"
#include "ops/tune/tune_operands.hpp"

namespace dlprim::detail {
namespace {

/// "x0", "x1", ... as far as they go.
std::vector<TensorDesc> numbered(ProblemLine& line, const char* name) {
  std::vector<TensorDesc> list;
  for (std::string field = cat(name, 0); line.has(field); field = cat(name, list.size()))
    list.push_back(line.tensor(field));
  return list;
}

std::vector<Tensor> filled(const Stream& stream, const std::vector<TensorDesc>& descs) {
  std::vector<Tensor> tensors;
  for (const TensorDesc& desc : descs) tensors.push_back(tune_integers(stream, desc, tensors.size() + 1));
  return tensors;
}

TuneRun make_copy(const Stream& stream, ProblemLine& line, const Options& options) {
  const CopyDesc desc{line.tensor("x"), line.tensor("y")};
  line.finish();
  const auto plan = std::make_shared<const Copy>(stream.context(), desc, options);
  return logged_run(plan, [stream, x = tune_integers(stream, desc.x, 1),
                           y = tune_memory(stream, desc.y)](const Copy& p) { p.run(stream, x, y); });
}

TuneRun make_fill(const Stream& stream, ProblemLine& line, const Options& options) {
  const FillDesc desc{line.tensor("y")};
  line.finish();
  const auto plan = std::make_shared<const Fill>(stream.context(), desc, options);
  return logged_run(plan, [stream, y = tune_memory(stream, desc.y)](const Fill& p) { p.run(stream, 1, y); });
}

TuneRun make_elementwise(const Stream& stream, ProblemLine& line, const Options& options) {
  ElementwiseDesc desc;
  desc.function = line.text("f", "");
  if (desc.function.empty()) line.refuse("has no f=");
  desc.inputs = numbered(line, "x");
  desc.y = line.tensor("y");
  line.finish();
  const auto plan = std::make_shared<const Elementwise>(stream.context(), desc, options);
  return logged_run(plan, [stream, inputs = filled(stream, desc.inputs), y = tune_memory(stream, desc.y)](
                              const Elementwise& p) { p.run(stream, inputs, {}, y); });
}

/// The text of generated_text(), with its white space and percent signs.
std::string expression_of(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); i++) {
    const std::string escape = text[i] == '%' ? text.substr(i, 3) : "";
    const bool known = escape == "%20" || escape == "%25";
    result += !known ? text[i] : escape == "%20" ? ' ' : '%';
    i += known ? 2 : 0;
  }
  return result;
}

/// How many parameters s0, s1, ... an expression uses.
int scalars_of(const std::string& expression) {
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  int count = 0;
  for (size_t i = 0; i < expression.size();) {
    size_t end = i;
    while (end < expression.size() && in_word(expression[end])) end++;
    const std::string number = end > i + 1 && end < i + 4 ? expression.substr(i + 1, end - i - 1) : "";
    if (expression[i] == 's' && !number.empty() &&
        number.find_first_not_of("0123456789") == std::string::npos)
      count = std::max(count, std::stoi(number) + 1);
    i = std::max(end, i + 1);
  }
  return count;
}

TuneRun make_pointwise(const Stream& stream, ProblemLine& line, const Options& options) {
  const std::vector<TensorDesc> inputs = numbered(line, "x"), outputs = numbered(line, "y");
  const std::string body = expression_of(line.text("body", ""));
  if (body.empty()) line.refuse("has no body=");
  line.text("vector", "");  // of the kernel's form
  line.finish();
  const int scalars = scalars_of(body);
  const auto plan =
      std::make_shared<const Pointwise>(stream.context(), inputs, outputs, scalars, body, options);
  return logged_run(plan, [stream, xs = filled(stream, inputs), ys = filled(stream, outputs),
                           parameters = std::vector<Scalar>(static_cast<size_t>(scalars), 1.0)](
                              const Pointwise& p) { p.run(stream, xs, ys, parameters); });
}

TuneRun make_softmax(const Stream& stream, ProblemLine& line, const Options& options) {
  SoftmaxDesc desc{line.tensor("x"), line.tensor("y"), static_cast<int>(line.whole("axis", -1))};
  desc.log = line.op() == "log_softmax";
  if (line.has("mask")) desc.mask = line.tensor("mask");
  line.finish();
  const auto plan = std::make_shared<const Softmax>(stream.context(), desc, options);
  return logged_run(plan, [stream, x = tune_integers(stream, desc.x, 1), y = tune_memory(stream, desc.y),
                           mask = desc.mask ? tune_integers(stream, *desc.mask, 2)
                                            : Tensor()](const Softmax& p) { p.run(stream, x, mask, y); });
}

/// Weight and bias have x's dtype, which a line does not say.
TuneRun make_layer_norm(const Stream& stream, ProblemLine& line, const Options& options) {
  LayerNormDesc desc;
  desc.x = line.tensor("x"), desc.y = line.tensor("y");
  desc.axes = static_cast<int>(line.size("axes", 1));
  desc.epsilon = line.number("epsilon", 1e-5);
  desc.rms = line.op() == "rms_norm";
  desc.statistics = line.flag("statistics");
  const int rank = desc.x.shape.size();
  if (desc.axes > rank) line.refuse("axes=", desc.axes, ", but x has rank ", rank);
  Shape weights, statistics = desc.x.shape;
  for (int i = rank - desc.axes; i < rank; i++) weights.push_back(desc.x.shape[i]), statistics[i] = 1;
  if (line.flag("weight")) desc.weight = TensorDesc(weights, desc.x.dtype);
  if (line.flag("bias")) desc.bias = TensorDesc(weights, desc.x.dtype);
  line.finish();
  const auto plan = std::make_shared<const LayerNorm>(stream.context(), desc, options);
  const bool wide = desc.x.dtype == DType::f64 || desc.y.dtype == DType::f64;
  const auto statistic = [&](bool wanted) {
    return wanted ? Tensor(stream, statistics, wide ? DType::f64 : DType::f32) : Tensor();
  };
  const auto given = [&](const std::optional<TensorDesc>& vector, uint64_t seed) {
    return vector ? tune_integers(stream, *vector, seed) : Tensor();
  };
  return logged_run(plan, [stream, x = tune_integers(stream, desc.x, 1), weight = given(desc.weight, 2),
                           bias = given(desc.bias, 3), y = tune_memory(stream, desc.y),
                           mean = statistic(desc.statistics && !desc.rms),
                           inv_std = statistic(desc.statistics)](const LayerNorm& p) {
    p.run(stream, x, weight, bias, y, mean, inv_std);
  });
}

TuneRun make_pool(const Stream& stream, ProblemLine& line, const Options& options) {
  PoolDesc desc;
  PoolParams& p = desc.params;
  const std::string mode = line.word("mode", {"max", "average", "lp"});
  p.mode = mode == "max" ? PoolMode::max : mode == "average" ? PoolMode::average : PoolMode::lp;
  desc.x = line.tensor("x"), desc.y = line.tensor("y");
  for (const auto& [name, list] :
       std::initializer_list<std::pair<const char*, Dims*>>{{"kernel", &p.kernel},
                                                            {"stride", &p.stride},
                                                            {"pad_begin", &p.pad_begin},
                                                            {"pad_end", &p.pad_end},
                                                            {"dilation", &p.dilation},
                                                            {"output", &p.output}})
    *list = line.integers(name, ',', {});
  p.ceil_mode = line.flag("ceil_mode");
  p.count_include_pad = line.word("count_include_pad", {"1", "0"}) == "1";
  p.divisor = line.whole("divisor", 0);
  p.norm = line.number("norm", 2);
  if (line.flag("indices")) desc.indices = TensorDesc(desc.y.shape, DType::i64);
  line.finish();
  const auto plan = std::make_shared<const Pool>(stream.context(), desc, options);
  return logged_run(plan, [stream, x = tune_integers(stream, desc.x, 1), y = tune_memory(stream, desc.y),
                           indices = desc.indices ? tune_memory(stream, *desc.indices) : Tensor()](
                              const Pool& pool) { pool.run(stream, x, y, indices); });
}

}  // namespace

std::vector<LoggedKind> logged_elements() {
  return {{"copy", make_copy},
          {"fill", make_fill},
          {"elementwise", make_elementwise},
          {"pointwise", make_pointwise},
          {"softmax", make_softmax},
          {"log_softmax", make_softmax},
          {"layer_norm", make_layer_norm},
          {"rms_norm", make_layer_norm},
          {"pool", make_pool}};
}

}  // namespace dlprim::detail
