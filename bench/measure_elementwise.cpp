// Elementwise functions as cases of `measure`: "elementwise f=gelu direction=forward size=64x256x56x56
// dtype=f32 layout=nchw low=-1 high=1". All inputs have one shape; backward gives all gradients that there
// are. f=copy: a plain copy.
#include <dlprim/copy.hpp>

#include "cases/elementwise.hpp"
#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string f = line.text("f", "copy");
  const bool backward = line.word("direction", {"forward", "backward"}) == "backward";
  const Form form(line);
  line.finish();
  if (f == "copy") {
    const Tensor x = form.input(), y = form.result();
    return moving_case(
        bytes_of({x, y}), [x, y] { copy(stream(), x, y); }, "copy");
  }
  const test::ElementwiseCase function(
      elementwise_function(f), backward, form.dtype, [&](DType dtype, bool written) {
        return written ? form.result(form.shape, dtype) : form.input(form.shape, dtype);
      });
  return moving_case(function.bytes(), [function] { function.run(stream()); });
}
const CasesOf kElementwise("elementwise", make);

}  // namespace
}  // namespace dlprim::bench
