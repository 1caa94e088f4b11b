// Softmax as cases of `measure`: "softmax f=softmax direction=forward size=8192x1024 axis=1 dtype=f32
// layout=nchw". f: softmax, log_softmax, masked_softmax (a bool mask as large as the innermost two axes),
// logsumexp.
#include <dlprim/softmax.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string f = line.word("f", {"softmax", "log_softmax", "masked_softmax", "logsumexp"});
  const bool backward = line.word("direction", {"forward", "backward"}) == "backward";
  const Dims axes = line.sizes("axis", {1});
  const Form form(line);
  line.finish();
  const int axis = static_cast<int>(axes[0]);
  const Tensor x = form.input("x");
  if (f == "logsumexp") {
    Shape row = form.shape;
    row[axis] = 1;
    const Tensor y = form.result(row, form.dtype);
    if (backward) {
      logsumexp(stream(), x, axis, y);
      const Tensor dy = form.input("dy", row, form.dtype), dx = form.result();
      return moving_case(bytes_of({x, dx}), {dx}, [=] { logsumexp_backward(stream(), dy, x, y, axis, dx); });
    }
    const auto plan = std::make_shared<LogSumExp>(test::context(), LogSumExpDesc{x, y, axis});
    return moving_case(bytes_of({x, y}), {y}, [plan, x, y] { plan->run(stream(), x, y); });
  }
  const bool log = f == "log_softmax";
  const Tensor y = form.result();
  Tensor mask;
  if (f == "masked_softmax") {
    const int rank = form.shape.size();
    const Shape last{form.shape[rank - 2], form.shape[rank - 1]};
    std::vector<float> keep(static_cast<size_t>(element_count(last)));
    for (size_t i = 0; i < keep.size(); i++) keep[i] = i % 4 != 3;
    mask = test::device_tensor(last, keep, DType::boolean);
  }
  const auto of_mask = mask.defined() ? std::make_optional<TensorDesc>(mask) : std::nullopt;
  if (!backward) {
    const auto plan = std::make_shared<Softmax>(test::context(), SoftmaxDesc{x, y, axis, log, of_mask});
    return moving_case(bytes_of({x, y}), {y}, [=] { plan->run(stream(), x, mask, y); });
  }
  const Tensor out = form.result(), dy = form.input("dy"), dx = form.result();
  log ? log_softmax(stream(), x, {}, axis, out) : softmax(stream(), x, mask, axis, out);
  const auto plan = std::make_shared<SoftmaxBackward>(test::context(),
                                                      SoftmaxBackwardDesc{dy, out, dx, axis, log, of_mask});
  return moving_case(bytes_of({dy, out, dx}), {dx}, [=] { plan->run(stream(), dy, out, mask, dx); });
}
const CasesOf kSoftmax("softmax", make);

}  // namespace
}  // namespace dlprim::bench
