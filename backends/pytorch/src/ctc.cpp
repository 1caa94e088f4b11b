// The loss of connectionist temporal classification and its gradient, through dlprim's.
#include <ATen/Functions.h>
#include <dlprim/ctc_loss.hpp>

#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

/// What both directions take, as dlprim has it: a row of labels for each sequence, lengths on the device.
struct Sequences {
  Sequences(const at::Tensor& log_probs, const at::Tensor& targets, at::IntArrayRef input_lengths,
            at::IntArrayRef target_lengths, int64_t blank, bool zero_infinity) {
    const int64_t batch = log_probs.size(1);
    TORCH_CHECK(log_probs.dim() == 3 && static_cast<int64_t>(input_lengths.size()) == batch &&
                    static_cast<int64_t>(target_lengths.size()) == batch && targets.dim() >= 1 &&
                    targets.dim() <= 2 && (targets.dim() == 1 || targets.size(0) == batch),
                "ctc_loss: log-probabilities of sizes ", log_probs.sizes(), ", targets of ", targets.sizes(),
                ", ", input_lengths.size(), " and ", target_lengths.size(), " lengths do not fit");
    TORCH_CHECK(blank >= 0 && blank < log_probs.size(2), "ctc_loss: blank is ", blank, " of ",
                log_probs.size(2), " classes");
    int64_t longest = 1, sum = 0;
    for (size_t i = 0; i < input_lengths.size(); i++) {
      TORCH_CHECK(input_lengths[i] >= 0 && input_lengths[i] <= log_probs.size(0) && target_lengths[i] >= 0,
                  "ctc_loss: sequence ", i, " has length ", input_lengths[i], " of ", log_probs.size(0),
                  " and ", target_lengths[i], " labels");
      longest = std::max(longest, target_lengths[i]);
      sum += target_lengths[i];
    }
    TORCH_CHECK(targets.dim() == 1 ? targets.numel() >= sum : targets.size(1) >= longest || sum == 0,
                "ctc_loss: there are more labels than targets, which have sizes ", targets.sizes());
    if (sum == 0)
      labels = at::zeros({batch, longest}, targets.options());
    else if (targets.dim() == 2)
      labels = targets.narrow(1, 0, longest);
    else
      labels = rows_of(targets, target_lengths, longest);
    const auto on_device = [&](at::IntArrayRef lengths) {
      return at::tensor(lengths, at::kLong).to(log_probs.device(), /*non_blocking=*/true);
    };
    times = on_device(input_lengths);
    counts = on_device(target_lengths);
    tensors = {view(log_probs), view(labels), view(times), view(counts)};
    params.reduction = dlprim::LossReduction::none;
    params.blank = blank;
    params.zero_infinity = zero_infinity;
  }

  at::Tensor labels, times, counts;
  dlprim::CtcLossInputs tensors;
  dlprim::CtcLossParams params;

  Key key(const dlprim::Tensor& loss, const dlprim::Tensor& alpha, const dlprim::Tensor& dx = {}) const {
    return Key::of(tensors.x, tensors.labels, tensors.x_lengths, tensors.label_lengths, loss, alpha, dx,
                   params.blank, params.zero_infinity);
  }

 private:
  /// Labels that lie one sequence behind the other, in rows; what is behind a row's end means nothing.
  static at::Tensor rows_of(const at::Tensor& targets, at::IntArrayRef lengths, int64_t longest) {
    const at::Tensor places = at::zeros({static_cast<int64_t>(lengths.size()), longest}, at::kLong);
    auto* place = places.mutable_data_ptr<int64_t>();
    int64_t start = 0;
    for (const int64_t length : lengths) {
      for (int64_t i = 0; i < length; i++) place[i] = start + i;
      place += longest;
      start += length;
    }
    return targets.index_select(0, places.flatten().to(targets.device(), /*non_blocking=*/true))
        .view(places.sizes());
  }
};

std::tuple<at::Tensor, at::Tensor> ctc_loss(const at::Tensor& log_probs, const at::Tensor& targets,
                                            at::IntArrayRef input_lengths, at::IntArrayRef target_lengths,
                                            int64_t blank, bool zero_infinity) {
  const Sequences sequences(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity);
  const dlprim::CtcLossInputs& in = sequences.tensors;
  const at::Tensor loss = at::empty({log_probs.size(1)}, log_probs.options());
  const at::Tensor alpha =
      at::empty({log_probs.size(1), log_probs.size(0), 2 * sequences.labels.size(1) + 1},
                log_probs.options().dtype(log_probs.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
  if (log_probs.numel() == 0) return {loss, alpha};
  const dlprim::Tensor y = view(loss), a = view(alpha);
  run_plan<dlprim::CtcLoss>(
      home_of(log_probs), sequences.key(y, a),
      [&] {
        return dlprim::CtcLoss(home_of(log_probs).context,
                               {in.x, in.labels, in.x_lengths, in.label_lengths, y, a, sequences.params});
      },
      [&](const dlprim::CtcLoss& plan, const dlprim::Stream& stream) { plan.run(stream, in, y, a); });
  return {loss, alpha};
}

at::Tensor ctc_loss_backward(const at::Tensor& grad, const at::Tensor& log_probs, const at::Tensor& targets,
                             at::IntArrayRef input_lengths, at::IntArrayRef target_lengths, const at::Tensor&,
                             const at::Tensor& alpha, int64_t blank, bool zero_infinity) {
  const Sequences sequences(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity);
  const dlprim::CtcLossInputs& in = sequences.tensors;
  const at::Tensor grad_input = at::empty_like(log_probs, at::MemoryFormat::Contiguous);
  if (log_probs.numel() == 0) return grad_input;
  const dlprim::Tensor dy = view(grad), a = view(alpha), dx = view(grad_input);
  run_plan<dlprim::CtcLossBackward>(
      home_of(log_probs), sequences.key(dy, a, dx),
      [&] {
        return dlprim::CtcLossBackward(
            home_of(log_probs).context,
            {dy, in.x, in.labels, in.x_lengths, in.label_lengths, a, dx, sequences.params});
      },
      [&](const dlprim::CtcLossBackward& plan, const dlprim::Stream& stream) {
        plan.run(stream, dy, in, a, dx);
      });
  return grad_input;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FLOATING(_ctc_loss, ctc_loss)
  OCL_FLOATING(_ctc_loss_backward, ctc_loss_backward)
}

}  // namespace

}  // namespace ocl
