// The depthwise_cpu engine: direct convolution of groups of few channels by work-groups of one work-item
// (conv_depthwise_cpu.cl).
#include <algorithm>
#include <optional>
#include <utility>

#include "core/launch.hpp"
#include "core/state.hpp"
#include "ops/conv/conv_depthwise.hpp"
#include "ops/conv/conv_parts.hpp"
#include "ops/lib/epilogue.hpp"

namespace dlprim::detail {

extern const ConvEngine kConvDepthwiseCpu;

namespace {

constexpr int kMostChannels = 8;  ///< of a group's larger side, unless the smaller one is 1
constexpr int kMostStride = 8;    ///< backward data: each is as many phases
constexpr int kMostTaps = 1024;   ///< in a plane of w; they are listed in private memory
/// Numbers in a buffer: what is seen and the sums lie in the second cache at worst.
constexpr int kRoom = 8192;
constexpr int64_t kWork = 4096;  ///< results of a work-group: far above the cost of starting it

bool backward_data(const ConvProblem& p) {
  return p.direction == ConvDirection::backward_data;
}

bool filter(const ConvProblem& p) {
  return p.direction == ConvDirection::backward_filter;
}

bool channels_last(const ConvProblem& p) {
  return p.group_c() == 1 && p.group_k() == 1 && p.x[1] == 1 && p.y[1] == 1;
}

/// Vectors as wide as the device's, unless rows are short.
int lanes_for(const ConvProblem& p, const Device& device) {
  const bool wide = device.facts().float_vector_width >= 16;
  const int columns = channels_last(p) ? p.c : p.y_space[2];
  return (wide && columns > 8 ? 16 : 8) / (p.dtype == DType::f64 ? 2 : 1);
}

/// How a plane of the target is cut into blocks, and the buffer for what one sees.
struct Blocks {
  Spatial first{0, 0, 0};          ///< of the target, where the first block begins: at most 0
  Spatial first_seen{0, 0, 0};     ///< of the source
  std::array<int64_t, 3> all{};    ///< rows and columns to cut: in backward data of a phase
  std::array<int64_t, 3> ahead{};  ///< lines and columns of the buffer beyond the block's
  int64_t phases = 1;              ///< buffers for what is seen
  int64_t sums = 1;                ///< buffers of sums
  int64_t h = 1, w = 1;            ///< of a block

  int64_t across() const { return ceil_div(all[2], w); }
  int64_t count() const { return across() * ceil_div(all[1], h); }
  int64_t room(int64_t rows, int64_t columns) const {
    return (columns + ahead[2]) * std::max(phases * (rows + ahead[1]), sums * rows);
  }
};

Blocks blocks_for(const ConvProblem& p, int64_t room) {
  Blocks b;
  for (size_t i = 1; i < 3; i++) {
    const int64_t stride = p.stride[i], window = int64_t{p.w_space[i] - 1} * p.dilation[i];
    b.ahead[i] = window / stride;
    if (backward_data(p)) {
      // Row m * stride + phase of the padded target sees rows m - ahead ... m of the source.
      const int64_t first = p.pad[i] >= 0 ? p.pad[i] / stride : -ceil_div(-int64_t{p.pad[i]}, stride);
      b.first[i] = static_cast<int>(first * stride - p.pad[i]);
      b.first_seen[i] = static_cast<int>(first - b.ahead[i]);
      b.all[i] = ceil_div(p.x_space[i] - b.first[i], stride);
    } else {
      b.first_seen[i] = -p.pad[i];
      b.all[i] = p.y_space[i];
      b.phases *= std::min(stride, window + 1);
    }
  }
  if (backward_data(p)) b.sums = p.stride[2];
  // As many rows as there is room for; but few of them see much that others see too.
  constexpr int64_t kFewRows = 8;
  b.w = std::max<int64_t>(b.all[2], 1);
  while (b.w > 1 && b.room(std::min(kFewRows, b.all[1]), b.w) > room) b.w = ceil_div(b.w, 2);
  while (b.h < b.all[1] && b.room(b.h + 1, b.w) <= room) b.h++;
  b.h = ceil_div(std::max<int64_t>(b.all[1], 1), ceil_div(std::max<int64_t>(b.all[1], 1), b.h));
  return b;
}

int64_t room_for(const ConvProblem& p, const Device& device) {
  return kRoom / (channels_last(p) ? lanes_for(p, device) : 1);
}

class DepthwiseCpu : public ConvImpl {
 public:
  DepthwiseCpu(const Context& context, const ConvProblem& problem, const Options& options)
      : p_(problem),
        lanes_(lanes_for(p_, context.device())),
        blocks_(blocks_for(p_, room_for(p_, context.device()))),
        geometry_(depthwise_geometry(p_)) {
    const bool last = channels_last(p_);
    Defines defines = conv_defines(p_);
    defines.set("DIRECTION", static_cast<int>(p_.direction)).set("CHANNELS_LAST", last).set("VW", lanes_);
    defines.set("STEP_W", p_.stride[2] <= 2 ? p_.stride[2] : 0).set("ROOM", kRoom);
    const ConvStrides &source = backward_data(p_) ? p_.y : p_.x, &target = backward_data(p_) ? p_.x : p_.y;
    defines.set("UNIT_SOURCE", source[4] == 1 && !last).set("UNIT_TARGET", target[4] == 1 && !last);
    const int window = p_.w_space[1] * p_.w_space[2];
    defines.set("MOST_TAPS", window);
    if (backward_data(p_)) defines.set("MOST_PHASES", p_.stride[1] * p_.stride[2]);
    if (filter(p_)) {
      constexpr int kSums = 12;  // in registers
      defines.set("TOGETHER", window <= kSums ? window : p_.w_space[2] <= kSums ? p_.w_space[2] : 1);
      const int64_t results = int64_t{p_.k} * p_.group_c() * p_.taps();
      parts_ = conv_parts_for(p_.n, 1, packs() * p_.w_space[0], context.device(), results,
                              static_cast<int64_t>(options.workspace_limit / sizeof(double) / 2));
      sums_.emplace(context, p_, parts_.count, workspace_);
      defines.set("PARTS", parts_.count > 1);
    }
    place_blocks();
    kernel_ = context.state().programs.kernel(
        "conv_depthwise_cpu", filter(p_) ? "conv_depthwise_filter" : "conv_depthwise", defines);
  }

