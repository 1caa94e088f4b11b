// Interpolation as cases of `measure`: "interpolate mode=linear scale=2 align_corners=0 antialias=0
// direction=forward size=16x256x56x56 dtype=f32 layout=nchw". y is `scale` times as large along every axis
// behind C.
#include <dlprim/interpolate.hpp>

#include <cstdlib>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const bool backward = line.word("direction", {"forward", "backward"}) == "backward";
  const std::string mode = line.word("mode", {"nearest", "nearest_exact", "linear", "cubic", "area"});
  InterpolateParams params;
  params.mode = mode == "nearest"         ? InterpolateMode::nearest
                : mode == "nearest_exact" ? InterpolateMode::nearest_exact
                : mode == "linear"        ? InterpolateMode::linear
                : mode == "cubic"         ? InterpolateMode::cubic
                                          : InterpolateMode::area;
  params.align_corners = line.word("align_corners", {"0", "1"}) == "1";
  params.antialias = line.word("antialias", {"0", "1"}) == "1";
  const double scale = std::strtod(line.text("scale", "2").c_str(), nullptr);
  const Form form(line);
  line.finish();
  const Shape shape = interpolate_output_shape(
      form.shape, std::vector<double>(static_cast<size_t>(form.shape.size() - 2), scale));
  if (backward) {
    const Tensor dy = form.input("dy", shape, form.dtype), dx = form.result();
    return moving_case(bytes_of({dy, dx}), {dx}, [=] { interpolate_backward(stream(), dy, params, dx); });
  }
  const Tensor x = form.input("x"), y = form.result(shape, form.dtype);
  return moving_case(bytes_of({x, y}), {y}, [=] { interpolate(stream(), x, params, y); });
}
const CasesOf kInterpolate("interpolate", make);

}  // namespace
}  // namespace dlprim::bench
