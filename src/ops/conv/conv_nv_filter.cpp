#include "ops/conv/conv_nv_filter.hpp"

#include <algorithm>

#include "core/gen/wgmma.hpp"
#include "core/kernel_source.hpp"
#include "ops/conv/conv_axes.hpp"
#include "ops/conv/conv_nv_parts.hpp"
#include "ops/conv/conv_nv_source.hpp"
#include "ops/conv/conv_parts.hpp"
#include "ops/lib/divisor.hpp"

namespace dlprim::detail {

#include "kernels/conv/conv_nv_filter.h"

extern const ConvEngine kConvNvWgmma;

namespace {

constexpr int kWarpGroups = 2;  ///< that multiply
constexpr int64_t kMapBytes = 128;
constexpr int kTurned = 2;  ///< stages turned around, of f32

/// What the kernels are made for: f16 and bf16; f32 as tf32, in conv_nv_filter_tf32.cl; f32 as three parts of
/// bf16.
enum class Form : uint8_t { half, tf32, split };

Form form_of(const ConvProblem& p, const Options& options) {
  if (p.dtype != DType::f32) return Form::half;
  return options.math == MathMode::tf32 ? Form::tf32 : Form::split;
}

int parts_of(Form form) {
  return form == Form::split ? ConvNvParts::kParts : 1;
}
/// Channels in a block: what 128 bytes hold.
int channels_of(Form form) {
  return form == Form::tf32 ? 32 : 64;
}

int pixels_of(Form form) {
  return form == Form::half ? 64 : 32;
}

/// A group's tile, of 64 filters by blocks of channels of a tap each, and what a stage takes, in
/// microseconds, on an H200.
struct Tile {
  int m_blocks = 0, n_blocks = 0, stages = 0;
  double step = 0;

