#include "ops/gemm/gemm_nv_operand.hpp"

#include <algorithm>

namespace dlprim::detail {
namespace {

constexpr int64_t kPackGroups = 1056;  // eight on each of 132 units

}  // namespace

NvOperand::NvOperand(const Context& context, const GemmProblem& p, const GemmOperand& x, int64_t rows,
                     bool straight, Form form, bool constant, WorkspaceParts& workspace)
    : source_(x),
      rows_(rows),
      k_(p.k),
      batch_(x.batch ? p.batch : 1),
      packed_((!straight || form == Form::split) && p.k > 0),
      prepared_((packed_ || form == Form::noted) && p.k > 0),
      dtype_(p.dtype) {
  const auto vector = static_cast<int64_t>(16 / size_of(dtype_));
  const int64_t runs = x.unit_k ? rows : k_, length = x.unit_k ? k_ : rows;
  as_read_ = x;
  if (runs <= 1) as_read_.pitch = round_up(std::max<int64_t>(1, length), vector);
  if (!prepared_) return;
  WorkspaceParts& memory = constant ? kept_ : workspace;
  const int parts = !packed_ ? 0 : form == Form::split ? 2 : 1;
  if (packed_) {
    as_read_.unit_k = true;
    as_read_.pitch = round_up(k_, vector);
    as_read_.batch = x.batch ? rows * as_read_.pitch : 0;
  }
  for (int part = 0; part < parts; part++)
    at_[static_cast<size_t>(part)] = memory.add(static_cast<size_t>(elements()) * size_of(dtype_));
  const int64_t blocks = x.unit_k ? ceil_div(rows * batch_, 4) : ceil_div(rows, 32) * batch_;
  groups_n_ = std::min(blocks, std::max<int64_t>(1, kPackGroups / groups_k()));
  if (form != Form::one) {
    ranges_ = groups_k() * groups_n_;
    ranges_at_ = memory.add(static_cast<size_t>(ranges_) * 8);
  }
  Defines defines;
  defines.set("UNIT_K", x.unit_k).set("PARTS", parts).set("NOTES", form != Form::one);
  if (size_of(dtype_) < 4) defines.set("ELEMENT", size_of(dtype_) == 2 ? "ushort" : "uchar");
  defines.set("VECTOR", dtype_ == DType::f32 && x.unit_k && x.vectors);
  pack_ = context.state().programs.kernel("gemm_nv_pack", "gemm_nv_pack", defines);
  if (!constant) return;
  PlanKey form_key("gemm_nv_pack");
  form_key.add(dtype_).add(parts).add(form).add(rows).add(k_).add(batch_);
  form_key.add(x.unit_k).add(x.vectors).add(x.pitch).add(x.batch).add(as_read_.pitch).add(as_read_.batch);
  constant_ = std::make_unique<Constants>(context, form_key);
}

Tensor NvOperand::prepare(const Stream& stream, const Tensor& x, const Tensor& workspace) const {
  if (constant_)
    return constant_->get(stream, x, [&] {
      const Tensor kept(stream, {static_cast<int64_t>(kept_.size())}, DType::u8);
      pack(stream, x, kept);
      return kept;
    });
  if (prepared_) pack(stream, x, workspace);
  return workspace;
}

void NvOperand::pack(const Stream& stream, const Tensor& x, const Tensor& to) const {
  Launch launch(stream, pack_);
  launch.arg(static_cast<int>(rows_)).arg(static_cast<int>(k_)).arg(static_cast<int>(batch_));
  launch.arg(x).arg(source_.pitch).arg(source_.batch);
  launch.arg(part(0, x, to)).arg(part(1, x, to)).arg(as_read_.pitch).arg(as_read_.batch);
  launch.arg(ranges(to));
  const size_t width = source_.unit_k ? 64 : 32, height = source_.unit_k ? 4 : 8;
  launch.run({static_cast<size_t>(groups_k()) * width, static_cast<size_t>(groups_n_) * height},
             {width, height});
}

Tensor NvOperand::part(int i, const Tensor& x, const Tensor& prepared) const {
  return packed_ ? workspace_part(prepared, at_[static_cast<size_t>(i)], {elements()}, dtype_) : x;
}

Tensor NvOperand::ranges(const Tensor& prepared) const {
  return ranges_ == 0 ? Tensor() : workspace_part(prepared, ranges_at_, {ranges_}, DType::i64);
}

void NvOperand::forget_constant() const {
  if (constant_) constant_->forget();
}

}  // namespace dlprim::detail
