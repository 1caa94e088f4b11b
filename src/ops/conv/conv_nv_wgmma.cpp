// Convolution engine `nv_wgmma`, forward and backward data: Hopper's warp-group matrix instructions fed by
// bulk tensor copies that gather pixels. f16 and bf16; f32 by three products of tf32 parts, or, where math
// allows, by tf32 alone.
#include <algorithm>
#include <vector>

#include "core/gen/wgmma.hpp"
#include "core/kernel_source.hpp"
#include "ops/conv/conv_axes.hpp"
#include "ops/conv/conv_nv_few.hpp"
#include "ops/conv/conv_nv_filter.hpp"
#include "ops/conv/conv_nv_groups.hpp"
#include "ops/conv/conv_nv_images.hpp"
#include "ops/conv/conv_nv_source.hpp"
#include "ops/conv/conv_nv_weights.hpp"
#include "ops/conv/conv_phases.hpp"
#include "ops/conv/conv_spread.hpp"
#include "ops/lib/divisor.hpp"
#include "ops/lib/epilogue.hpp"

namespace dlprim::detail {

#include "kernels/conv/conv_nv_wgmma.h"

extern const ConvEngine kConvNvWgmma;

namespace {

constexpr int64_t kMapBytes = 128;
constexpr int kMostPhases = 64;  // a table in local memory

bool is_split(const ConvProblem& p, const Options& options) {
  return p.dtype == DType::f32 && options.math != MathMode::tf32;
}

/// The matrix product's sides: a row for each pixel of the target.
struct Sides {
  Sides(const ConvProblem& p)
      : p(p),
        backward(p.direction == ConvDirection::backward_data),
        source_channels(backward ? p.group_k() : p.group_c()),
        target_channels(backward ? p.group_c() : p.group_k()),
        source(backward ? p.y : p.x),
        target(backward ? p.x : p.y) {
    for (size_t i = 0; i < 3; i++) axes[i] = ConvAxis(p, i);
    for (const ConvAxis& axis : axes) phases *= axis.phases;
  }
  /// Of the phase that has most.
  int64_t pixels(int images) const {
    int64_t count = images;
    for (const ConvAxis& axis : axes) count *= axis.phase(0).count;
    return count;
  }
  const Spatial& source_space() const { return backward ? p.y_space : p.x_space; }
  bool source_aligned() const { return backward ? p.y_aligned : p.x_aligned; }
  int64_t taps() const { return int64_t{axes[0].taps} * axes[1].taps * axes[2].taps; }

  const ConvProblem& p;
  const bool backward;
  const int source_channels, target_channels;
  const ConvStrides &source, &target;
  std::array<ConvAxis, 3> axes;
  int phases = 1;
};

/// `groups` warp-groups take 64 pixels each; one more feeds them. In microseconds, on an H200: what a step
/// takes, 128 bytes of channels of a tap, and a tile's beginning and end.
struct Tile {
  int n = 0, stages = 0, groups = 2;
  double step = 0, turn = 0;

