// The depthwise engine: direct convolution of groups of few channels (conv_depthwise.cl), for GPUs.
#include <algorithm>
#include <optional>

#include "core/launch.hpp"
#include "core/state.hpp"
#include "ops/conv/conv_depthwise.hpp"
#include "ops/conv/conv_parts.hpp"
#include "ops/lib/epilogue.hpp"

namespace dlprim::detail {

extern const ConvEngine kConvDepthwise;

namespace {

constexpr int kMostChannels = 8;  ///< of a group's larger side, unless the smaller one is 1
// What is compiled in: larger windows and steps come as arguments.
constexpr int kMostTaps = 7, kMostStep = 2;

/// The macros of conv_depthwise.cl that only speed depends on.
struct Tile {
  int h = 1, w = 1;  ///< of a work-item
  int v = 1;         ///< its channels
  int lanes_c = 1, lanes_p = 1;
};

int64_t floor_div(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -ceil_div(-a, b);
}

/// Sides as the kernel has them: taps reach from the target into the source.
struct Sides {
  const ConvStrides &source, &target;
  const Spatial &source_space, &target_space;
  int target_channels, group_source, group_target;
};

Sides sides_of(const ConvProblem& p) {
  if (p.direction == ConvDirection::backward_data)
    return {p.y, p.x, p.y_space, p.x_space, p.c, p.group_k(), p.group_c()};
  return {p.x, p.y, p.x_space, p.y_space, p.k, p.group_c(), p.group_k()};
}

bool plain(const ConvProblem& p) {
  return p.group_c() == 1 && p.group_k() == 1;
}

bool channels_last(const ConvProblem& p) {
  return p.x[1] == 1 && p.y[1] == 1;
}

bool compiled(const ConvProblem& p) {
  for (size_t i = 1; i < 3; i++)
    if (p.w_space[i] > kMostTaps || p.stride[i] > kMostStep ||
        (p.w_space[i] > 1 && p.dilation[i] > kMostStep))
      return false;
  return true;
}

int dilation(const ConvProblem& p, size_t i) {
  return p.w_space[i] > 1 ? p.dilation[i] : 1;
}

/// Four channels at a time, if everything lies at multiples of four.
int vector_of(const ConvProblem& p) {
  if (!plain(p) || !channels_last(p) || p.c % 4 != 0 || !p.x_aligned || !p.y_aligned) return 1;
  if (p.dtype == DType::f64 || !compiled(p)) return 1;
  for (size_t i : {0, 2, 3, 4})
    if (p.x[i] % 4 != 0 || p.y[i] % 4 != 0) return 1;
  // Backward filter has four sums for each tap.
  return p.direction == ConvDirection::backward_filter && p.taps() > 9 ? 1 : 4;
}

/// The height of tiles that reads the fewest rows of the source, each tile `ahead` more than its own.
int height_of(int rows, int ahead, int stride, bool backward) {
  int best = 0;
  for (int height : {8, 7, 4}) {
    if (backward && height % stride != 0) continue;
    const auto read = [&](int h) { return ceil_div(rows, h) * (h + ahead); };
    if (best == 0 || read(height) < read(best)) best = height;
  }
  return best;
}

/// Four channels of 2 x 2 pixels rather than of a higher tile. On an H200, 512x14x14, f32 and bf16: forward
/// 18.2 and 17.1 us, 23.7 and 22.7 otherwise, backward filter 26 and 22, 36 and 29; 144x56x56: forward 74
/// and 87, 76 and 81 otherwise, backward filter 93 and 104, 105 and 89.
bool takes_squares(const ConvProblem& p, const Tile& t, const Sides& sides) {
  constexpr int64_t kSmallPlane = 256;
  const bool filter = p.direction == ConvDirection::backward_filter;
  if (!compiled(p) || t.v == 1) return false;  // compiled in, strides are 1 or 2
  const int64_t plane = int64_t{sides.target_space[1]} * sides.target_space[2];
  return plane <= kSmallPlane || (filter && p.dtype == DType::f32);
}

/// Everything to tune, in one place.
Tile tile_for(const ConvProblem& p, const Device& device, const EngineOptions& options) {
  const bool filter = p.direction == ConvDirection::backward_filter;
  const Sides sides = sides_of(p);
  Tile t;
  t.v = vector_of(p);
  if (compiled(p)) {
    // Measured on an H200: neighbouring items load neighbouring elements best from strips of one column
    // (forward 144x56x56: 89 us by strips of two, 77 us), four channels leave the filter's sums no room for
    // more (0.6 of the time). Channels of a group share what two columns load (128x56x56, groups of four: 204
    // and 155 us), except where the filter's strides leave little to share (256x56x56: 305 and 431 us).
    const bool strided = p.stride[2] > 1, several = p.group_c() > 1 && p.group_k() > 1;
    if (filter)
      t.w = t.v > 1 || (several && strided) ? 1 : 2;
    else
      t.w = several || t.v > 1 || (strided && p.direction == ConvDirection::backward_data) ? 2 : 1;
    // Four channels' results for seven rows would not fit into registers.
    t.h = t.v > 1 ? 4
                  : height_of(sides.target_space[1], p.w_space[1] - 1, p.stride[1],
                              p.direction == ConvDirection::backward_data);
  }
  int lanes = filter ? 256 / std::min(t.v, 2) : 128;
  if (channels_last(p)) {
    const int64_t blocks = ceil_div(sides.target_channels, t.v);
    t.lanes_c = 32;
    if (takes_squares(p, t, sides)) {
      t.h = t.w = 2;
      t.lanes_c = 16;
      if (!filter) lanes = 256;
    }
    for (int fewer : {16, 8})
      if (round_up(blocks, fewer) < round_up(blocks, t.lanes_c)) t.lanes_c = fewer;
  }
  options.request.take(kConvDepthwise.name,
                       {{"tile_h", &t.h}, {"tile_w", &t.w}, {"lanes", &lanes}, {"lanes_c", &t.lanes_c}});
  const bool data = p.direction == ConvDirection::backward_data;
  for (size_t i : {1, 2}) {
    const int size = i == 1 ? t.h : t.w;
    require(size >= 1 && size <= 16, "options", "a tile of ", t.h, " x ", t.w,
            " must have 1 to 16 rows and columns");
    require(compiled(p) || size == 1, "options", "a tile of ", t.h, " x ", t.w,
            " must be 1 x 1: the window or its steps are too large to be compiled in");
    require(!data || !compiled(p) || size % p.stride[i] == 0, "options", "a tile of ", t.h, " x ", t.w,
            " is no multiple of the strides ", p.stride[1], " and ", p.stride[2]);
  }
  lanes = std::min(lanes, device.facts().max_work_group);
  // The sums of all items meet in local memory.
  const int64_t sums = filter ? (compiled(p) ? p.w_space[1] * p.w_space[2] : 1) * t.v : 0;
  const auto real = static_cast<int64_t>(p.dtype == DType::f64 ? sizeof(double) : sizeof(float));
  while (lanes > 1 && sums * (lanes + 1) * real > static_cast<int64_t>(device.facts().local_memory))
    lanes /= 2;
  t.lanes_c = std::clamp(t.lanes_c, 1, lanes);
  t.lanes_p = lanes / t.lanes_c;
  return t;
}

class Depthwise : public ConvImpl {
 public:
  Depthwise(const Context& context, const ConvProblem& problem, const EngineOptions& options)
      : p_(problem),
        sides_(sides_of(p_)),
        tile_(tile_for(p_, context.device(), options)),
        geometry_(depthwise_geometry(p_)) {
    place_strips();
    Defines defines = conv_defines(p_);
    const bool last = channels_last(p_), filter = p_.direction == ConvDirection::backward_filter;
    defines.set("DIRECTION", static_cast<int>(p_.direction)).set("CHANNELS_LAST", last);
    defines.set("PLAIN", plain(p_)).set("DEPTH", p_.has_depth()).set("UNIT", sides_.source[4] == 1 && !last);
    defines.set("V", tile_.v).set("TILE_H", tile_.h).set("TILE_W", tile_.w);
    defines.set("LANES_C", tile_.lanes_c).set("LANES_P", tile_.lanes_p);
    defines.set("UNROLLED", context.device().kind() != DeviceKind::cpu);
    defines.set("KERNEL_H", compiled(p_) ? p_.w_space[1] : 0);
    if (compiled(p_)) {
      defines.set("KERNEL_W", p_.w_space[2]).set("STRIDE_H", p_.stride[1]).set("STRIDE_W", p_.stride[2]);
      defines.set("DILATION_H", dilation(p_, 1)).set("DILATION_W", dilation(p_, 2));
    }
    if (filter) {
      const int64_t results = int64_t{p_.k} * p_.group_c() * p_.taps();
      parts_ = conv_parts_for(strips_.count, tile_.lanes_p, channel_groups() * tap_groups(), context.device(),
                              results, static_cast<int64_t>(options.workspace_limit / sizeof(double) / 2));
      sums_.emplace(context, p_, parts_.count, workspace_);
      defines.set("PARTS", parts_.count > 1);
    }
    kernel_ = context.state().programs.kernel("conv_depthwise",
                                              filter ? "conv_depthwise_filter" : "conv_depthwise", defines);
  }

