#include "ops/conv/conv_nv_source.hpp"

#include "ops/conv/conv_phases.hpp"

namespace dlprim::detail {
namespace {

/// Boxes' corners are signed numbers of so many bits, offsets of taps unsigned ones.
constexpr int kFlatBits = 8, kDeepBits = 5;
constexpr int kMostStride = 8;

int64_t unit_of(const ConvProblem& p) {
  return static_cast<int64_t>(16 / size_of(p.dtype));
}

bool is_read_as_it_lies(const ConvProblem& p, bool backward) {
  const ConvStrides& given = backward ? p.y : p.x;
  const Spatial& space = backward ? p.y_space : p.x_space;
  const int channels = backward ? p.k : p.c;
  bool fits = (backward ? p.y_aligned : p.x_aligned) && (given[1] == 1 || channels == 1);
  const std::array<int, 5> sizes{p.n, channels, space[0], space[1], space[2]};
  for (size_t i : {0, 2, 3, 4}) fits &= sizes[i] == 1 || (given[i] > 0 && given[i] % unit_of(p) == 0);
  return fits;
}

}  // namespace

uint64_t ConvNvSource::bytes(const ConvProblem& p, bool backward) {
  if (is_read_as_it_lies(p, backward)) return 0;
  const int64_t pixels = p.n * (backward ? p.y_pixels() : p.x_pixels());
  return static_cast<uint64_t>(pixels * round_up(backward ? p.k : p.c, unit_of(p))) * size_of(p.dtype);
}

ConvNvSource::ConvNvSource(const Context& context, const ConvProblem& p, bool backward,
                           WorkspaceParts& workspace) {
  const ConvStrides& given = backward ? p.y : p.x;
  const Spatial& space = backward ? p.y_space : p.x_space;
  const int channels = backward ? p.k : p.c;
  const int64_t unit = unit_of(p);
  if (is_read_as_it_lies(p, backward)) {
    strides_ = given;
    for (int64_t& stride : strides_)
      if (stride == 0) stride = unit;  // nothing steps there, but maps hold no 0
    return;
  }
  const int64_t pitch = round_up(channels, unit), pixels = int64_t{space[0]} * space[1] * space[2];
  strides_ = {pixels * pitch, 1, int64_t{space[1]} * space[2] * pitch, space[2] * pitch, pitch};
  const bool images_repeat = p.n > 1 && given[0] == 0;  // one would be transposed, and all be read
  if (channels > 1 && pixels > 1 && !images_repeat && even_stride(given, space) == 1) {
    GemmProblem planes;
    planes.k = channels, planes.batch = p.n, planes.dtype = p.dtype;
    GemmOperand x;
    x.unit_k = false, x.pitch = given[1], x.batch = given[0];
    transposed_.emplace(context, planes, x, pixels, false, NvOperand::Form::one, false, workspace);
    return;
  }
  const Shape shape{p.n, channels, space[0], space[1], space[2]};
  const auto desc = [&](const ConvStrides& s, bool aligned) {
    return TensorDesc{shape, {s[0], s[1], s[2], s[3], s[4]}, p.dtype, aligned};
  };
  packed_ = desc(strides_, true);
  at_ = workspace.add(static_cast<size_t>(p.n * pixels * pitch) * size_of(p.dtype));
  copied_.emplace(context, std::vector<TensorDesc>{desc(given, backward ? p.y_aligned : p.x_aligned)},
                  std::vector<TensorDesc>{packed_}, 0, "y0 = x0");
}

Tensor ConvNvSource::prepare(const Stream& stream, const Tensor& x, const Tensor& workspace) const {
  if (transposed_) return transposed_->part(0, x, transposed_->prepare(stream, x, workspace));
  if (!copied_) return x;
  const Tensor room = workspace_part(workspace, at_, {packed_.shape[0] * packed_.strides[0]}, packed_.dtype);
  const Tensor packed = room.as_strided(packed_.shape, packed_.strides);
  copied_->run(stream, {x}, {packed}, {});
  return packed;
}

std::string ConvNvSource::refuse(const ConvProblem& p) {
  const int bits = p.has_depth() ? kDeepBits : kFlatBits, most = 1 << (bits - 1);
  for (size_t i = 0; i < 3; i++) {
    const ConvAxis axis(p, i);
    if (axis.source == 0 || axis.target == 0) return "has an empty side";
    if (axis.source_step() > kMostStride)
      return cat("has a stride of ", axis.source_step(), ", maps have up to ", kMostStride);
    for (int j = 0; j < axis.phases; j++) {
      const ConvPhase phase = axis.phase(j);
      if (phase.taps == 0) continue;
      const int64_t upper = phase.lower + int64_t{phase.count - 1} * axis.source_step() - (axis.source - 1);
      for (const int64_t corner : {int64_t{phase.lower}, upper})
        if (corner < -most || corner >= most)
          return cat("has windows that begin at ", corner, " from the first or last pixel, maps have [",
                     -most, ", ", most, ")");
      const int64_t offset = int64_t{phase.taps - 1} * phase.dilation;
      if (offset >= 1 << bits) return cat("has windows of ", offset + 1, ", maps have up to ", 1 << bits);
    }
  }
  return {};
}

}  // namespace dlprim::detail