  size_t workspace_size() const override { return workspace_.size(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    Launch launch(stream, kernel_);
    if (filter(p_)) {
      launch.arg(t.x).arg(t.y).arg(t.w).arg(sums_->partial(workspace)).arg(geometry_).arg(told_);
      launch.run({static_cast<size_t>(packs()), static_cast<size_t>(p_.w_space[0]),
                  static_cast<size_t>(parts_.count)},
                 {1, 1, 1});
      sums_->add_up(stream, workspace, t.w);
      return;
    }
    const bool data = backward_data(p_);
    launch.arg(data ? t.y : t.x).arg(t.w).arg(data ? t.x : t.y).arg(geometry_).arg(told_);
    bind_epilogue(launch, p_.dtype, t.with);
    launch.run({static_cast<size_t>(told_.count), static_cast<size_t>(ceil_div(planes(), told_.chunk))},
               {1, 1});
  }

 private:
  /// Planes of the target in an image, or of dw; where lanes run along the channels, by as many as those are.
  int64_t packs() const { return ceil_div(geometry_.channels, channels_last(p_) ? lanes_ : 1); }
  int64_t planes() const { return p_.n * packs() * geometry_.target.d; }

  void place_blocks() {
    geometry_.t_first_h = blocks_.first[1], geometry_.t_first_w = blocks_.first[2];
    geometry_.s_first_h = blocks_.first_seen[1], geometry_.s_first_w = blocks_.first_seen[2];
    const int64_t work = blocks_.h * blocks_.w * blocks_.sums * (channels_last(p_) ? lanes_ : 1);
    const int64_t chunk = std::clamp<int64_t>(kWork / work, 1, std::max<int64_t>(planes(), 1));
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    DepthwiseBlocks& b = told_;
    b.count = number(blocks_.count()), b.across = number(std::max<int64_t>(1, blocks_.across()));
    b.h = number(blocks_.h), b.w = number(blocks_.w);
    b.lines = number(blocks_.h + blocks_.ahead[1]), b.pitch = number(blocks_.w + blocks_.ahead[2]);
    b.images = p_.n, b.chunk = filter(p_) ? parts_.steps : number(chunk);
    b.s_extent = number(p_.x_extent), b.t_extent = number(p_.y_extent);
    if (backward_data(p_)) std::swap(b.s_extent, b.t_extent);
  }

  const ConvProblem p_;
  const int lanes_;
  const Blocks blocks_;
  DepthwiseGeometry geometry_;
  DepthwiseBlocks told_{};  ///< blocks_ as the kernel has them
  ConvParts parts_;
  WorkspaceParts workspace_;
  std::optional<ConvPartSums> sums_;  ///< backward filter
  Kernel kernel_;
};

std::string refuse(const Context& context, const ConvProblem& p, const EngineOptions&) {
  std::string reason = refuse_large(p);
  if (reason.empty()) reason = refuse_wide_groups(p, kMostChannels);
  if (!reason.empty()) return reason;
  if (backward_data(p) && std::max(p.stride[1], p.stride[2]) > kMostStride)
    return cat("strides of ", p.stride[1], " and ", p.stride[2], " exceed ", kMostStride,
               " in backward data");
  const int64_t window = int64_t{p.w_space[1]} * p.w_space[2];
  if (window > kMostTaps) return cat(window, " taps exceed ", kMostTaps);
  const int64_t room = room_for(p, context.device()), needed = blocks_for(p, room).room(1, 1);
  if (needed > room) return cat("one result sees up to ", needed, " elements, there is room for ", room);
  return {};
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const EngineOptions& options) {
  return std::make_unique<DepthwiseCpu>(context, problem, options);
}

}  // namespace

const ConvEngine kConvDepthwiseCpu = {"depthwise_cpu", refuse, make, avoid_unless_cpu};

}  // namespace dlprim::detail
