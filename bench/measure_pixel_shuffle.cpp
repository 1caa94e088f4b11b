// Shuffles as cases of `measure`: "pixel_shuffle f=shuffle factor=2 size=16x256x56x56 dtype=f32 layout=nchw".
// f: shuffle, unshuffle, or channels with `factor` groups; the gradient of each is another of them. size is
// x's.
#include <dlprim/pixel_shuffle.hpp>

#include <cstdlib>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string f = line.word("f", {"shuffle", "unshuffle", "channels"});
  const int64_t r = std::strtol(line.text("factor", "2").c_str(), nullptr, 10);
  const Form form(line);
  line.finish();
  Shape shape = form.shape;
  for (int i = 1; i < shape.size() && f != "channels"; i++) {
    if (f == "shuffle")
      shape[i] = i == 1 ? shape[i] / (r * r) : shape[i] * r;
    else
      shape[i] = i == 1 ? shape[i] * r * r : shape[i] / r;
  }
  const Tensor x = form.input("x"), y = form.result(shape, form.dtype);
  return moving_case(bytes_of({x, y}), {y}, [=] {
    if (f == "channels")
      channel_shuffle(stream(), x, r, y);
    else if (f == "shuffle")
      pixel_shuffle(stream(), x, r, y);
    else
      pixel_unshuffle(stream(), x, r, y);
  });
}
const CasesOf kPixelShuffle("pixel_shuffle", make);

}  // namespace
}  // namespace dlprim::bench
