// Reductions as cases of `measure`: "reduction f=sum axes=0,2,3 direction=forward size=64x256x56x56 dtype=f32
// layout=nchw low=-1 high=1". Those of docs/reductions.md; `axes` are reduced.
#include <sstream>

#include <dlprim/reduction.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;
using Result = ReductionFunction::Result;

Shape without(const Shape& shape, const std::string& axes) {
  Shape result = shape;
  std::istringstream in(axes);
  for (std::string axis; std::getline(in, axis, ',');) result[std::stoi(axis)] = 1;
  return result;
}

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const ReductionFunction& f = reduction_function(line.text("f", "sum"));
  const bool backward = line.word("direction", {"forward", "backward"}) == "backward";
  const std::string axes = line.text("axes", "1");
  const Form form(line);
  line.finish();
  const Shape shape = without(form.shape, axes);
  const Tensor x = form.input("x");
  std::vector<Tensor> results, dy;
  for (const std::string& name : f.results) {
    const bool counts = name == "index" || f.result == Result::count;
    results.emplace_back(stream(), shape,
                         counts                      ? DType::i64
                         : f.result == Result::truth ? DType::boolean
                                                     : form.dtype);
    if (name != "index") dy.push_back(random_tensor("dy" + std::to_string(dy.size()), shape, form.dtype));
  }
  if (!backward) {
    std::vector<Tensor> all = results;
    all.push_back(x);
    return moving_case(bytes_of(all), results,
                       [x, results, name = f.name] { reduction(stream(), name, x, {}, results); });
  }
  reduction(stream(), f.name, x, {}, results);
  const Tensor dx = form.result();
  // A gradient that does not name x does not read it.
  const bool reads = !f.selects && f.gradient.find('x') != std::string::npos;
  std::vector<Tensor> all = {dx};
  if (reads) all.push_back(x);
  return moving_case(bytes_of(all), {dx}, [x, results, dy, dx, name = f.name] {
    reduction_backward(stream(), name, dy, x, results, {}, dx);
  });
}
const CasesOf kReduction("reduction", make);

}  // namespace
}  // namespace dlprim::bench
