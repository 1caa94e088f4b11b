// Grid sampling as cases of `measure`: "grid_sample mode=bilinear padding=zeros align_corners=0
// direction=forward size=16x256x56x56 dtype=f32 layout=nchw". y is as large as x; the grid is x's own places,
// each moved by up to 0.05. direction: forward, backward_input, backward_grid.
#include <dlprim/grid_sample.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::context;
using test::stream;

Tensor warp(const Shape& shape, DType dtype) {
  const int axes = shape.size() - 2;
  Shape grid{shape[0]};
  for (int i = 2; i < shape.size(); i++) grid.push_back(shape[i]);
  grid.push_back(axes);
  std::vector<float> values = read<float>(stream(), random_tensor("grid", grid, DType::f32, -0.05, 0.05));
  for (size_t at = 0; at < values.size();) {
    auto rest = static_cast<int64_t>(at) / axes;
    for (int axis = axes - 1; axis >= 0; axis--, at++) {  // along W first
      const int64_t size = shape[axis + 2];
      values[at] +=
          static_cast<float>((2 * static_cast<double>(rest % size) + 1) / static_cast<double>(size) - 1);
      rest /= size;
    }
  }
  return test::device_tensor(grid, values, dtype);
}

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string direction = line.word("direction", {"forward", "backward_input", "backward_grid"});
  const std::string mode = line.word("mode", {"bilinear", "nearest", "bicubic"});
  const std::string padding = line.word("padding", {"zeros", "border", "reflection"});
  GridSampleParams params;
  params.mode = mode == "bilinear"  ? GridSampleMode::bilinear
                : mode == "nearest" ? GridSampleMode::nearest
                                    : GridSampleMode::bicubic;
  params.padding = padding == "zeros"    ? GridSamplePadding::zeros
                   : padding == "border" ? GridSamplePadding::border
                                         : GridSamplePadding::reflection;
  params.align_corners = line.word("align_corners", {"0", "1"}) == "1";
  const Form form(line);
  line.finish();
  const Tensor grid = warp(form.shape, form.dtype), x = form.input("x"), y = form.result();
  const double bytes = bytes_of({x, grid, y});
  if (direction == "forward")
    return moving_case(bytes, {y}, [=] { grid_sample(stream(), x, grid, params, y); });
  const Tensor dy = form.input("dy"), dgrid(context(), grid.shape(), form.dtype);
  if (direction == "backward_input")
    return moving_case(bytes, {y}, [=] { grid_sample_backward_input(stream(), dy, grid, params, y); });
  return moving_case(bytes_of({x, dy, grid, dgrid}), {dgrid},
                     [=] { grid_sample_backward_grid(stream(), dy, x, grid, params, dgrid); });
}
const CasesOf kGridSample("grid_sample", make);

}  // namespace
}  // namespace dlprim::bench
