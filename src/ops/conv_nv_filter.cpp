#include "ops/conv_nv_filter.hpp"

#include <algorithm>

#include "core/gen/wgmma.hpp"
#include "core/kernel_source.hpp"
#include "ops/conv_nv_parts.hpp"
#include "ops/conv_nv_source.hpp"
#include "ops/conv_parts.hpp"
#include "ops/divisor.hpp"

namespace dlprim::detail {
namespace {

constexpr int kWarpGroups = 2, kItems = 128 * (kWarpGroups + 1);
constexpr int64_t kMapBytes = 128;

/// bf16 numbers that an operand's number is taken apart into.
int parts_of(const ConvProblem& p, const Options& options) {
  if (p.dtype != DType::f32) return 1;
  return options.math == MathMode::tf32 ? 2 : 3;
}

/// A group's tile, of 64 filters by 64 channels of a tap, and what a stage of `pixels` takes, in
/// microseconds, on an H200.
struct Tile {
  int m_blocks = 0, n_blocks = 0, pixels = 0, stages = 0;
  double step = 0;

  int own_columns() const { return 64 * n_blocks * m_blocks / kWarpGroups; }
};
constexpr Tile kTiles[3][4] = {
    {{2, 4, 64, 4, 0.80}, {2, 3, 64, 5, 0.63}, {2, 2, 64, 6, 0.45}, {1, 4, 64, 5, 0.45}},
    {{2, 3, 32, 5, 0.80}, {2, 2, 32, 6, 0.55}, {1, 4, 32, 5, 0.55}, {1, 6, 32, 4, 0.80}},
    {{2, 3, 32, 3, 1.55}, {2, 2, 32, 4, 1.05}, {1, 4, 32, 3, 1.05}, {1, 6, 32, 2, 1.55}}};
constexpr int kLeastChannels = 8;

/// Starting on a tile's part and storing it; bytes of parts written and read in a microsecond.
constexpr double kTurn = 2.5, kBytes = 3.5e6;

/// How an engine shares the work.
struct Share {
  Tile tile;
  int tiles_m = 0, tiles_n = 0, parts = 1;
  double time = 0;
};

uint64_t local_bytes(const Tile& tile, int parts) {
  return static_cast<uint64_t>(tile.stages * parts * (tile.m_blocks + tile.n_blocks) * tile.pixels) * 128;
}

Share choose(const ConvProblem& p, int parts, const Device& device, size_t room) {
  const int64_t units = std::max(1, device.facts().compute_units), pixels = p.n * p.y_pixels();
  const int64_t blocks = int64_t{p.taps()} * ceil_div(p.group_c(), 64);
  const int64_t result = int64_t{p.k} * p.group_c() * p.taps() * static_cast<int64_t>(sizeof(float));
  Share best;
  for (const Tile& tile : kTiles[parts - 1]) {
    const int64_t tiles_m = ceil_div(p.group_k(), 64 * tile.m_blocks),
                  tiles_n = ceil_div(blocks, tile.n_blocks);
    const int64_t tiles = tiles_m * tiles_n * p.groups, steps = ceil_div(pixels, tile.pixels);
    for (int64_t count = 1; count <= std::min<int64_t>(steps, 4 * units); count++) {
      if (count > 1 && (tiles * count > 16 * units || static_cast<size_t>(count * result) > room)) break;
      const double waves = static_cast<double>(ceil_div(tiles * count, units));
      const double time = waves * (kTurn + static_cast<double>(ceil_div(steps, count)) * tile.step) +
                          2 * static_cast<double>(count * result) / kBytes;
      if (best.time == 0 || time < best.time)
        best = {tile, static_cast<int>(tiles_m), static_cast<int>(tiles_n), static_cast<int>(count), time};
    }
  }
  return best;
}

size_t room_for_parts(const Options& options) {
  return options.workspace_limit / 2;
}

class NvFilter : public ConvImpl {
 public:
  NvFilter(const Context& context, const ConvProblem& problem, const Options& options)
      : p_(problem),
        operand_parts_(parts_of(p_, options)),
        share_(choose(p_, operand_parts_, context.device(), room_for_parts(options))) {
    take_request(context, options);
    const int64_t steps = ceil_div(p_.n * p_.y_pixels(), share_.tile.pixels);
    part_steps_ = static_cast<int>(ceil_div(steps, share_.parts));
    share_.parts = static_cast<int>(ceil_div(steps, part_steps_));
    if (operand_parts_ == 1) {
      x_.emplace(context, p_, false, workspace_);
      y_.emplace(context, p_, true, workspace_);
    } else {
      x_parts_.emplace(context, p_, false, operand_parts_, workspace_);
      y_parts_.emplace(context, p_, true, operand_parts_, workspace_);
    }
    sums_.emplace(context, p_, share_.parts, workspace_, ConvPartsForm{true, true});
    const int64_t tiles = int64_t{share_.tiles_m} * share_.tiles_n * p_.groups;
    groups_ = std::min<int64_t>(tiles * share_.parts, std::max(1, context.device().facts().compute_units));
    maps_at_ = workspace_.add(static_cast<size_t>(kMapBytes * (groups_ * 2 * operand_parts_ + 1)));
    build(context);
  }

