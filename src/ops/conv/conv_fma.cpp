// The fma engine: implicit GEMM through local memory (conv_fma.cl over gemm_fma.cl), for GPUs.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/launch.hpp"
#include "core/state.hpp"
#include "ops/conv/conv_axes.hpp"
#include "ops/conv/conv_parts.hpp"
#include "ops/conv/conv_phases.hpp"
#include "ops/gemm/gemm_fma_tiles.hpp"
#include "ops/lib/divisor.hpp"
#include "ops/lib/epilogue.hpp"

namespace dlprim::detail {

#include "kernels/conv/conv_fma.h"

extern const ConvEngine kConvFma;

namespace {

struct Candidate {
  GemmFmaTile tile;
  double rate;  ///< of multiply-adds on a full device, relative to the first one's
};

constexpr Candidate kCandidates[] = {
    {{128, 128, 8, 8, 8}, 1.0},
    {{64, 64, 16, 4, 4}, 0.7},
    {{32, 32, 8, 4, 4}, 0.35},
};

/// What only tuning tries: other ratios of the sides, deeper and shallower steps.
constexpr GemmFmaTile kMoreTiles[] = {{128, 64, 16, 8, 8},  {64, 128, 16, 8, 8},   {64, 64, 8, 4, 8},
                                      {128, 128, 16, 8, 8}, {256, 128, 16, 16, 8}, {32, 64, 16, 4, 4},
                                      {32, 128, 16, 4, 8}};

struct Choice {
  Candidate candidate;
  int parts = 1;    ///< of k, in forward and backward data
  double area = 0;  ///< results that a unit computes, those of slow tiles counted more often
  double time = 0;  ///< of the sums, in microseconds

  Choice(const Device& device, const Candidate& candidate, int64_t m, int64_t n, int64_t batch)
      : candidate(candidate) {
    const GemmFmaTile& t = candidate.tile;
    const int64_t units = std::max(1, device.facts().compute_units),
                  groups = ceil_div(m, t.tm) * ceil_div(n, t.tn) * batch;
    area = static_cast<double>(ceil_div(groups, units)) * t.tm * t.tn / candidate.rate;
  }
};

/// The tile predicted to be fastest for `batch` products of M x N results each.
Choice choice_for(const Device& device, int64_t m, int64_t n, int64_t batch) {
  Choice best(device, kCandidates[0], m, n, batch);
  for (const Candidate& candidate : kCandidates) {
    const Choice choice(device, candidate, m, n, batch);
    if (choice.area < best.area) best = choice;
  }
  return best;
}

// Microseconds, as of an H200.
constexpr double kLaunch = 7, kSecondPass = 8, kSecondPassBytes = 8e6;  // and bytes in one
constexpr double kMultiplyAdd = 8e-6;                                   // of a result that a unit computes
constexpr double kLatency = 0.05;   // of a step of k, however few results there are
constexpr int64_t kLeastPart = 64;  // steps of k

uint64_t bytes_of_real(const ConvProblem& p) {
  return p.dtype == DType::f64 ? sizeof(double) : sizeof(float);
}

/// Of strided backward data: as many as pixels differ in the taps that they meet.
int64_t phases_of(const ConvProblem& p) {
  int64_t phases = 1;
  if (p.direction == ConvDirection::backward_data)
    for (size_t i = 0; i < 3; i++) phases *= ConvAxis(p, i).phases;
  return phases;
}

/// The tile, and the parts of k, predicted to be fastest in forward and backward data.
Choice data_choice(const Device& device, const ConvProblem& p, const Options& options) {
  const ConvGemm g = conv_gemm(p);
  const int64_t phases = phases_of(p), k = ceil_div(g.k, phases), n = ceil_div(g.n, phases),
                batch = phases * p.groups;
  const auto bytes = static_cast<int64_t>(bytes_of_real(p)) * p.groups * g.m * g.n;
  const auto room = static_cast<int64_t>(std::min<size_t>(options.workspace_limit, INT64_MAX));
  // Strided backward data has phases of different lengths; on a CPU a second pass gains nothing.
  const bool whole = phases > 1 || device.kind() == DeviceKind::cpu;
  const int64_t most = whole ? 1 : std::min(ceil_div(k, kLeastPart), room / std::max<int64_t>(1, bytes));
  std::optional<Choice> best;
  for (int parts = 1; parts == 1 || parts <= most; parts *= 2)
    for (const Candidate& candidate : kCandidates) {
      Choice choice(device, candidate, g.m, n, batch * parts);
      choice.parts = parts;
      const auto steps = static_cast<double>(ceil_div(k, parts));
      choice.time = std::max(kMultiplyAdd * choice.area, kLatency) * steps;
      if (parts > 1) choice.time += kSecondPass + 2.0 * parts * static_cast<double>(bytes) / kSecondPassBytes;
      if (!best || choice.time < best->time || (choice.time == best->time && choice.area < best->area))
        best = choice;
    }
  return *best;
}

constexpr int kLikelyParts = 64;  // a tile's waste at the edges counts, the number of tiles does not
constexpr int kLeastSteps = 256;  // in a part: what it adds up should outweigh what it stores

/// Of the backward filter.
ConvParts filter_parts(const Device& device, const ConvProblem& p, const GemmFmaTile& tile,
                       const Options& options) {
  const ConvGemm g = conv_gemm(p);
  const int64_t tiles = ceil_div(g.m, tile.tm) * ceil_div(g.n, tile.tn) * p.groups;
  return conv_parts_for(g.k, kLeastSteps, tiles, device, p.groups * g.m * g.n,
                        static_cast<int64_t>(options.workspace_limit / bytes_of_real(p) / 2));
}

/// What of the problem is compiled in, beside the tile.
struct Form {
  bool depth, strided, channels_last, window;
  bool a_unit_k, b_unit_k;
  int w_runs = 0;
  int64_t tap_stride = 0;  ///< of w

