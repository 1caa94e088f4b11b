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
    const Tensor x = form.input("x");
    masked_fill(stream(), x, mask, 0, x);
    const auto places = std::make_shared<Tensor>(nonzero(stream(), x));
    return moving_case(
        bytes_of({x, *places}), [places] { return std::vector<Tensor>{*places}; },
        [x, places] { *places = nonzero(stream(), x); });
  }
  const Tensor x = form.input("x");
  const auto chosen = std::make_shared<Tensor>(masked_select(stream(), x, mask));
  if (!backward)
    return moving_case(
        bytes_of({x, mask, *chosen}), [chosen] { return std::vector<Tensor>{*chosen}; },
        [=] { *chosen = masked_select(stream(), x, mask); });
  const Tensor dx = form.result(), dy = random_tensor("dy", chosen->shape(), form.dtype);
  return moving_case(bytes_of({dy, mask, dx}), {dx}, [=] { masked_select_backward(stream(), dy, mask, dx); });
}
const CasesOf kMasked("masked", make);

}  // namespace
}  // namespace dlprim::bench
