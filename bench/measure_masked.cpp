// Choosing by a mask as cases of `measure`: "masked f=masked_select direction=forward size=64x256x56x56
// dtype=f32 layout=nchw", of every second element, by chance. f: masked_select, nonzero (forward). Results of
// the right size: forward waits for the device, as PyTorch does.
#include <dlprim/masked.hpp>
#include <dlprim/movement.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string f = line.word("f", {"masked_select", "nonzero"});
  const bool backward = line.word("direction", {"forward", "backward"}) == "backward";
  const Form form(line);
  line.finish();
  const Tensor mask = form.mask();
  if (f == "nonzero") {
    if (backward) throw Error("masked f=nonzero has no direction=backward");
    const Tensor x = form.input();
    masked_fill(stream(), x, mask, 0, x);
    const Tensor places = nonzero(stream(), x);
    return moving_case(bytes_of({x, places}), [x] { nonzero(stream(), x); });
  }
  const Tensor x = form.input(), chosen = masked_select(stream(), x, mask);
  if (!backward) return moving_case(bytes_of({x, mask, chosen}), [=] { masked_select(stream(), x, mask); });
  const Tensor dx = form.result();
  return moving_case(bytes_of({chosen, mask, dx}),
                     [=] { masked_select_backward(stream(), chosen, mask, dx); });
}
const CasesOf kMasked("masked", make);

}  // namespace
}  // namespace dlprim::bench