  size_t workspace_size() const override { return workspace_.size(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const bool split = operand_parts_ > 1;
    const Tensor x = split ? x_parts_->prepare(stream, t.x, workspace) : x_->prepare(stream, t.x, workspace);
    const Tensor y = split ? y_parts_->prepare(stream, t.y, workspace) : y_->prepare(stream, t.y, workspace);
    Launch launch(stream, kernel_);
    launch.arg(p_.n).arg(p_.group_c()).arg(p_.group_k()).arg(p_.groups);
    const int blocks_c = static_cast<int>(ceil_div(p_.group_c(), 64));
    for (int divisor :
         {share_.tiles_m * share_.tiles_n * p_.groups, share_.tiles_m, share_.tiles_n, blocks_c})
      bind_divisor(launch, divisor);
    launch.arg(share_.parts).arg(part_steps_);
    for (size_t i = 0; i < 3; i++) {
      bind_divisor(launch, p_.y_space[i]);
      launch.arg(p_.x_space[i]).arg(p_.w_space[i]).arg(p_.stride[i]).arg(p_.pad[i]).arg(p_.dilation[i]);
    }
    bind_pixels(launch, x, split ? x_parts_->strides() : x_->strides());
    launch.arg(split ? x_parts_->part_stride() : int64_t{0});
    bind_pixels(launch, y, split ? y_parts_->strides() : y_->strides());
    launch.arg(split ? y_parts_->part_stride() : int64_t{0});
    launch.arg(sums_->partial(workspace));
    if (split) {
      bind_pixels(launch, t.x, p_.x);
      launch.arg(p_.x[1]);
      bind_pixels(launch, t.y, p_.y);
      launch.arg(p_.y[1]);
      launch.arg(x_parts_->ranges(workspace)).arg(y_parts_->ranges(workspace)).arg(ConvNvParts::kRanges);
    }
    launch.arg(workspace_part(workspace, maps_at_, {kMapBytes / 8}, DType::i64));
    launch.run({static_cast<size_t>(groups_) * kItems}, {kItems});
    sums_->add_up(stream, workspace, t.w);
  }

 private:
  /// Parameters that were asked for.
  void take_request(const Context& context, const Options& options) {
    const EngineRequest request(options);
    if (request.automatic()) return;
    Tile& tile = share_.tile;
    request.take(
        {{"mb", &tile.m_blocks}, {"nb", &tile.n_blocks}, {"stages", &tile.stages}, {"parts", &share_.parts}});
    require(tile.m_blocks == 1 || tile.m_blocks == 2, "engine", "mb ", tile.m_blocks, " is neither 1 nor 2");
    const int most = operand_parts_ > 1 ? 192 : 256;
    require((tile.n_blocks == 2 || tile.n_blocks == 4) && tile.own_columns() <= most, "engine", "nb ",
            tile.n_blocks, " is neither 2 nor 4, or too many with mb ", tile.m_blocks);
    require(share_.parts >= 1 && tile.stages >= 2, "engine", "parts ", share_.parts,
            " must be 1 or more, stages ", tile.stages, " 2 or more");
    const uint64_t bytes = local_bytes(tile, operand_parts_),
                   room = context.device().probes().static_local_memory;
    require(bytes <= room, "engine", "needs ", bytes, " bytes of local memory, the device has ", room);
    share_.tiles_m = static_cast<int>(ceil_div(p_.group_k(), 64 * tile.m_blocks));
    share_.tiles_n =
        static_cast<int>(ceil_div(int64_t{p_.taps()} * ceil_div(p_.group_c(), 64), tile.n_blocks));
  }

  static void bind_pixels(Launch& launch, const Tensor& x, const ConvStrides& strides) {
    launch.arg(x).arg(strides[0]).arg(strides[2]).arg(strides[3]).arg(strides[4]);
  }

  void build(const Context& context) {
    const Tile& tile = share_.tile;
    Defines defines;
    defines.set("PARTS", operand_parts_).set("M_BLOCKS", tile.m_blocks).set("N_BLOCKS", tile.n_blocks);
    defines.set("PIXELS", tile.pixels).set("STAGES", tile.stages).set("WARP_GROUPS", kWarpGroups);
    defines.set("DEPTH", p_.has_depth()).set("MAP_TYPE", p_.dtype == DType::f16 ? 6 : 10);
    defines.set("ACTIVATION", name_of(Activation::identity));
    WgmmaPartsForm form;
    form.dtype = p_.dtype == DType::f16 ? DType::f16 : DType::bf16;
    form.parts = operand_parts_, form.tile_n = tile.own_columns(), form.pixels = tile.pixels;
    form.a_bytes = tile.m_blocks * tile.pixels * 128, form.b_bytes = tile.n_blocks * tile.pixels * 128;
    kernel_ = context.state().programs.generated(
        "conv_nv_filter", fill_wgmma_parts_slots(kernel_source("conv_nv_filter"), form), "conv_nv_filter",
        defines);
  }

  const ConvProblem p_;
  const int operand_parts_;
  Share share_;
  WorkspaceParts workspace_;
  std::optional<ConvNvSource> x_, y_;  ///< f16 and bf16
  std::optional<ConvNvParts> x_parts_, y_parts_;
  std::optional<ConvPartSums> sums_;
  int part_steps_ = 0;
  int64_t groups_ = 0;
  size_t maps_at_ = 0;
  Kernel kernel_;
};

}  // namespace

std::string refuse_conv_nv_filter(const Context& context, const ConvProblem& p, const Options& options) {
  if (p.n == 0 || p.c == 0 || p.k == 0) return "has an empty side";
  // A block has 64 channels: with a few of them other engines waste less.
  if (p.group_c() < kLeastChannels)
    return cat("has ", p.group_c(), " channels in a group, pays from ", kLeastChannels, " on");
  if (p.groups > 1 && (p.group_c() % 8 != 0 || p.group_k() % 8 != 0))
    return cat("has ", p.groups, " groups of ", p.group_c(), " channels and ", p.group_k(),
               " filters, not multiples of 8");
  const std::string reason = ConvNvSource::refuse(p);
  if (!reason.empty()) return reason;
  const int parts = parts_of(p, options);
  const uint64_t bytes = local_bytes(choose(p, parts, context.device(), room_for_parts(options)).tile, parts),
                 room = context.device().probes().static_local_memory;
  if (bytes > room) return cat("needs ", bytes, " bytes of local memory, the device has ", room);
  return {};
}

std::unique_ptr<const ConvImpl> make_conv_nv_filter(const Context& context, const ConvProblem& problem,
                                                    const Options& options) {
  return std::make_unique<NvFilter>(context, problem, options);
}

}  // namespace dlprim::detail
