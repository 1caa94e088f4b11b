// What every operator does with arguments at the edge: outputs in memory of other tensors, sizes of 0.
#include <algorithm>
#include <sstream>

#include <dlprim/conv.hpp>
#include <dlprim/gemm.hpp>

#include "cases/operators.hpp"
#include "catch.hpp"
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
  fill(stream(), x, 0);
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
        if (!o.written) fill(stream(), tensors.back(), 0);
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
