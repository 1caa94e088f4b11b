// Movement as cases of `measure`: "movement f=transpose size=64x256x56x56 dtype=f32 layout=nchw". transpose:
// the first axis after all others; permute: channels from behind pixels to before them; concat and split:
// four parts along axis 1; flip and roll: the last two axes.
#include <dlprim/copy.hpp>
#include <dlprim/movement.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string f = line.word("f", {"transpose", "permute", "concat", "slice", "tile", "flip", "roll",
                                        "tril", "masked_fill", "one_hot"});
  const Form form(line);
  line.finish();
  const Tensor x = form.input();
  const int rank = x.rank(), last = rank - 1;
  if (f == "transpose" || f == "permute") {
    Dims axes;
    for (int i = 1; i < rank; i++) axes.push_back(i);
    axes.push_back(0);
    if (f == "permute") axes = {0, last};
    for (int i = 1; f == "permute" && i < last; i++) axes.push_back(i);
    const Tensor view = x.permute(axes), y = form.result(view.shape(), form.dtype);
    return moving_case(
        bytes_of({x, y}), [view, y] { copy(stream(), view, y); }, "copy");
  }
  if (f == "concat") {
    Shape shape = x.shape();
    shape[1] *= 4;
    const Tensor y = form.result(shape, form.dtype);
    return moving_case(2 * bytes_of({y}), [x, y] { concat(stream(), {x, x, x, x}, 1, y); });
  }
  if (f == "slice") {
    const Tensor view = x.slice(last, 0, x.size(last), 2), y = form.result(view.shape(), form.dtype);
    return moving_case(bytes_of({x, y}), [view, y] { copy(stream(), view, y); });
  }
  if (f == "tile") {
    Shape shape = x.shape();
    shape[last] *= 4;
    const Tensor y = form.result(shape, form.dtype);
    return moving_case(bytes_of({x, y}), [x, y] { tile(stream(), x, y); });
  }
  if (f == "one_hot") {
    Shape shape = x.shape();
    shape[last] = 1;
    const Tensor index = Tensor(test::context(), {element_count(shape)}, DType::i64);
    fill(stream(), index, 1);
    const Tensor y = form.result({element_count(shape), x.size(last)}, form.dtype);
    return moving_case(bytes_of({index, y}), [index, y] { one_hot(stream(), index, y); });
  }
  const Tensor y = form.result();
  const double bytes = bytes_of({x, y});
  if (f == "flip") return moving_case(bytes, [=] { flip(stream(), x, {-2, -1}, y); });
  if (f == "roll") return moving_case(bytes, [=] { roll(stream(), x, {3, 5}, {-2, -1}, y); });
  if (f == "tril") return moving_case(bytes, [=] { tril(stream(), x, 0, y); });
  const Tensor mask = form.input(form.shape, DType::boolean);
  return moving_case(bytes_of({x, y, mask}), [=] { masked_fill(stream(), x, mask, -1, y); });
}
const CasesOf kMovement("movement", make);

}  // namespace
}  // namespace dlprim::bench
