#include "ops/conv/conv_nv_pieces.hpp"

namespace dlprim::detail {
namespace {

int64_t piece_of(const ConvProblem& p) {
  return static_cast<int64_t>(16 / size_of(p.dtype));
}

/// The part of `memory` at `at` that holds what lies as `desc` says.
Tensor room_for(const TensorDesc& desc, size_t elements, const Tensor& memory, size_t at) {
  return workspace_part(memory, at, {static_cast<int64_t>(elements)}, desc.dtype)
      .as_strided(desc.shape, desc.strides);
}

}  // namespace

ConvNvPixels::ConvNvPixels(const Context& context, const ConvProblem& p, bool of_y, ConvGatherTensor& to,
                           WorkspaceParts& workspace) {
  const int64_t piece = piece_of(p), channels = of_y ? p.group_k() : p.group_c();
  if (p.groups == 1 || channels % piece == 0) {
    whole_.emplace(context, p, of_y, workspace);
    to = {whole_->strides(), channels};
    return;
  }
  const ConvStrides& given = of_y ? p.y : p.x;
  const Spatial& space = of_y ? p.y_space : p.x_space;
  const int64_t group = round_up(channels, piece), pitch = group * p.groups, row = space[2] * pitch,
                plane = space[1] * row, image = space[0] * plane;
  const Shape shape{p.n, p.groups, channels, space[0], space[1], space[2]};
  from_ = {shape, {given[0], channels * given[1], given[1], given[2], given[3], given[4]}, p.dtype, false};
  packed_ = {shape, {image, group, 1, plane, row, pitch}, p.dtype, true};
  to = {{image, 1, plane, row, pitch}, group};
  at_ = workspace.add(static_cast<size_t>(p.n * image) * size_of(p.dtype));
  copied_.emplace(context, std::vector<TensorDesc>{from_}, std::vector<TensorDesc>{packed_}, 0, "y0 = x0");
}

Tensor ConvNvPixels::prepare(const Stream& stream, const Tensor& x, const Tensor& workspace) const {
  if (whole_) return whole_->prepare(stream, x, workspace);
  const Tensor packed =
      room_for(packed_, static_cast<size_t>(packed_.shape[0] * packed_.strides[0]), workspace, at_);
  copied_->run(stream, {x.as_strided(from_.shape, from_.strides)}, {packed}, {});
  return packed;
}

ConvNvMmaWeights::ConvNvMmaWeights(const Context& context, const ConvProblem& p, ConvGather& gather,
                                   WorkspaceParts& workspace)
    : constant_w_(p.constant_w) {
  const GemmOperand loads = gather.other_loads(static_cast<int>(piece_of(p)), p.w_aligned);
  if (loads.vectors) {
    unit_source_ = loads.unit_k;
    return;
  }
  const bool data = p.direction == ConvDirection::backward_data;
  const int64_t source = data ? p.group_k() : p.group_c(), rows = gather.target_channels;
  const int64_t line = p.w_space[2] * int64_t{gather.channels}, plane = p.w_space[1] * line,
                row = p.w_space[0] * plane;
  const Shape shape{p.groups, rows, source, p.w_space[0], p.w_space[1], p.w_space[2]};
  const ConvStrides& given = gather.w.strides;
  from_ = {shape, {gather.w.group, given[0], given[1], given[2], given[3], given[4]}, p.dtype, false};
  packed_ = {shape, {rows * row, row, 1, plane, line, gather.channels}, p.dtype, true};
  gather.w = {{row, 1, plane, line, gather.channels}, rows * row};
  bytes_ = static_cast<size_t>(p.groups * rows * row) * size_of(p.dtype);
  if (!constant_w_) at_ = workspace.add(bytes_);
  copied_.emplace(context, std::vector<TensorDesc>{from_}, std::vector<TensorDesc>{packed_}, 0, "y0 = x0");
  if (constant_w_) constant_ = Constants(context, PlanKey("conv_nv_mma").add(from_).add(packed_).add(bytes_));
}

Tensor ConvNvMmaWeights::prepare(const Stream& stream, const Tensor& w, const Tensor& workspace) const {
  if (!copied_) return w;
  if (!constant_w_) return pack(stream, w, workspace, at_);
  return constant_.get(stream, w, [&] {
    return pack(stream, w, Tensor(stream, {static_cast<int64_t>(bytes_)}, DType::u8), 0);
  });
}

Tensor ConvNvMmaWeights::pack(const Stream& stream, const Tensor& w, const Tensor& memory, size_t at) const {
  const Tensor packed = room_for(packed_, bytes_ / size_of(packed_.dtype), memory, at);
  copied_->run(stream, {w.as_strided(from_.shape, from_.strides)}, {packed}, {});
  return packed;
}

}  // namespace dlprim::detail
