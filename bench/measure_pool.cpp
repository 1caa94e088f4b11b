// Pooling as cases of `measure`: "pool mode=max direction=forward indices=1 size=64x64x112x112 window=3x3
// stride=2x2 pad=1x1 dtype=f32 layout=nchw". mode: max, average, lp (of norm 2). output=7x7 instead of
// window, stride and pad: adaptive windows. indices=1: with those of maxima, which backward needs.
#include "cases/pool.hpp"
#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

/// "3x3"; empty if the field is missing.
Dims list_of(detail::ProblemLine& line, const char* field) {
  const std::string text = line.text(field, "");
  Dims result;
  for (size_t at = 0; at < text.size();) {
    size_t length = 0;
    result.push_back(std::stoll(text.substr(at), &length));
    at += length + 1;
  }
  return result;
}

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string mode = line.word("mode", {"max", "average", "lp"});
  const bool backward = line.word("direction", {"forward", "backward"}) == "backward";
  const bool with_indices = line.text("indices", "0") == "1";
  PoolParams params;
  params.mode = mode == "max" ? PoolMode::max : mode == "average" ? PoolMode::average : PoolMode::lp;
  params.kernel = list_of(line, "window");
  params.stride = list_of(line, "stride");
  params.pad_begin = list_of(line, "pad");
  params.output = list_of(line, "output");
  const Form form(line);
  const Options options = options_of(line);
  line.finish();

  const Tensor x = form.input("x"), y = form.result(pool_output_shape(form.shape, params), form.dtype);
  Tensor indices;
  if (with_indices) indices = form.result(y.shape(), DType::i64);
  const auto forward = std::make_shared<Pool>(
      test::context(),
      PoolDesc{x, y, params, with_indices ? std::optional<TensorDesc>(indices) : std::nullopt}, options);
  if (!backward) {
    std::vector<Tensor> results{y};
    if (with_indices) results.push_back(indices);
    return moving_case(bytes_of({x, y, indices}), results, [=] { forward->run(stream(), x, y, indices); });
  }
  const Tensor dy = form.input("dy", y.shape(), form.dtype), dx = form.result();
  PoolSaved saved{indices};
  if (params.mode == PoolMode::lp) saved = {{}, x, y};
  forward->run(stream(), x, y, indices);
  const auto plan =
      std::make_shared<PoolBackward>(test::context(),
                                     PoolBackwardDesc{dy, dx, params, test::described(indices),
                                                      test::described(saved.x), test::described(saved.y)},
                                     options);
  return moving_case(bytes_of({dy, dx, indices, saved.x, saved.y}), {dx},
                     [=] { plan->run(stream(), dy, saved, dx); });
}
const CasesOf kPool("pool", make);

}  // namespace
}  // namespace dlprim::bench
