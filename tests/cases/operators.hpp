// Every operator's call as data: its tensors, which of them it writes, the sizes that their shapes are made
// of. What holds for all operators (outputs apart from inputs, sizes of 0) is tested over this list.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim::test {

struct Operand {
  const char* name;
  Shape shape;
  DType dtype;
  bool written;
};
using Operands = std::vector<Operand>;
using Sizes = std::vector<int64_t>;
using Tensors = std::vector<Tensor>;

struct OperatorCall {
  std::string name;
  Sizes sizes;  ///< with which it runs
  std::function<Operands(const Sizes&)> operands;
  std::function<void(const Stream&, const Tensors&)> call;
};

const std::vector<OperatorCall>& operator_calls();

// Its parts.
std::vector<OperatorCall> norms_and_losses();
std::vector<OperatorCall> products_and_windows();
std::vector<OperatorCall> elements_and_reductions();
std::vector<OperatorCall> movement_and_order();

inline Operand in(const char* name, const Shape& shape, DType dtype = DType::f32) {
  return {name, shape, dtype, false};
}
inline Operand out(const char* name, const Shape& shape, DType dtype = DType::f32) {
  return {name, shape, dtype, true};
}

}  // namespace dlprim::test