  size_t workspace_size() const override { return workspace_.size(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    Launch launch(stream, kernel_);
    const auto lanes_c = static_cast<size_t>(tile_.lanes_c), lanes_p = static_cast<size_t>(tile_.lanes_p);
    const auto across = static_cast<size_t>(channel_groups()) * lanes_c;
    if (sums_) {
      launch.arg(t.x).arg(t.y).arg(t.w).arg(sums_->partial(workspace)).arg(parts_.steps);
      launch.arg(geometry_).arg(strips_);
      launch.run({across, static_cast<size_t>(tap_groups()) * lanes_p, static_cast<size_t>(parts_.count)},
                 {lanes_c, lanes_p, 1});
      sums_->add_up(stream, workspace, t.w);
      return;
    }
    const bool forward = p_.direction == ConvDirection::forward;
    launch.arg(forward ? t.x : t.y).arg(t.w).arg(forward ? t.y : t.x);
    launch.arg(geometry_).arg(strips_);
    bind_epilogue(launch, p_.dtype, t.with);
    launch.run({across, static_cast<size_t>(round_up(int64_t{strips_.count}, tile_.lanes_p)), 1},
               {lanes_c, lanes_p, 1});
  }

 private:
  /// Where tiles lie in the target, and where what they see begins in the source.
  void place_strips() {
    Spatial target_first{0, 0, 0}, source_first{0, 0, 0}, across{1, 1, 1};
    for (size_t i = 1; i < 3; i++) {
      const int size = i == 1 ? tile_.h : tile_.w;
      source_first[i] = -p_.pad[i];
      if (p_.direction == ConvDirection::backward_data && compiled(p_)) {
        // Row u of the padded target meets tap r in the source's row (u - r * dilation) / stride.
        const auto first = static_cast<int>(floor_div(p_.pad[i], p_.stride[i]));
        target_first[i] = first * p_.stride[i] - p_.pad[i];
        source_first[i] = first - (p_.w_space[i] - 1) * dilation(p_, i) / p_.stride[i];
      }
      across[i] = static_cast<int>(ceil_div(sides_.target_space[i] - target_first[i], size));
    }
    DepthwiseGeometry& g = geometry_;
    g.t_first_h = target_first[1], g.t_first_w = target_first[2];
    g.s_first_h = source_first[1], g.s_first_w = source_first[2];
    int64_t count = int64_t{p_.n} * g.target.d * across[1] * across[2];
    if (p_.direction != ConvDirection::backward_filter && !channels_last(p_)) count *= g.channels;
    strips_ = {static_cast<int>(count), divisor_of(across[2]),  divisor_of(across[1]),
               divisor_of(g.target.d),  divisor_of(g.channels), divisor_of(g.group_t)};
  }
  int64_t channel_groups() const {
    if (p_.direction != ConvDirection::backward_filter && !channels_last(p_)) return 1;
    return ceil_div(geometry_.channels, int64_t{tile_.v} * tile_.lanes_c);
  }
  int64_t tap_groups() const { return compiled(p_) ? p_.w_space[0] : p_.taps(); }

  const ConvProblem p_;
  const Sides sides_;
  const Tile tile_;
  DepthwiseGeometry geometry_;
  DepthwiseStrips strips_{};
  ConvParts parts_;
  WorkspaceParts workspace_;
  std::optional<ConvPartSums> sums_;  ///< backward filter
  Kernel kernel_;
};

/// Matrix hardware multiplies several groups as one, in dtypes that it has (conv_nv_groups.hpp).
std::string avoid(const Context& context, const ConvProblem& p, const EngineOptions& options) {
  constexpr int kLeastChannels = 4;
  constexpr double kLeastFlops = 2e8;  // its launches take longer than fewer do here
  const bool dtype = size_of(p.dtype) == 2 || (p.dtype == DType::f32 && options.math == MathMode::tf32);
  if (!dtype || context.device().probes().matrix != MatrixEngine::nv_wgmma) return {};
  if (std::min(p.group_c(), p.group_k()) < kLeastChannels || conv_flops(p) < kLeastFlops) return {};
  return cat("leaves groups of ", p.group_c(), " channels and ", p.group_k(),
             " filters to the device's matrix engine");
}

std::string refuse(const Context&, const ConvProblem& p, const EngineOptions&) {
  const std::string reason = refuse_large(p);
  return reason.empty() ? refuse_wide_groups(p, kMostChannels) : reason;
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const EngineOptions& options) {
  return std::make_unique<Depthwise>(context, problem, options);
}

/// The engine's own tile, and others. On a CPU the engine is the slower one.
std::vector<std::string> candidates(const Context& context, const ConvProblem& p,
                                    const EngineOptions& options) {
  std::vector<std::string> result = {kConvDepthwise.name};
  if (context.device().kind() == DeviceKind::cpu) return result;
  const bool data = p.direction == ConvDirection::backward_data, all = options.tune == TuneMode::exhaustive;
  const auto fits = [&](int size, size_t axis) {
    return compiled(p) ? !data || size % p.stride[axis] == 0 : size == 1;
  };
  for (const int lanes : {128, 256, 64, 512}) {
    if (lanes != 128 && lanes != 256 && !all) continue;
    for (const int h : {1, 2, 4, 7, 8, 14})
      for (const int w : {1, 2, 4}) {
        const bool usual = (h == 4 || h == 7 || h == 8 || !compiled(p)) && w <= 2;
        if (fits(h, 1) && fits(w, 2) && (all || usual))
          result.push_back(cat(kConvDepthwise.name, ":tile_h=", h, ",tile_w=", w, ",lanes=", lanes));
      }
    if (!channels_last(p) || !fits(2, 1) || !fits(2, 2)) continue;
    for (const int w : {2, 4})
      result.push_back(cat(kConvDepthwise.name, ":tile_h=2,tile_w=", w, ",lanes=", lanes, ",lanes_c=16"));
  }
  return result;
}

}  // namespace

const ConvEngine kConvDepthwise = {"depthwise", refuse, make, avoid, nullptr, candidates, true};

}  // namespace dlprim::detail
