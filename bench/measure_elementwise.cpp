// Elementwise functions as cases of `measure`: "elementwise f=gelu direction=forward size=64x256x56x56
// dtype=f32 layout=nchw low=-1 high=1". All inputs have one shape, but prelu's slope is one number for each
// channel, and glu's inputs are the halves of a tensor of that size along axis 1; backward gives all
// gradients that there are. f=copy: a plain copy.
#include <dlprim/copy.hpp>

#include "cases/elementwise.hpp"
#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

/// [1, C, 1, ...]
Shape channel_shape(const Shape& x) {
  Shape result = x;
  for (int axis = 0; axis < x.size(); axis++)
    if (axis != 1) result[axis] = 1;
  return result;
}

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string f = line.text("f", "copy");
  const bool backward = line.word("direction", {"forward", "backward"}) == "backward";
  const Form form(line);
  line.finish();
  if (f == "copy") {
    const Tensor x = form.input("x"), y = form.result();
    return moving_case(bytes_of({x, y}), {y}, [x, y] { copy(stream(), x, y); });
  }
  Shape shape = form.shape;
  if (f == "glu") shape[1] /= 2;
  const Tensor x = f == "glu" ? form.input("x") : Tensor(), dx = f == "glu" ? form.result() : Tensor();
  std::vector<Tensor> results;
  const auto make_operand = [&](const std::string& name, DType dtype, bool written) {
    if (f == "glu" && name != "y") {
      const int64_t half = name == "a" ? 0 : 1;
      if (written && half == 0) results.push_back(dx);
      return (written ? dx : x).slice(1, half * shape[1], (half + 1) * shape[1]);
    }
    const bool slope = f == "prelu" && name == "slope";
    const Shape& size = slope ? channel_shape(shape) : shape;
    if (written)
      return results.emplace_back(slope ? Tensor(test::context(), size, dtype) : form.result(size, dtype));
    return slope ? random_tensor(name, size, dtype) : form.input(name == "y" ? "dy" : name, size, dtype);
  };
  const test::ElementwiseCase function(elementwise_function(f), backward, form.dtype, make_operand);
  return moving_case(function.bytes(), results, [function] { function.run(stream()); });
}
const CasesOf kElementwise("elementwise", make);

}  // namespace
}  // namespace dlprim::bench