  explicit Form(const ConvProblem& p) {
    const bool filter = p.direction == ConvDirection::backward_filter,
               data = p.direction == ConvDirection::backward_data;
    depth = p.has_depth();
    strided = data && p.stride != Spatial{1, 1, 1};
    // Neighbouring work-items take neighbouring elements: pixels, or channels where those lie side by side.
    channels_last = (data ? p.y : p.x)[1] == 1;
    window = p.taps() > 1 || sees_padding(p);
    b_unit_k = channels_last != filter;
    a_unit_k = filter ? p.y[1] != 1 : p.w[data ? 1 : 0] != 1;
    if (!strided) w_runs = runs_of_w(p);
  }
  void define(Defines& defines) const {
    defines.set("DEPTH", depth).set("STRIDED", strided).set("CHANNELS_LAST", channels_last);
    defines.set("WINDOW", window).set("W_RUNS", w_runs);
    defines.set("A_UNIT_K", a_unit_k).set("B_UNIT_K", b_unit_k);
  }

 private:
  /// W_RUNS, and tap_stride with it.
  int runs_of_w(const ConvProblem& p) {
    int64_t count = 1;  // of taps, along axes that have several
    for (size_t i = 3; i-- > 0;) {
      if (p.w_space[i] == 1) continue;
      if (count == 1) tap_stride = p.w[2 + i];
      if (p.w[2 + i] != tap_stride * count) return 0;
      count *= p.w_space[i];
    }
    if (p.direction != ConvDirection::forward) return 1;
    const int64_t channels = p.group_c(), taps = p.taps();
    const bool plain_taps = taps == 1 || tap_stride == (channels_last ? channels : 1);
    const bool plain_channels = channels <= 1 || p.w[1] == (channels_last ? 1 : taps);
    return plain_taps && plain_channels ? 2 : 1;
  }
};

class Fma : public ConvImpl {
 public:
  Fma(const Context& context, const ConvProblem& problem, const EngineOptions& options)
      : p_(problem), form_(p_) {
    const ConvGemm g = conv_gemm(p_);
    m_ = static_cast<int>(g.m), n_ = static_cast<int>(g.n), k_ = static_cast<int>(g.k);
    largest_ = n_;
    Defines defines = conv_defines(p_);
    defines.set("DIRECTION", static_cast<int>(p_.direction));
    form_.define(defines);
    if (form_.strided) plan_phases();
    const bool filter = p_.direction == ConvDirection::backward_filter;
    const Choice choice = filter ? choice_for(context.device(), m_, n_, int64_t{kLikelyParts} * p_.groups)
                                 : data_choice(context.device(), p_, options);
    tile_ = choice.candidate.tile;
    int parts = filter ? 0 : choice.parts;
    take_request(context.device(), options, parts);
    if (filter && parts == 0)
      parts_ = filter_parts(context.device(), p_, tile_, options);
    else if (!form_.strided)
      take_parts(parts);
    defines.set("PARTS", parts_.count > 1);
    tile_.define(defines);
    ProgramCache& programs = context.state().programs;
    kernel_ = programs.kernel("conv_fma", "gemm_fma", defines);
    if (filter) {
      sums_.emplace(context, p_, parts_.count, workspace_, ConvPartsForm{form_.channels_last});
    } else if (parts_.count > 1) {
      partial_at_ = workspace_.add(static_cast<size_t>(element_count(partial_shape())) * bytes_of_real(p_));
      add_ = programs.kernel("conv_fma", "conv_fma_sums", defines);
    }
  }