  int own_columns(Form form) const { return channels_of(form) * n_blocks * m_blocks / kWarpGroups; }
};
constexpr Tile kHalfTiles[] = {{2, 4, 4, 0.65}, {2, 3, 5, 0.50}, {2, 2, 6, 0.36}, {1, 4, 5, 0.40}};
constexpr Tile kTf32Tiles[] = {{2, 6, 4, 0.90}, {2, 4, 5, 0.72}, {2, 2, 8, 0.45},
                               {1, 8, 4, 0.72}, {1, 6, 5, 0.55}, {1, 4, 6, 0.42}};
constexpr Tile kSplitTiles[] = {{2, 3, 3, 1.46}, {2, 2, 4, 0.98}, {1, 4, 3, 0.98}, {1, 6, 2, 1.46}};
constexpr int kLeastChannels = 8;
constexpr int kFewTiles = 4;  ///< times as many occupy the device

struct Tiles {
  const Tile *first, *last;
  const Tile* begin() const { return first; }
  const Tile* end() const { return last; }
};
Tiles tiles_of(Form form) {
  if (form == Form::half) return {std::begin(kHalfTiles), std::end(kHalfTiles)};
  if (form == Form::tf32) return {std::begin(kTf32Tiles), std::end(kTf32Tiles)};
  return {std::begin(kSplitTiles), std::end(kSplitTiles)};
}

/// Starting on a tile's slice and storing it; bytes of slices' results written and read in a microsecond.
constexpr double kTurn = 2.5, kBytes = 3.5e6;

/// How `workers` work-groups share the steps of all tiles: evenly, each takes what it takes of a tile as a
/// slice of its own.
struct Share {
  Tile tile;
  int64_t tiles_m = 0, tiles_n = 0, workers = 0, slices = 1;  ///< most slices of a tile
  double time = 0;
};

uint64_t local_bytes(const Tile& tile, Form form) {
  const int columns = tile.n_blocks * channels_of(form), turned = form == Form::tf32 ? kTurned * columns : 0;
  const int rows = tile.stages * parts_of(form) * (64 * tile.m_blocks + columns) + turned;
  return static_cast<uint64_t>(rows) * static_cast<uint64_t>(pixels_of(form) * 128 / channels_of(form));
}

/// The best number of workers with this tile, or `workers` if they are given; `room` is for slices' results.
Share share_of(const ConvProblem& p, Form form, const Tile& tile, int64_t workers, const Device& device,
               size_t room) {
  const int64_t units = std::max(1, device.facts().compute_units);
  const int64_t blocks = int64_t{p.taps()} * ceil_div(p.group_c(), channels_of(form));
  const int64_t result = int64_t{p.k} * p.group_c() * p.taps() * static_cast<int64_t>(sizeof(float));
  const int64_t tiles_m = ceil_div(p.group_k(), 64 * tile.m_blocks),
                tiles_n = ceil_div(blocks, tile.n_blocks);
  const int64_t steps = ceil_div(p.n * p.y_pixels(), pixels_of(form)),
                total = tiles_m * tiles_n * p.groups * steps;
  Share best;
  const int64_t tiles = tiles_m * tiles_n * p.groups;
  for (int64_t count = 1; count <= std::min(units, total); count++) {
    // With as many for each tile, those that see the same pixels read them together. Else memory is read more
    // often, unless there are many tiles.
    const bool together = count % tiles == 0 || tiles % count == 0;
    const bool balanced = tiles * kFewTiles > units;
    if (workers > 0 ? count != workers : count > 1 && !together && !balanced) continue;
    int64_t slices = 1, slice = 1, turns = 1;
    for (int64_t i = 1, begin = 0, tile_before = 0; i <= count; i++) {
      const int64_t end = i * total / count, last = (end - 1) / steps;
      turns = std::max(turns, last - begin / steps + 1);
      slice = begin % steps != 0 && begin / steps == tile_before ? slice + 1 : 1;
      slices = std::max(slices, slice);
      if (last != begin / steps) slice = 1;
      tile_before = last, begin = end;
    }
    if (slices > 1 && static_cast<size_t>(slices * result) > room) continue;
    const double time = static_cast<double>(turns) * kTurn +
                        static_cast<double>(ceil_div(total, count)) * tile.step +
                        2 * static_cast<double>(slices * result) / kBytes;
    if (best.workers == 0 || time < best.time) best = {tile, tiles_m, tiles_n, count, slices, time};
  }
  return best;
}

Share choose(const ConvProblem& p, Form form, const Device& device, size_t room) {
  Share best;
  for (const Tile& tile : tiles_of(form)) {
    const Share share = share_of(p, form, tile, 0, device, room);
    if (best.workers == 0 || share.time < best.time) best = share;
  }
  return best;
}

size_t room_for_slices(const ConvProblem& p, const Options& options) {
  const uint64_t limit = options.workspace_limit, pixels = conv_nv_filter_pixel_bytes(p, options);
  constexpr uint64_t kRest = 1 << 18;  // maps, and ranges of parts
  return std::min(limit / 2, limit - std::min(limit, pixels + kRest));
}

class NvFilter : public ConvImpl {
 public:
  NvFilter(const Context& context, const ConvProblem& problem, const EngineOptions& options)
      : p_(problem),
        form_(form_of(p_, options)),
        share_(choose(p_, form_, context.device(), room_for_slices(p_, options))) {
    take_request(context, options);
    if (form_ == Form::split) {
      x_parts_.emplace(context, p_, false, workspace_);
      y_parts_.emplace(context, p_, true, workspace_);
    } else {
      x_.emplace(context, p_, false, workspace_);
      y_.emplace(context, p_, true, workspace_);
    }
    sums_.emplace(context, p_, static_cast<int>(share_.slices), workspace_, ConvPartsForm{true, true});
    maps_at_ = workspace_.add(static_cast<size_t>(kMapBytes * (share_.workers * 2 * parts_of(form_) + 1)));
    build(context);
  }

