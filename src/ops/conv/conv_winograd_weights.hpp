// w as Winograd's engines multiply it: tiles of taps transformed, in each run or, if w is constant, once.
#pragma once

#include "core/composed.hpp"
#include "core/constants.hpp"
#include "ops/conv/conv_winograd.hpp"

namespace dlprim::detail {

class WinogradWeights {
 public:
  /// `w`: the filter's tensor as tiles see it.
  WinogradWeights(const Context& context, const ConvProblem& p, const WinogradChoice& choice,
                  const WinogradImages& w, WorkspaceParts& workspace)
      : constant_(p.constant_w),
        layout_(winograd_layout(choice, w, w.rows(), true)),
        transform_(context, p, choice.form, WinogradMatrix::filter, w, choice.form.taps, true, choice.cpu) {
    if (!constant_)
      at_ = workspace.add(layout_.bytes());
    else
      constants_ = Constants(context, form_of(p, choice, w, layout_));
  }

  const WinogradLayout& layout() const { return layout_; }
  /// Enqueues the transform unless its result is kept; [points, tiles, channels].
  Tensor prepare(const Stream& stream, const Tensor& w, const Tensor& workspace) const {
    const Shape bytes{static_cast<int64_t>(layout_.bytes())};
    const Tensor room = constant_ ? Tensor() : workspace_part(workspace, at_, bytes, DType::u8);
    const Tensor memory = constants_.filled(stream, w, room, bytes, DType::u8, [&](const Tensor& to) {
      transform_.run(stream, w, layout_.view(to, 0, layout_.tiles), layout_, 0,
                     static_cast<int>(layout_.tiles));
    });
    return layout_.view(memory, 0, layout_.tiles);
  }
  void forget_constants() const { constants_.forget(); }

 private:
  static PlanKey form_of(const ConvProblem& p, const WinogradChoice& choice, const WinogradImages& w,
                         const WinogradLayout& to) {
    PlanKey form("winograd");
    form.add(p.dtype).add(p.result_dtype).add(choice.cpu).add(choice.form.results).add(choice.form.taps);
    form.add(w.images).add(w.channels).add(w.size).add(w.strides).add(w.first).add(w.extent).add(w.aligned);
    return form.add(to.channels_last)
        .add(to.points)
        .add(to.tiles)
        .add(to.channels)
        .add(to.pitch)
        .add(to.plane);
  }

  bool constant_;
  WinogradLayout layout_;
  WinogradTransform transform_;
  size_t at_ = 0;
  Constants constants_;
};

}  // namespace dlprim::detail