  size_t workspace_size() const override { return workspace_.size(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const bool data = p_.direction == ConvDirection::backward_data;
    Launch launch(stream, kernel_);
    launch.arg(m_).arg(form_.strided ? p_.n : n_).arg(k_);
    if (p_.direction == ConvDirection::backward_filter) {
      launch.arg(t.x).arg(t.y).arg(sums_->target(workspace, t.w)).arg(parts_.steps);
    } else {
      launch.arg(t.w).arg(data ? t.y : t.x);
      if (parts_.count > 1)
        launch.arg(partial(workspace)).arg(parts_.steps);
      else
        launch.arg(data ? t.x : t.y);
    }
    if (form_.strided) launch.arg(PhaseAxes{axes_[0].numbers(), axes_[1].numbers(), axes_[2].numbers()});
    launch.arg(shape());
    bind_epilogue(launch, p_.dtype, t.with);
    const auto items = static_cast<size_t>(tile_.items());
    launch.run({static_cast<size_t>(ceil_div(largest_, tile_.tn) * phases_) * items,
                static_cast<size_t>(ceil_div(m_, tile_.tm)), static_cast<size_t>(p_.groups * parts_.count)},
               {items, 1, 1});
    if (sums_)
      sums_->add_up(stream, workspace, t.w);
    else if (parts_.count > 1)
      add_up(stream, data ? t.x : t.y, t.with, partial(workspace));
  }

 private:
  /// A tile, and parts, that were asked for.
  void take_request(const Device& device, const EngineOptions& options, int& parts) {
    if (!options.request.names(kConvFma.name)) return;
    options.request.take(kConvFma.name, {{"tm", &tile_.tm},
                                         {"tn", &tile_.tn},
                                         {"tk", &tile_.tk},
                                         {"rm", &tile_.rm},
                                         {"rn", &tile_.rn},
                                         {"parts", &parts}});
    require_gemm_fma_tile(tile_);
    const std::string refusal = refuse_gemm_fma_tile(device, tile_, bytes_of_real(p_));
    require(refusal.empty(), "engine", "fma ", refusal);
  }
  void take_parts(int count) {
    const int64_t steps = round_up(ceil_div(std::max(1, k_), std::max(1, count)), tile_.tk);
    parts_ = {static_cast<int>(std::max<int64_t>(1, ceil_div(k_, steps))), static_cast<int>(steps)};
  }
  Shape partial_shape() const { return {parts_.count, p_.groups, m_, n_}; }
  Tensor partial(const Tensor& workspace) const {
    return workspace_part(workspace, partial_at_, partial_shape(),
                          p_.dtype == DType::f64 ? DType::f64 : DType::f32);
  }
  void add_up(const Stream& stream, const Tensor& target, const EpilogueTensors& with,
              const Tensor& partial) const {
    Launch launch(stream, add_);
    launch.arg(m_).arg(n_).arg(parts_.count).arg(partial).arg(target);
    launch.arg(shape());
    bind_epilogue(launch, p_.dtype, with);
    launch.run({items_in_groups(n_, 64), static_cast<size_t>(m_), static_cast<size_t>(p_.groups)},
               {64, 1, 1});
  }
  /// Of strided backward data, how conv_fma_shape.cl has it. The first phase has most pixels.
  void plan_phases() {
    largest_ = p_.n;
    for (size_t i = 0; i < 3; i++) {
      axes_[i] = ConvAxis(p_, i);
      phases_ *= axes_[i].phases;
      largest_ *= axes_[i].phase(0).count;
    }
  }

  FmaShape shape() const {
    const bool data = p_.direction == ConvDirection::backward_data;
    const Spatial &pixels = data ? p_.x_space : p_.y_space, &taps = p_.w_space;
    FmaShape s{};
    s.channels = data ? p_.group_k() : p_.group_c();
    s.source = sizes_of(data ? p_.y_space : p_.x_space);
    s.plane = divisor_of(static_cast<int>(data ? p_.x_pixels() : p_.y_pixels()));
    s.slice = divisor_of(pixels[1] * pixels[2]), s.columns = divisor_of(pixels[2]);
    s.inner = divisor_of(form_.channels_last ? s.channels : p_.taps());
    s.window_slice = divisor_of(taps[1] * taps[2]), s.window = divisor_of(taps[2]);
    s.stride = sizes_of(p_.stride), s.pad = sizes_of(p_.pad), s.dilation = sizes_of(p_.dilation);
    s.s = strides_of(data ? p_.y : p_.x), s.t = strides_of(data ? p_.x : p_.y);
    ConvStrides w = p_.w;
    if (form_.w_runs == 1) w[4] = form_.tap_stride;
    s.w = strides_of(w);
    if (data) std::swap(s.w.n, s.w.c);
    return s;
  }

  const ConvProblem p_;
  const Form form_;
  int m_, n_, k_;
  int64_t largest_, phases_ = 1;  ///< columns of the largest phase; all of N if there is one
  std::array<ConvAxis, 3> axes_;  ///< of strided backward data
  GemmFmaTile tile_;
  ConvParts parts_;
  WorkspaceParts workspace_;
  std::optional<ConvPartSums> sums_;  ///< of the backward filter's parts
  size_t partial_at_ = 0;             ///< parts of the other directions
  Kernel kernel_, add_;
};

std::string refuse(const Context& context, const ConvProblem& p, const EngineOptions&) {
  std::string reason;
  for (const Candidate& candidate : kCandidates)
    if (reason.empty()) reason = refuse_gemm_fma_tile(context.device(), candidate.tile, bytes_of_real(p));
  if (reason.empty()) reason = refuse_large(p);
  if (reason.empty()) reason = refuse_depthwise(p);
  return reason;
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const EngineOptions& options) {
  return std::make_unique<Fma>(context, problem, options);
}

/// In f32 without groups, as fitted to the convolutions of ten networks at batch 1, 16 and 64 on an H200
/// (root mean square of the logarithm's error: 0.21 forward, 0.28 and 0.27 backward); for other problems and
/// on CPUs nothing. A launch, what multiply-adds take, or else the latency of a long sum, memory: results
/// with channels last are stored at a fifth of its rate.
double predict(const Context& context, const ConvProblem& p, const EngineOptions& options) {
  const Device& device = context.device();
  if (device.kind() != DeviceKind::gpu || p.dtype != DType::f32 || p.groups != 1) return 0;
  const ConvGemm g = conv_gemm(p);
  const double bytes = conv_pixel_bytes(p);
  if (p.direction == ConvDirection::backward_filter) {
    const Choice choice = choice_for(device, g.m, g.n, kLikelyParts);
    const ConvParts parts = filter_parts(device, p, choice.candidate.tile, options);
    const double area = Choice(device, choice.candidate, g.m, g.n, parts.count).area;
    const double slices = 4.0 * parts.count * static_cast<double>(g.m * g.n);
    return kLaunch + 6e-6 * area * parts.steps + bytes / 2.5e6 + 2 * slices / 3e6;
  }
  const bool backward = p.direction == ConvDirection::backward_data;
  const double time = kLaunch + data_choice(device, p, options).time;
  if ((backward ? p.x : p.y)[1] != 1) return time + bytes / (backward ? 1.5e6 : 4e6);
  const double stored = 4.0 * static_cast<double>(g.m * g.n);
  return time + stored / 0.8e6 + (bytes - stored) / 4e6;
}

/// The engine's own choice, every tile, and parts. On a CPU the engine is the slower
/// one whatever its tile is.
std::vector<std::string> candidates(const Context& context, const ConvProblem& p,
                                    const EngineOptions& options) {
  std::vector<std::string> result = {kConvFma.name};
  const Device& device = context.device();
  if (device.kind() == DeviceKind::cpu) return result;
  const auto add = [&](const GemmFmaTile& t, int parts) {
    if (!refuse_gemm_fma_tile(device, t, bytes_of_real(p)).empty()) return;
    result.push_back(
        cat(kConvFma.name, ":tm=", t.tm, ",tn=", t.tn, ",tk=", t.tk, ",rm=", t.rm, ",rn=", t.rn));
    if (parts > 0) result.back() += cat(",parts=", parts);
  };
  const bool exhaustive = options.tune == TuneMode::exhaustive,
             filter = p.direction == ConvDirection::backward_filter;
  std::vector<int> counts = exhaustive ? std::vector<int>{1, 4, 16, 64, 256} : std::vector<int>{0, 16, 64};
  if (!filter) {
    const int parts = data_choice(device, p, options).parts;
    counts = {parts, 2 * parts};
    if (exhaustive) counts = {1, 2, 4, 8, 16};
    if (phases_of(p) > 1) counts = {1};
  }
  for (int parts : counts) {
    for (const Candidate& candidate : kCandidates) add(candidate.tile, parts);
    if ((filter || parts != counts.front()) && !exhaustive) continue;
    for (const GemmFmaTile& tile : kMoreTiles) add(tile, parts);
  }
  return result;
}

}  // namespace

const ConvEngine kConvFma = {"fma", refuse, make, nullptr, predict, candidates};

}  // namespace dlprim::detail
