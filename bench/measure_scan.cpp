// Scans as cases of `measure`: "scan f=cumsum axis=1 direction=forward size=8192x4096 dtype=f32 layout=nchw".
// f: cumsum, cumprod, cummax and cummin (with their index).
#include <dlprim/scan.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string f = line.word("f", {"cumsum", "cumprod", "cummax", "cummin"});
  const bool backward = line.word("direction", {"forward", "backward"}) == "backward";
  const int axis = std::stoi(line.text("axis", "-1"));
  const Form form(line);
  line.finish();
  const Tensor x = form.input("x"), y = form.result();
  if (f == "cummax" || f == "cummin") {
    const auto extreme = f == "cummax" ? cummax : cummin;
    const ScanParams params{axis};
    const Tensor index = form.result(form.shape, DType::i64);
    if (!backward)
      return moving_case(bytes_of({x, y, index}), {y, index},
                         [=] { extreme(stream(), x, params, y, index, {}, {}); });
    extreme(stream(), x, params, y, index, {}, {});
    const Tensor dy = form.input("dy"), dx = form.result();
    return moving_case(bytes_of({dy, index, dx}), {dx},
                       [=] { cummax_backward(stream(), dy, index, {axis}, dx); });
  }
  const auto forward = f == "cumsum" ? cumsum : cumprod;
  if (!backward) return moving_case(bytes_of({x, y}), {y}, [=] { forward(stream(), x, {axis}, y, {}, {}); });
  const Tensor dy = form.input("dy"), dx = form.result();
  if (f == "cumsum")
    return moving_case(bytes_of({dy, dx}), {dx}, [=] { cumsum_backward(stream(), dy, {axis}, dx); });
  forward(stream(), x, {axis}, y, {}, {});
  return moving_case(bytes_of({dy, x, y, dx}), {dx},
                     [=] { cumprod_backward(stream(), dy, x, y, {axis}, dx); });
}
const CasesOf kScan("scan", make);

}  // namespace
}  // namespace dlprim::bench
