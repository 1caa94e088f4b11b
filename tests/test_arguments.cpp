// What every operator does with arguments at the edge: outputs in memory of other tensors, sizes of 0.
#include <algorithm>

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
    for (unsigned zeroed = 1; zeroed < 1u << op.sizes.size(); zeroed++) {
      Sizes sizes = op.sizes;
      for (size_t i = 0; i < sizes.size(); i++)
        if (zeroed >> i & 1u) sizes[i] = 0;
      const std::string text = op.name + " " + to_string(Dims(sizes));
      if (!is_selected(text)) continue;
      INFO(again(text));
      std::vector<Guarded> guards;
      Tensors tensors;
      for (const Operand& o : op.operands(sizes)) {
        guards.emplace_back(o.shape, o.dtype);
        tensors.push_back(guards.back().tensor());
        if (!o.written) fill(stream(), tensors.back(), 0);
      }
      try {
        op.call(stream(), tensors);
      } catch (const ValidationError& refusal) {
        UNSCOPED_INFO(refusal.what());
      }
      stream().finish();
      CHECK(std::all_of(guards.begin(), guards.end(), [](const Guarded& g) { return g.intact(); }));
    }
}
