// Max unpooling as cases of `measure`: "max_unpool direction=forward size=64x64x56x56 indices=i64 dtype=f32
// layout=nchw". size is x's; y has twice as many elements along each axis of the plane. The indices are those
// of maxima in windows of 2.
#include <dlprim/max_unpool.hpp>
#include <dlprim/pool.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const bool backward = line.word("direction", {"forward", "backward"}) == "backward";
  const DType of_indices = line.word("indices", {"i64", "i32"}) == "i64" ? DType::i64 : DType::i32;
  const Form form(line);
  const Options options = options_of(line);
  line.finish();

  const int spatial = form.shape.size() - 2;
  Shape wide = form.shape;
  for (int i = 2; i < wide.size(); i++) wide[i] *= 2;
  PoolParams params;
  params.kernel = Dims::filled(spatial, 2);
  const Tensor x = form.result(), indices = form.result(form.shape, of_indices);
  pool(stream(), form.input("wide", wide, form.dtype), params, x, indices);
  if (backward) {
    const Tensor dy = form.input("dy", wide, form.dtype);
    const auto plan = std::make_shared<MaxUnpoolBackward>(
        test::context(), MaxUnpoolBackwardDesc{dy, indices, x, spatial}, options);
    return moving_case(2 * bytes_of({x}) + bytes_of({indices}), {x},
                       [=] { plan->run(stream(), dy, indices, x); });
  }
  const Tensor y = form.result(wide, form.dtype);
  const auto plan =
      std::make_shared<MaxUnpool>(test::context(), MaxUnpoolDesc{x, indices, y, spatial}, options);
  return moving_case(bytes_of({x, indices, y}), {y}, [=] { plan->run(stream(), x, indices, y); });
}
const CasesOf kMaxUnpool("max_unpool", make);

}  // namespace
}  // namespace dlprim::bench
