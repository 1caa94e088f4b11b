// Sorting as cases of `measure`: "sort f=sort direction=forward size=64x65536 axis=-1 dtype=f32 layout=nchw
// k=8 engine=auto". f: sort (values and indices of 64 bits), top_k, of which k says how many, kth_value or
// median. Backward: the gradient of the values.
#include <dlprim/sort.hpp>

#include <cstdlib>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string f = line.word("f", {"sort", "top_k", "kth_value", "median"});
  const bool backward = line.word("direction", {"forward", "backward"}) == "backward";
  const int axis = std::atoi(line.text("axis", "-1").c_str());
  const int64_t k = line.size("k", 8);
  Options options;
  options.engine = line.text("engine", "auto");
  const Form form(line);
  line.finish();
  const Tensor x = form.input("x");
  Shape shape = x.shape();
  const int at = axis < 0 ? axis + shape.size() : axis;
  if (f != "sort") shape[at] = f == "top_k" ? k : 1;
  const Tensor y = form.result(shape, x.dtype()), indices = form.result(shape, DType::i64);
  const auto run = [=](const Options& with) {
    if (f == "top_k")
      top_k(stream(), x, {axis}, y, indices, with);
    else if (f == "kth_value")
      kth_value(stream(), x, k, axis, y, indices, with);
    else if (f == "median")
      median(stream(), x, axis, y, indices, with);
    else
      sort(stream(), x, {axis}, y, indices, with);
  };
  if (!backward) return moving_case(bytes_of({x, y, indices}), {y, indices}, [=] { run(options); });
  run(options);
  const Tensor dy = form.input("dy", shape, x.dtype()), dx = form.result();
  return moving_case(bytes_of({dy, indices, dx}), {dx},
                     [=] { sort_backward(stream(), dy, indices, axis, dx); });
}
const CasesOf kSort("sort", make);

}  // namespace
}  // namespace dlprim::bench
