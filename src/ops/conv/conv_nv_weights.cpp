#include "ops/conv/conv_nv_weights.hpp"

#include <algorithm>

namespace dlprim::detail {

bool ConvNvWeights::lies_so() const {
  const auto unit = static_cast<int64_t>(16 / size_of(p_.dtype));
  const int64_t tap = p_.taps() == 1 ? unit : even_stride(p_.w, p_.w_space).value_or(0);
  const int64_t row = p_.k == 1 ? unit : p_.w[0];
  const bool unit_channels = p_.w[1] == 1 || p_.group_c() == 1;
  const bool can_copy =
      p_.w_aligned && unit_channels && tap > 0 && tap % unit == 0 && row > 0 && row % unit == 0;
  return can_copy && parts_ == 1 && (!backward_ || size_of(p_.dtype) == 2);
}

ConvNvWeights::ConvNvWeights(const Context& context, const ConvProblem& p, int parts,
                             WorkspaceParts& workspace)
    : p_(p), parts_(parts), backward_(p.direction == ConvDirection::backward_data) {
  const auto unit = static_cast<int64_t>(16 / size_of(p.dtype));
  const int source = backward_ ? p.group_k() : p.group_c();
  rows_ = backward_ ? p.group_c() : p.group_k();
  if (lies_so()) {
    unit_target_ = backward_;
    tap_stride_ = p.taps() == 1 ? round_up(p.group_c(), unit) : *even_stride(p.w, p.w_space);
    row_stride_ = std::max(p.w[0], unit);
    return;
  }
  packed_ = true;
  tap_stride_ = round_up(source, unit);
  row_stride_ = tap_stride_ * p.taps();
  WorkspaceParts& memory = p.constant_w ? kept_ : workspace;
  for (size_t i = 0; i < static_cast<size_t>(parts); i++)
    at_[i] = memory.add(static_cast<size_t>(elements()) * size_of(p.dtype));
  groups_ = {ceil_div(backward_ ? p.group_c() : tap_stride_, 32),
             ceil_div(backward_ ? tap_stride_ : p.group_k(), 32)};
  ranges_ = groups_[0] * groups_[1] * p.groups * p.taps();
  if (parts == 2) ranges_at_ = memory.add(static_cast<size_t>(ranges_) * 8);
  Defines defines;
  defines.set("TRANSPOSED", backward_).set("PARTS", parts);
  if (p.dtype != DType::f32) defines.set("ELEMENT", "ushort").set("IS_FLOAT", false);
  pack_ = context.state().programs.kernel("conv_nv_pack", "conv_nv_pack", defines);
  if (!p.constant_w) return;
  PlanKey form("conv_nv_pack");
  form.add(p.dtype).add(parts).add(backward_).add(p.groups).add(p.group_c()).add(p.group_k()).add(p.w_space);
  constant_ = Constants(context, form.add(p.w).add(tap_stride_).add(row_stride_));
}

Tensor ConvNvWeights::prepare(const Stream& stream, const Tensor& w, const Tensor& workspace) const {
  if (!packed_) return workspace;
  return constant_.filled(stream, w, p_.constant_w ? Tensor() : workspace,
                          {static_cast<int64_t>(kept_.size())}, DType::u8,
                          [&](const Tensor& to) { pack(stream, w, to); });
}

void ConvNvWeights::pack(const Stream& stream, const Tensor& w, const Tensor& to) const {
  Launch launch(stream, pack_);
  launch.arg(p_.group_k()).arg(p_.group_c()).arg(p_.w_space[1]).arg(p_.w_space[2]).arg(p_.taps());
  launch.arg(static_cast<int>(tap_stride_)).arg(w);
  for (int64_t stride : p_.w) launch.arg(stride);
  launch.arg(part(0, w, to)).arg(parts_ == 2 ? part(1, w, to) : Tensor()).arg(ranges(to));
  launch.run({static_cast<size_t>(groups_[0]) * 32, static_cast<size_t>(groups_[1]) * 8,
              static_cast<size_t>(p_.groups) * static_cast<size_t>(p_.taps())},
             {32, 8, 1});
}

Tensor ConvNvWeights::part(size_t i, const Tensor& w, const Tensor& prepared) const {
  return packed_ ? workspace_part(prepared, at_[i], {elements()}, p_.dtype) : w;
}

Tensor ConvNvWeights::ranges(const Tensor& prepared) const {
  return parts_ == 2 ? workspace_part(prepared, ranges_at_, {ranges_}, DType::i64) : Tensor();
}

}  // namespace dlprim::detail
