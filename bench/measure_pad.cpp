// Padding as cases of `measure`: "pad mode=constant amount=1 direction=forward size=64x256x56x56 dtype=f32
// layout=nchw". `amount` goes around every axis behind C on both sides.
#include <dlprim/pad.hpp>

#include <cstdlib>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const bool backward = line.word("direction", {"forward", "backward"}) == "backward";
  const std::string mode = line.word("mode", {"constant", "reflect", "replicate", "circular"});
  const int64_t amount = std::strtol(line.text("amount", "1").c_str(), nullptr, 10);
  const Form form(line);
  line.finish();
  PadParams params;
  params.mode = mode == "constant"    ? PadMode::constant
                : mode == "reflect"   ? PadMode::reflect
                : mode == "replicate" ? PadMode::replicate
                                      : PadMode::circular;
  for (int i = 0; i < form.shape.size(); i++) params.begin.push_back(i < 2 ? 0 : amount);
  params.end = params.begin;
  const Shape shape = pad_output_shape(form.shape, params);
  if (backward) {
    const Tensor dy = form.input("dy", shape, form.dtype), dx = form.result();
    return moving_case(bytes_of({dy, dx}), {dx}, [=] { pad_backward(stream(), dy, params, dx); });
  }
  const Tensor x = form.input("x"), y = form.result(shape, form.dtype);
  return moving_case(bytes_of({x, y}), {y}, [=] { pad(stream(), x, params, 0, y); });
}
const CasesOf kPad("pad", make);

}  // namespace
}  // namespace dlprim::bench