  size_t workspace_size() const override { return workspace_.size(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const bool split = form_ == Form::split;
    const Tensor x = split ? x_parts_->prepare(stream, t.x, workspace) : x_->prepare(stream, t.x, workspace);
    const Tensor y = split ? y_parts_->prepare(stream, t.y, workspace) : y_->prepare(stream, t.y, workspace);
    Launch launch(stream, kernel_);
    launch.arg(p_.n).arg(p_.group_c()).arg(p_.group_k()).arg(p_.groups);
    launch.arg(static_cast<int>(share_.tiles_m * share_.tiles_n * p_.groups));
    for (const int64_t divisor : {share_.tiles_m, share_.tiles_n, int64_t{blocks_c()}})
      launch.arg(divisor_of(static_cast<int>(divisor)));
    launch.arg(static_cast<int>(share_.slices)).arg(FilterAxes{axis(0), axis(1), axis(2)});
    launch.arg(x).arg(long_strides_of(split ? x_parts_->strides() : x_->strides()));
    launch.arg(split ? x_parts_->part_stride() : int64_t{0});
    launch.arg(y).arg(long_strides_of(split ? y_parts_->strides() : y_->strides()));
    launch.arg(split ? y_parts_->part_stride() : int64_t{0});
    launch.arg(sums_->partial(workspace));
    if (split) {
      launch.arg(t.x).arg(long_strides_of(p_.x)).arg(t.y).arg(long_strides_of(p_.y));
      launch.arg(x_parts_->ranges(workspace)).arg(y_parts_->ranges(workspace)).arg(ConvNvParts::kRanges);
    }
    launch.arg(workspace_part(workspace, maps_at_, {kMapBytes / 8}, DType::i64));
    launch.run({static_cast<size_t>(share_.workers) * items()}, {items()});
    sums_->add_up(stream, workspace, t.w);
  }

 private:
  /// One more warp-group feeds them, and of tf32 another one helps to turn x around.
  size_t items() const { return 128 * static_cast<size_t>(kWarpGroups + (form_ == Form::tf32 ? 2 : 1)); }
  int blocks_c() const { return static_cast<int>(ceil_div(p_.group_c(), channels_of(form_))); }

  /// Parameters that were asked for.
  void take_request(const Context& context, const EngineOptions& options) {
    if (!options.request.names(kConvNvWgmma.name)) return;
    Tile tile = share_.tile;
    int workers = 0;  // the best number
    options.request.take(
        kConvNvWgmma.name,
        {{"mb", &tile.m_blocks}, {"nb", &tile.n_blocks}, {"stages", &tile.stages}, {"workers", &workers}});
    require(tile.m_blocks == 1 || tile.m_blocks == 2, "engine", "mb ", tile.m_blocks, " is neither 1 nor 2");
    const int most = form_ == Form::half ? 256 : 192;
    require(tile.n_blocks >= 1 && tile.n_blocks * tile.m_blocks % kWarpGroups == 0 &&
                tile.own_columns(form_) <= most,
            "engine", "nb ", tile.n_blocks, " with mb ", tile.m_blocks, " gives no two warp-groups 1 to ",
            most, " columns each");
    require(workers >= 0 && tile.stages >= 2, "engine", "workers ", workers, " must be 0 or more, stages ",
            tile.stages, " 2 or more");
    const uint64_t bytes = local_bytes(tile, form_), room = context.device().probes().static_local_memory;
    require(bytes <= room, "engine", "needs ", bytes, " bytes of local memory, the device has ", room);
    share_ = share_of(p_, form_, tile, workers, context.device(), room_for_slices(p_, options));
    require(share_.workers > 0, "engine", "workers ", workers, ": their slices need more than ",
            room_for_slices(p_, options), " bytes of workspace");
  }

  FilterAxis axis(size_t i) const {
    return {divisor_of(p_.y_space[i]), p_.x_space[i], p_.w_space[i], p_.stride[i], p_.pad[i], p_.dilation[i]};
  }

  void build(const Context& context) {
    const Tile& tile = share_.tile;
    Defines defines;
    defines.set("M_BLOCKS", tile.m_blocks).set("N_BLOCKS", tile.n_blocks).set("STAGES", tile.stages);
    defines.set("WARP_GROUPS", kWarpGroups).set("DEPTH", p_.has_depth());
    defines.set("ACTIVATION", name_of(Activation::identity));
    if (form_ == Form::tf32) {
      WgmmaForm slots;
      slots.tile_n = tile.own_columns(form_), slots.a_registers = true;
      defines.set("TURNED", kTurned);
      build(context, "conv_nv_filter_tf32", fill_wgmma_slots(kernel_source("conv_nv_filter_tf32"), slots),
            defines);
      return;
    }
    WgmmaPartsForm slots;
    slots.dtype = p_.dtype == DType::f16 ? DType::f16 : DType::bf16;
    slots.parts = parts_of(form_), slots.tile_n = tile.own_columns(form_), slots.pixels = pixels_of(form_);
    slots.a_bytes = tile.m_blocks * slots.pixels * 128, slots.b_bytes = tile.n_blocks * slots.pixels * 128;
    defines.set("PARTS", slots.parts)
        .set("PIXELS", slots.pixels)
        .set("MAP_TYPE", p_.dtype == DType::f16 ? 6 : 10);
    build(context, "conv_nv_filter", fill_wgmma_parts_slots(kernel_source("conv_nv_filter"), slots), defines);
  }
  void build(const Context& context, const char* name, const std::string& source, const Defines& defines) {
    kernel_ = context.state().programs.generated(name, source, name, defines);
  }

  const ConvProblem p_;
  const Form form_;
  Share share_;
  WorkspaceParts workspace_;
  std::optional<ConvNvSource> x_, y_;
  std::optional<ConvNvParts> x_parts_, y_parts_;  ///< in three parts
  std::optional<ConvPartSums> sums_;
  size_t maps_at_ = 0;
  Kernel kernel_;
};

}  // namespace

uint64_t conv_nv_filter_pixel_bytes(const ConvProblem& p, const Options& options) {
  if (form_of(p, options) == Form::split) return ConvNvParts::bytes(p, false) + ConvNvParts::bytes(p, true);
  return ConvNvSource::bytes(p, false) + ConvNvSource::bytes(p, true);
}

std::string refuse_conv_nv_filter(const Context& context, const ConvProblem& p,
                                  const EngineOptions& options) {
  if (p.n == 0 || p.c == 0 || p.k == 0) return "has an empty side";
  // A block has 32 or 64 channels: with a few of them other engines waste less.
  if (p.group_c() < kLeastChannels)
    return cat("has ", p.group_c(), " channels in a group, pays from ", kLeastChannels, " on");
  if (p.groups > 1 && (p.group_c() % 8 != 0 || p.group_k() % 8 != 0))
    return cat("has ", p.groups, " groups of ", p.group_c(), " channels and ", p.group_k(),
               " filters, not multiples of 8");
  const std::string reason = ConvNvSource::refuse(p);
  if (!reason.empty()) return reason;
  const Form form = form_of(p, options);
  const uint64_t bytes =
                     local_bytes(choose(p, form, context.device(), room_for_slices(p, options)).tile, form),
                 room = context.device().probes().static_local_memory;
  if (bytes > room) return cat("needs ", bytes, " bytes of local memory, the device has ", room);
  return {};
}

std::unique_ptr<const ConvImpl> make_conv_nv_filter(const Context& context, const ConvProblem& problem,
                                                    const EngineOptions& options) {
  return std::make_unique<NvFilter>(context, problem, options);
}

std::vector<std::string> conv_nv_filter_candidates(const Context& context, const ConvProblem& p,
                                                   const Options& options) {
  const Form form = form_of(p, options);
  const Device& device = context.device();
  const int64_t units = std::max(1, device.facts().compute_units);
  std::vector<std::string> result;
  for (const Tile& tile : tiles_of(form)) {
    const auto share = [&](int64_t workers) {
      return share_of(p, form, tile, workers, device, room_for_slices(p, options));
    };
    std::vector<int64_t> counts = {share(0).workers, units, units / 2};
    if (options.tune == TuneMode::exhaustive)
      for (int64_t eighths : {7, 6, 5, 3, 2}) counts.push_back(units * eighths / 8);
    for (int64_t workers : counts) {
      if (workers < 1 || share(workers).workers == 0) continue;
      std::string request = cat("nv_wgmma:mb=", tile.m_blocks, ",nb=", tile.n_blocks, ",stages=", tile.stages,
                                ",workers=", workers);
      if (std::find(result.begin(), result.end(), request) == result.end())
        result.push_back(std::move(request));
    }
  }
  return result;
}

}  // namespace dlprim::detail
