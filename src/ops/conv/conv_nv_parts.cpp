#include "ops/conv/conv_nv_parts.hpp"

namespace dlprim::detail {

uint64_t ConvNvParts::bytes(const ConvProblem& p, bool of_y) {
  const int channels = of_y ? p.k : p.c;
  const int64_t pixels = p.n * (of_y ? p.y_pixels() : p.x_pixels());
  const bool even = even_stride(of_y ? p.y : p.x, of_y ? p.y_space : p.x_space).has_value();
  const int64_t parts = kParts * 2 * round_up(channels, 8);
  return static_cast<uint64_t>(pixels * (parts + (even ? 0 : channels * int64_t{sizeof(float)})));
}

ConvNvParts::ConvNvParts(const Context& context, const ConvProblem& p, bool of_y, WorkspaceParts& workspace)
    : channels_(of_y ? p.k : p.c),
      images_(p.n),
      pixels_(of_y ? p.y_pixels() : p.x_pixels()),
      pitch_(round_up(channels_, 8)) {
  const Spatial& space = of_y ? p.y_space : p.x_space;
  strides_ = {pixels_ * pitch_, 1, int64_t{space[1]} * space[2] * pitch_, space[2] * pitch_, pitch_};
  at_ = workspace.add(static_cast<size_t>(kParts * part_stride()) * 2);
  ranges_at_ = workspace.add(kRanges * 8);
  const ConvStrides& given = of_y ? p.y : p.x;
  image_stride_ = given[0], channel_stride_ = given[1],
  pixel_stride_ = even_stride(given, space).value_or(-1);
  if (pixel_stride_ < 0) {
    const Shape shape{images_, channels_, space[0], space[1], space[2]};
    packed_ = TensorDesc(shape);
    packed_at_ = workspace.add(static_cast<size_t>(element_count(shape)) * sizeof(float));
    const TensorDesc from{shape, {given[0], given[1], given[2], given[3], given[4]}, DType::f32, false};
    copied_.emplace(context, std::vector<TensorDesc>{from}, std::vector<TensorDesc>{packed_}, 0, "y0 = x0");
    image_stride_ = channels_ * pixels_, channel_stride_ = pixels_, pixel_stride_ = 1;
  }
  Defines defines;
  defines.set("PLANES", channel_stride_ != 1);
  kernel_ = context.state().programs.kernel("conv_nv_parts", "conv_nv_parts", defines);
}

Tensor ConvNvParts::prepare(const Stream& stream, const Tensor& x, const Tensor& workspace) const {
  Tensor from = x;
  if (copied_) {
    from = workspace_part(workspace, packed_at_, packed_.shape);
    copied_->run(stream, {x}, {from}, {});
  }
  const Tensor result = workspace_part(workspace, at_, {kParts * part_stride()}, DType::bf16);
  Launch launch(stream, kernel_);
  launch.arg(channels_).arg(static_cast<int>(pixels_)).arg(images_).arg(static_cast<int>(pitch_));
  launch.arg(from).arg(image_stride_).arg(channel_stride_).arg(pixel_stride_);
  launch.arg(result).arg(part_stride() / 8).arg(ranges(workspace));
  launch.run({static_cast<size_t>(kRanges) * 256}, {256});
  return result;
}

Tensor ConvNvParts::ranges(const Tensor& workspace) const {
  return workspace_part(workspace, ranges_at_, {kRanges}, DType::i64);
}

}  // namespace dlprim::detail
