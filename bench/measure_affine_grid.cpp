// Affine grids as cases of `measure`: "affine_grid direction=forward align_corners=0 size=64x256x256x2
// dtype=f32 layout=nchw". size is the grid's.
#include <dlprim/affine_grid.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const bool backward = line.word("direction", {"forward", "backward"}) == "backward";
  const bool align_corners = line.word("align_corners", {"0", "1"}) == "1";
  const Form form(line);
  line.finish();

  const int64_t axes = form.shape.back();
  const Tensor theta = form.input("theta", {form.shape[0], axes, axes + 1}, form.dtype);
  if (backward) {
    const Tensor dgrid = form.input("dgrid"), dtheta = form.result(theta.shape(), form.dtype);
    const auto plan = std::make_shared<AffineGridBackward>(
        test::context(), AffineGridBackwardDesc{dgrid, dtheta, align_corners});
    return moving_case(bytes_of({dtheta, dgrid}), {dtheta}, [=] { plan->run(stream(), dgrid, dtheta); });
  }
  const Tensor grid(test::stream(), form.shape, form.dtype);
  const auto plan = std::make_shared<AffineGrid>(test::context(), AffineGridDesc{theta, grid, align_corners});
  return moving_case(bytes_of({theta, grid}), {grid}, [=] { plan->run(stream(), theta, grid); });
}
const CasesOf kAffineGrid("affine_grid", make);

}  // namespace
}  // namespace dlprim::bench