  int m() const { return 64 * groups; }
  int items() const { return 128 * (groups + 1); }
};
constexpr Tile kPlainTiles[] = {{256, 4, 2, 0.78, 1.5}, {128, 5, 3, 0.72, 1.2}, {128, 6, 2, 0.43, 1.0},
                                {64, 6, 3, 0.33, 2.4},  {64, 8, 2, 0.24, 1.56}, {32, 8, 2, 0.2, 1.2}};
constexpr Tile kSplitTiles[] = {{128, 4, 2, 1.03, 2},
                                {64, 5, 3, 0.93, 3.2},
                                {64, 5, 2, 0.66, 1.9},
                                {16, 7, 3, 0.6, 1.5},
                                {16, 10, 2, 0.45, 1.5}};
/// A tile that has columns beyond the last one stores element by element.
constexpr double kRagged = 2.4;

/// What the columns of a tile without parts are a multiple of: instructions take 8, a warp stores 32 of 2
/// bytes at once, and w that has the target's channels side by side is copied 64 of 2 bytes at once.
int column_unit(const ConvProblem& p) {
  if (size_of(p.dtype) == 2 && p.direction == ConvDirection::backward_data) return 64;
  return size_of(p.result_dtype) == 2 ? 32 : 8;
}

/// The widest tile with no column beyond the last one, whatever the number of channels; n is 0 if there is
/// none.
Tile even_tile(const ConvProblem& p, int channels) {
  constexpr int kMostColumns = 256, kMostShares = 8, kMostStages = 8, kRoom = 216 * 1024;
  constexpr int kMostColumnsOfThree = 144;  // by the registers of three warp-groups
  for (int shares = 1; shares <= kMostShares; shares++) {
    const int n = channels / shares;
    if (channels % shares != 0 || n > kMostColumns || n % column_unit(p) != 0) continue;
    Tile tile{n, 0, n <= kMostColumnsOfThree ? 3 : 2};
    const int rows = tile.m() + n;
    tile.stages = std::min(kMostStages, kRoom / (128 * rows));
    tile.step = 0.0027 * rows - 0.27;
    tile.turn = tile.groups == 3 ? 1.2 : 1 + 0.002 * n;
    return tile;
  }
  return {};
}

/// What an engine's own choice and tuning choose from.
std::vector<Tile> tiles_of(const ConvProblem& p, int channels, bool split) {
  if (split) return {std::begin(kSplitTiles), std::end(kSplitTiles)};
  std::vector<Tile> tiles;
  for (const Tile& tile : kPlainTiles)
    if (tile.n % column_unit(p) == 0) tiles.push_back(tile);
  const Tile even = even_tile(p, channels);
  const auto same = [&](const Tile& tile) { return tile.n == even.n; };
  if (even.n != 0 && std::none_of(tiles.begin(), tiles.end(), same)) tiles.push_back(even);
  return tiles;
}

/// The source's planes can be read as they are, by tiles of 128 pixels of which a quarter at most is wasted.
bool reads_planes(const Sides& sides, bool split) {
  const ConvProblem& p = sides.p;
  if (!split || p.groups != 1 || p.taps() != 1 || p.stride != Spatial{1, 1, 1} || p.pad != Spatial{0, 0, 0})
    return false;
  const Spatial& space = sides.source_space();
  const int64_t pixels = int64_t{space[0]} * space[1] * space[2];
  const bool even =
      even_stride(sides.source, space) == 1 && sides.source_aligned() && sides.source_channels > 1;
  const bool copied = sides.source[1] % 4 == 0 && sides.source[0] % 4 == 0 && sides.source[1] > 0 &&
                      (p.n == 1 || sides.source[0] > 0);
  return even && copied && round_up(pixels, 128) * 4 <= pixels * 5;
}

struct Choice {
  Tile tile;
  double time = 0;  ///< of the product alone
};

Choice choose(const ConvProblem& p, const Sides& sides, bool split, const Device& device) {
  const int64_t units = std::max(1, device.facts().compute_units);
  const int64_t blocks = ceil_div(sides.source_channels * static_cast<int64_t>(size_of(p.dtype)), 128);
  const double steps = static_cast<double>(sides.taps() * blocks) / sides.phases;
  Choice best;
  const bool planes = reads_planes(sides, split);
  const auto consider = [&](const Tile& tile) {
    const int64_t rows =
        planes ? p.n * ceil_div(sides.pixels(1), tile.m()) : ceil_div(sides.pixels(p.n), tile.m());
    const int64_t tiles = rows * ceil_div(sides.target_channels, tile.n) * p.groups * sides.phases;
    const double ragged = sides.target_channels % tile.n == 0 ? 0 : kRagged;
    const double time =
        static_cast<double>(ceil_div(tiles, units)) * (tile.turn + ragged + steps * tile.step);
    if (best.time == 0 || time < best.time) best = {tile, time};
  };
  for (const Tile& tile : tiles_of(p, sides.target_channels, split)) consider(tile);
  return best;
}

uint64_t local_bytes(const Tile& tile, bool split) {
  return static_cast<uint64_t>(tile.stages) * static_cast<uint64_t>(tile.m() + tile.n * (split ? 2 : 1)) *
         128;
}

class NvWgmma : public ConvImpl {
 public:
  NvWgmma(const Context& context, const ConvProblem& problem, const EngineOptions& options)
      : p_(problem),
        sides_(p_),
        split_(is_split(p_, options)),
        planes_(reads_planes(sides_, split_)),
        tile_(choose(p_, sides_, split_, context.device()).tile) {
    options.request.take(kConvNvWgmma.name,
                         {{"tn", &tile_.n}, {"stages", &tile_.stages}, {"groups", &tile_.groups}});
    require_tile(context);
    if (!planes_) source_.emplace(context, p_, sides_.backward, parts_);
    weights_.emplace(context, p_, split_ ? 2 : 1, parts_);
    tiles_m_ = static_cast<int>(ceil_div(sides_.pixels(planes_ ? 1 : p_.n), tile_.m()));
    tiles_n_ = static_cast<int>(ceil_div(sides_.target_channels, tile_.n));
    const int64_t tiles = int64_t{tiles_m_} * tiles_n_ * sides_.phases * (planes_ ? p_.n : p_.groups);
    groups_ = std::min<int64_t>(tiles, std::max(1, context.device().facts().compute_units));
    maps_at_ =
        parts_.add(static_cast<size_t>(kMapBytes * (groups_ * (sides_.phases + (split_ ? 2 : 1)) + 1)));
    build(context);
  }

