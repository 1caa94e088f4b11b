// Movement as cases of `measure`: "movement f=transpose direction=forward size=64x256x56x56 dtype=f32
// layout=nchw". transpose: the first axis after all others; permute: channels from behind pixels to before
// them; concat: four parts along axis 1; slice: every second element; flip and roll: the last two axes;
// masked_fill: every second element; cast: to the dtype `to`. arange, linspace, eye and fill have only a
// result. direction=backward: the gradient, where it is no view.
#include <dlprim/copy.hpp>
#include <dlprim/masked.hpp>
#include <dlprim/movement.hpp>
#include <dlprim/patterns.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

/// What only its places make; `f` is another one: no case.
std::unique_ptr<Case> made_case(const std::string& f, const Form& form) {
  const auto made = [&](const Tensor& y, auto run) { return moving_case(bytes_of({y}), {y}, run); };
  if (f == "eye" || f == "fill") {
    const Tensor y = form.result();
    if (f == "eye") return made(y, [y] { eye(stream(), 0, y); });
    return made(y, [y] { fill(stream(), 1, y); });
  }
  const Tensor y = form.result({element_count(form.shape)}, form.dtype);
  if (f == "arange") return made(y, [y] { arange(stream(), 0, 1, y); });
  if (f == "linspace") return made(y, [y] { linspace(stream(), 0, 1, y); });
  if (f != "one_hot") return nullptr;
  const int64_t classes = form.shape.back();
  const Tensor index = Tensor(test::context(), {y.numel() / classes}, DType::i64);
  fill(stream(), 1, index);
  const Tensor table = y.reshape({index.numel(), classes});
  return moving_case(bytes_of({index, table}), {table}, [index, table] { one_hot(stream(), index, table); });
}

/// From x to tensors of other shapes; `f` is another one: no case.
std::unique_ptr<Case> reshaping_case(const std::string& f, bool backward, const Form& form) {
  const int rank = form.shape.size(), last = rank - 1;
  const auto copy_case = [&](const Tensor& view) {
    const Tensor y = form.result(view.shape(), form.dtype);
    return moving_case(2 * bytes_of({y}), {y}, [view, y] { copy(stream(), view, y); });
  };
  if (f == "transpose" || f == "permute") {
    Dims axes;
    for (int i = 1; i < rank; i++) axes.push_back(i);
    axes.push_back(0);
    if (f == "permute") axes = {0, last};
    for (int i = 1; f == "permute" && i < last; i++) axes.push_back(i);
    return copy_case(form.input("x").permute(axes));
  }
  Shape shape = form.shape;
  if (f == "concat") {
    shape[1] *= 4;
    const Tensor x = form.input("x"), y = form.result(shape, form.dtype);
    return moving_case(2 * bytes_of({y}), {y}, [x, y] { concat(stream(), {x, x, x, x}, 1, y); });
  }
  if (f == "slice") {
    const int64_t size = shape[last];
    if (!backward) return copy_case(form.input("x").slice(last, 0, size, 2));
    shape[last] = (size + 1) / 2;
    const Tensor dy = form.input("dy", shape, form.dtype), dx = form.result();
    return moving_case(bytes_of({dy, dx}), {dx}, [=] { slice_backward(stream(), dy, last, 0, size, 2, dx); });
  }
  if (f != "tile") return nullptr;
  shape[last] *= 4;
  if (backward) {
    const Tensor dy = form.input("dy", shape, form.dtype), dx = form.result();
    return moving_case(bytes_of({dy, dx}), {dx}, [=] { tile_backward(stream(), dy, dx); });
  }
  const Tensor x = form.input("x"), y = form.result(shape, form.dtype);
  return moving_case(bytes_of({x, y}), {y}, [=] { tile(stream(), x, y); });
}

/// From x, or dy, to a tensor of its shape.
std::unique_ptr<Case> same_shape_case(const std::string& f, bool backward, const Form& form, DType to) {
  const Tensor x = form.input(backward ? "dy" : "x", form.shape, f == "cast" && backward ? to : form.dtype);
  const Tensor y = f == "cast" && !backward ? form.result(form.shape, to) : form.result();
  const auto moved = [&](auto run) { return moving_case(bytes_of({x, y}), {y}, run); };
  if (f == "cast") return moved([=] { copy(stream(), x, y); });
  if (f == "flip") return moved([=] { flip(stream(), x, {-2, -1}, y); });
  if (f == "roll") {
    const int64_t sign = backward ? -1 : 1;
    return moved([=] { roll(stream(), x, {3 * sign, 5 * sign}, {-2, -1}, y); });
  }
  if (f == "tril") return moved([=] { tril(stream(), x, 0, y); });
  if (f == "triu") return moved([=] { triu(stream(), x, 0, y); });
  const Tensor mask = form.mask();
  const double value = backward ? 0 : -1;
  return moving_case(bytes_of({x, y, mask}), {y}, [=] { masked_fill(stream(), x, mask, value, y); });
}

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string f =
      line.word("f", {"transpose", "permute", "concat", "slice", "tile", "flip", "roll", "tril", "triu",
                      "masked_fill", "one_hot", "cast", "arange", "linspace", "eye", "fill"});
  const bool backward = line.word("direction", {"forward", "backward"}) == "backward";
  const DType to = line.dtype("to", DType::f16);
  const Form form(line);
  line.finish();
  for (const char* other : {"transpose", "permute", "concat", "one_hot", "arange", "linspace", "eye", "fill"})
    if (backward && f == other) throw Error("movement f=" + f + " has no direction=backward");
  if (std::unique_ptr<Case> made = made_case(f, form)) return made;
  if (std::unique_ptr<Case> reshaping = reshaping_case(f, backward, form)) return reshaping;
  return same_shape_case(f, backward, form, to);
}
const CasesOf kMovement("movement", make);

}  // namespace
}  // namespace dlprim::bench
