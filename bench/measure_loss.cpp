// Losses as cases of `measure`: "loss f=huber direction=forward reduction=mean size=64x256x56x56 dtype=f32
// layout=nchw", "cross_entropy direction=forward target=class smoothing=0 size=8192x1000 dtype=f32
// layout=nchw" (target=probabilities; smoothing in hundredths), "nll_loss" alike, "ctc_loss direction=forward
// size=500x32x64 labels=60 dtype=f32" (times, sequences, classes).
#include <dlprim/class_loss.hpp>
#include <dlprim/ctc_loss.hpp>
#include <dlprim/loss.hpp>
#include <dlprim/softmax.hpp>

#include "cases/loss.hpp"
#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::device_tensor;
using test::stream;

bool is_backward(detail::ProblemLine& line) {
  return line.word("direction", {"forward", "backward"}) == "backward";
}

std::unique_ptr<Case> make_loss(detail::ProblemLine& line) {
  const std::string f = line.text("f", "mse"), reduction = line.word("reduction", {"mean", "none"});
  const bool backward = is_backward(line);
  const Form form(line);
  line.finish();
  const test::LossReference& reference = test::loss_reference(f);
  const auto between = [&](const char* name, double low, double high) {
    Form within = form;
    within.low = low, within.high = high;
    return within.input(name);
  };
  const Tensor x = between("x", reference.x_low, reference.x_high),
               target = between("target", reference.target_low, reference.target_high);
  const LossParams params{reduction == "mean" ? LossReduction::mean : LossReduction::none};
  const Tensor y = reduction == "mean" ? device_tensor({1}, {1}, form.dtype) : form.result();
  if (!backward)
    return moving_case(bytes_of({x, target, y}), {y}, [=] { loss(stream(), f, x, target, {}, params, y); });
  const Tensor dx = form.result(), dy = reduction == "mean" ? y : form.input("dy");
  return moving_case(bytes_of({x, target, dy, dx}), {dx},
                     [=] { loss_backward(stream(), f, dy, x, target, {}, params, dx); });
}
const CasesOf kLoss("loss", make_loss);

struct ClassOperands {
  bool backward, probabilities;
  ClassLossParams params;
  Form form;
  Tensor x, target, y;

  explicit ClassOperands(detail::ProblemLine& line)
      : backward(is_backward(line)),
        probabilities(line.word("target", {"class", "probabilities"}) == "probabilities"),
        params{LossReduction::mean, -100, static_cast<double>(line.sizes("smoothing", {0})[0]) / 100},
        form(line),
        x(form.input("x")),
        y(device_tensor({1}, {1}, form.dtype)) {
    line.finish();
    Shape rows{form.shape[0]};
    for (int i = 2; i < form.shape.size(); i++) rows.push_back(form.shape[i]);
    target = probabilities ? form.input("target") : random_whole("target", rows, form.shape[1]);
  }
};

std::unique_ptr<Case> make_cross_entropy(detail::ProblemLine& line) {
  const ClassOperands o(line);
  if (!o.backward)
    return moving_case(bytes_of({o.x, o.target}), {o.y},
                       [o] { cross_entropy(stream(), o.x, o.target, {}, o.params, o.y); });
  const Tensor dx = o.form.result();
  return moving_case(bytes_of({o.x, o.target, dx}), {dx},
                     [o, dx] { cross_entropy_backward(stream(), o.y, o.x, o.target, {}, o.params, dx); });
}
const CasesOf kCrossEntropy("cross_entropy", make_cross_entropy);

std::unique_ptr<Case> make_nll(detail::ProblemLine& line) {
  const ClassOperands o(line);
  // Of x a row's term is read, at least its 32 bytes.
  if (!o.backward)
    return moving_case(bytes_of({o.target}) + 32 * static_cast<double>(o.target.numel()), {o.y},
                       [o] { nll_loss(stream(), o.x, o.target, {}, o.params, o.y); });
  const Tensor dx = o.form.result();
  return moving_case(bytes_of({o.target, dx}), {dx},
                     [o, dx] { nll_loss_backward(stream(), o.y, o.target, {}, o.params, dx); });
}
const CasesOf kNll("nll_loss", make_nll);

std::unique_ptr<Case> make_ctc(detail::ProblemLine& line) {
  const int64_t labels = line.size("labels", 30);
  const bool backward = is_backward(line);
  const Form form(line);
  line.finish();
  const int64_t times = form.shape[0], batch = form.shape[1], classes = form.shape[2];
  const Tensor x = form.result();
  log_softmax(stream(), form.input("x"), {}, 2, x);
  // Class 0 is the blank.
  std::vector<int64_t> padded = read<int64_t>(stream(), random_whole("labels", {batch, labels}, classes - 1));
  for (int64_t& label : padded) label++;
  const Tensor of_labels(test::context(), {batch, labels}, DType::i64);
  write(stream(), of_labels, padded.data(), of_labels.bytes());
  const auto lengths = [&](int64_t length) {
    return device_tensor({batch}, std::vector<float>(static_cast<size_t>(batch), static_cast<float>(length)),
                         DType::i64);
  };
  const CtcLossInputs in{x, of_labels, lengths(times), lengths(labels)};
  const Tensor y = device_tensor({1}, {1}, form.dtype);
  const TensorDesc desc = ctc_loss_alpha(in.x, in.labels, form.dtype);
  const Tensor alpha(test::context(), desc.shape, desc.dtype), dx = form.result();
  ctc_loss(stream(), in, {}, y, alpha);
  if (!backward) return moving_case(bytes_of({x, alpha}), {y}, [=] { ctc_loss(stream(), in, {}, y, alpha); });
  const Tensor dy = device_tensor({1}, {1}, form.dtype);
  return moving_case(bytes_of({x, alpha, dx}), {dx},
                     [=] { ctc_loss_backward(stream(), dy, in, alpha, {}, dx); });
}
const CasesOf kCtc("ctc_loss", make_ctc);

}  // namespace
}  // namespace dlprim::bench