  size_t workspace_size() const override { return parts_.size(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const Tensor& given = sides_.backward ? t.y : t.x;
    const Tensor source = planes_ ? given : source_->prepare(stream, given, workspace);
    const ConvStrides& strides = planes_ ? sides_.source : source_->strides();
    const Tensor weights = weights_->prepare(stream, t.w, workspace);
    Launch launch(stream, kernel_);
    launch.arg(static_cast<int>(sides_.backward))
        .arg(p_.n)
        .arg(sides_.source_channels)
        .arg(sides_.target_channels)
        .arg(p_.groups);
    for (int divisor : {sides_.phases, tiles_m_, tiles_n_}) launch.arg(divisor_of(divisor));
    const auto& [d, h, w] = sides_.axes;
    launch.arg(PhaseAxes{d.numbers(), h.numbers(), w.numbers()});
    launch.arg(source).arg(long_strides_of(strides));
    launch.arg(weights_->part(0, t.w, weights)).arg(split_ ? weights_->part(1, t.w, weights) : Tensor());
    launch.arg(weights_->tap_stride()).arg(weights_->row_stride());
    launch.arg(sides_.backward ? t.x : t.y);
    launch.arg(long_strides_of(sides_.target));
    if (split_) {
      const int64_t k = p_.w[0], c = p_.w[1];
      launch.arg(t.w).arg(WgmmaWeights{k * p_.group_k(), sides_.backward ? k : c, sides_.backward ? c : k,
                                       p_.w[2], p_.w[3], p_.w[4]});
      launch.arg(weights_->ranges(weights)).arg(weights_->range_count());
    }
    launch.arg(workspace_part(workspace, maps_at_, {kMapBytes / 8}, DType::i64));
    bind_epilogue(launch, p_.dtype, t.with);
    const auto items = static_cast<size_t>(tile_.items());
    launch.run({static_cast<size_t>(groups_) * items}, {items});
  }

  void forget_constants() const override { weights_->forget_constants(); }

 private:
  void require_tile(const Context& context) const {
    const int unit = split_ ? 64 : column_unit(p_);
    const bool fits = tile_.n > 0 && tile_.n <= 256 && tile_.n % unit == 0;
    require(fits || (split_ && tile_.n == 16), "engine", "tn ", tile_.n, " is no multiple of ", unit,
            " up to 256", split_ ? ", nor 16" : "");
    require(tile_.stages >= 2, "engine", "stages ", tile_.stages, " must be 2 or more");
    require(tile_.groups == 2 || tile_.groups == 3, "engine", "groups ", tile_.groups, " is neither 2 nor 3");
    const uint64_t bytes = local_bytes(tile_, split_), room = context.device().probes().static_local_memory;
    require(bytes <= room, "engine", "needs ", bytes, " bytes of local memory, the device has ", room);
  }

  void build(const Context& context) {
    const bool last = sides_.target[1] <= 1;
    Defines defines = conv_defines(p_);
    if (last) defines = conv_defines(p_, ConvChannels::columns);
    defines.set("DEPTH", p_.has_depth()).set("SPLIT", split_);
    defines.set("PLANES", planes_)
        .set("W_UNIT_TARGET", weights_->unit_target())
        .set("TILE_N", tile_.n)
        .set("STAGES", tile_.stages)
        .set("WARP_GROUPS", tile_.groups);
    const bool aligned = sides_.backward ? p_.x_aligned : p_.y_aligned;
    const int64_t vector = last ? conv_result_vector(p_, sides_.target_channels, sides_.target, aligned) : 1;
    defines.set("C_BYTES", static_cast<int>(size_of(p_.result_dtype)));
    defines.set("C_PAIRS", vector >= 2).set("C_WIDE", vector >= 8).set("C_TRANSPOSED", !last);
    constexpr int kRoundingToTf32 = 11;
    if (p_.dtype == DType::f32 && !split_) defines.set("W_MAP_TYPE", kRoundingToTf32);
    if (p_.dtype != DType::f32)
      defines.set("ELEMENT", "ushort")
          .set("ELEMENT_BYTES", 2)
          .set("MAP_TYPE", p_.dtype == DType::f16 ? 6 : 10);
    const std::string source = fill_wgmma_slots(kernel_source("conv_nv_wgmma"),
                                                {p_.dtype, split_, tile_.n, true, !weights_->unit_target()});
    kernel_ = context.state().programs.generated("conv_nv_wgmma", source, "conv_nv_wgmma", defines);
  }

  const ConvProblem p_;
  const Sides sides_;
  const bool split_, planes_;
  Tile tile_;
  WorkspaceParts parts_;
  std::optional<ConvNvSource> source_;
  std::optional<ConvNvWeights> weights_;
  int tiles_m_ = 0, tiles_n_ = 0;
  int64_t groups_ = 0;
  size_t maps_at_ = 0;
  Kernel kernel_;
};

std::unique_ptr<const ConvImpl> make_product(const Context& context, const ConvProblem& p,
                                             const EngineOptions& options) {
  if (p.direction == ConvDirection::backward_filter) return make_conv_nv_filter(context, p, options);
  return std::make_unique<NvWgmma>(context, p, options);
}

/// Convolutions that are turned into others, and the way there.
struct Form {
  std::optional<ConvProblem> (*inner)(const ConvProblem&, const Options&);
  std::unique_ptr<const ConvImpl> (*make)(const Context&, const ConvProblem&, const EngineOptions&, MakeConv);
};
constexpr Form kForms[] = {{conv_nv_rows, make_conv_nv_rows},
                           {conv_nv_blocks, make_conv_nv_blocks},
                           {conv_spread_inner, make_conv_spread},
                           {conv_nv_groups, make_conv_nv_groups},
                           {conv_nv_images, make_conv_nv_images}};

std::string refuse_product(const Context& context, const ConvProblem& p, const EngineOptions& options) {
  std::string reason = refuse_large(p);
  if (reason.empty()) reason = refuse_depthwise(p);
  if (!reason.empty()) return reason;
  if (p.direction == ConvDirection::backward_filter) return refuse_conv_nv_filter(context, p, options);
  const Sides sides(p);
  const int64_t step = 128 / static_cast<int64_t>(size_of(p.dtype));
  if (sides.source_channels == 0 || sides.target_channels == 0 || p.n == 0) return "has an empty side";
  // With a few channels other engines waste less.
  if (sides.source_channels * 8 < step)
    return cat("has ", sides.source_channels, " channels in a group, pays from ", step / 8, " on");
  if (p.groups > 1 && sides.source_channels % step != 0)
    return cat("has ", p.groups, " groups of ", sides.source_channels, " channels, not multiples of ", step);
  if (sides.phases > kMostPhases)
    return cat("has ", sides.phases, " phases, the kernel's table ", kMostPhases);
  reason = ConvNvSource::refuse(p);
  if (!reason.empty()) return reason;
  const bool split = is_split(p, options);
  const uint64_t bytes = local_bytes(choose(p, sides, split, context.device()).tile, split),
                 room = context.device().probes().static_local_memory;
  if (bytes > room) return cat("needs ", bytes, " bytes of local memory, the device has ", room);
  return {};
}

std::string refuse(const Context& context, const ConvProblem& p, const EngineOptions& options) {
  const MatrixEngine matrix = context.device().probes().matrix;
  if (matrix != MatrixEngine::nv_wgmma)
    return cat("needs the matrix engine nv_wgmma, the device has ", name_of(matrix));
  if (p.dtype == DType::f64) return "is for f32, f16 and bf16, the operands are f64";
  // What rearranges x and w for another form counts in 32 bits too.
  const std::string reason = refuse_large(p);
  if (!reason.empty()) return reason;
  for (const Form& form : kForms)
    if (const auto inner = form.inner(p, options)) return refuse_product(context, *inner, options);
  return refuse_product(context, p, options);
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const EngineOptions& options) {
  for (const Form& form : kForms)
    if (form.inner(problem, options)) return form.make(context, problem, options, make_product);
  return make_product(context, problem, options);
}

/// The engine's own choice, and every tile; exhaustively, with fewer stages too.
std::vector<std::string> candidates(const Context& context, const ConvProblem& problem,
                                    const EngineOptions& options) {
  ConvProblem p = problem;
  for (const Form& form : kForms)
    if (const auto inner = form.inner(problem, options)) {
      p = *inner;
      break;
    }
  std::vector<std::string> result = {kConvNvWgmma.name};
  if (p.direction == ConvDirection::backward_filter) {
    for (std::string& request : conv_nv_filter_candidates(context, p, options))
      result.push_back(std::move(request));
    return result;
  }
  const bool all = options.tune == TuneMode::exhaustive;
  for (const Tile& tile : tiles_of(p, Sides(p).target_channels, is_split(p, options)))
    for (int stages = tile.stages; stages >= 2 && stages >= tile.stages - (all ? 2 : 0); stages--)
      result.push_back(cat(kConvNvWgmma.name, ":tn=", tile.n, ",stages=", stages, ",groups=", tile.groups));
  return result;
}

/// Of pixels that are read as they lie: packing w and the product (3x3 layers of four networks, 64 images,
/// channels last: 0.9 to 1.2 of what was measured).
double time_of_product(const Context& context, const ConvProblem& p) {
  constexpr double kPacking = 12;
  return kPacking + choose(p, Sides(p), true, context.device()).time;
}

/// Of f32 by split products, if the product has no groups or puts them together, as fitted together with
/// `fma` (0.27 forward, 0.33 backward data, 0.13 backward filter); where nothing was measured, nothing. The
/// first number: packing w and rearranging pixels are launches of their own.
double predict(const Context& context, const ConvProblem& problem, const EngineOptions& options) {
  const std::optional<ConvProblem> merged = conv_nv_groups(problem, options);
  const ConvProblem& p = merged ? *merged : problem;
  if (!is_split(p, options) || (problem.groups != 1 && !merged)) return 0;
  struct Rates {
    double start, flops, bytes;
  };
  static constexpr Rates kRates[] = {{25, 110e6, 2e6}, {28, 110e6, 1.5e6}, {30, 140e6, 1e6}};
  const bool backward = p.direction == ConvDirection::backward_data;
  const bool turned = std::any_of(std::begin(kForms), std::end(kForms),
                                  [&](const Form& form) { return form.inner(problem, options).has_value(); });
  if (p.direction != ConvDirection::backward_filter && !turned && ConvNvSource::bytes(p, backward) == 0)
    return time_of_product(context, p);
  const Rates& rates = kRates[static_cast<size_t>(p.direction)];
  const double bytes = conv_pixel_bytes(p);
  return rates.start + conv_flops(p) / rates.flops + bytes / rates.bytes;
}

}  // namespace

const ConvEngine kConvNvWgmma = {"nv_wgmma", refuse, make, nullptr, predict, candidates};

}  // namespace dlprim::detail
