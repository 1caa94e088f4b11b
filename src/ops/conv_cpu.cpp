// The cpu engine: implicit GEMM by work-groups of one work-item (conv_cpu.cl, conv_cpu_filter.cl over
// gemm_cpu.cl).
#include <algorithm>

#include "core/launch.hpp"
#include "core/state.hpp"
#include "ops/conv_parts.hpp"
#include "ops/epilogue.hpp"
#include "ops/gemm_cpu_tiles.hpp"

namespace dlprim::detail {

extern const ConvEngine kConvCpu;

namespace {

/// A position in the packed workspace where the next array may start: a multiple of a cache line.
int64_t lines(int64_t floats) {
  return round_up(floats, 16);
}

Tensor floats_at(const Tensor& workspace, int64_t begin, int64_t count) {
  if (!workspace.defined()) return {};
  return workspace.reinterpret(DType::f32).slice(0, begin, begin + count);
}

/// GEMM's tiles with at most 8 rows: filters come in multiples of 8, and 8 rows of 32 columns are as fast as
/// 12 (64 filters: 186 against 165 GFLOP/s, 256: 223 against 220; 2 cores with 16 floats a vector).
GemmCpuTiles tiles_for(const Device& device, const ConvGemm& g) {
  GemmCpuTiles tiles = gemm_cpu_tiles_for(device, g.m, g.n);
  tiles.mr = std::min(tiles.mr, 8);
  tiles.mc = tiles.mc / tiles.mr * tiles.mr;
  tiles.nc = std::min(tiles.nc, 256);  // the pieces of a line of B are listed in private memory
  return tiles;
}

/// Of N, C, H, W.
template <class List>
void bind_strides(Launch& launch, const List& strides) {
  launch.arg(strides[0]).arg(strides[1]).arg(strides[3]).arg(strides[4]);
}

class CpuBase : public ConvImpl {
 public:
  CpuBase(const Context& context, const ConvProblem& problem, const ConvGemm& g)
      : p_(problem),
        m_(static_cast<int>(g.m)),
        n_(static_cast<int>(g.n)),
        k_(static_cast<int>(g.k)),
        tiles_(tiles_for(context.device(), g)) {}

 protected:
  int64_t packed_floats() const { return p_.groups * round_up(m_, tiles_.mr) * k_; }
  size_t panels() const { return static_cast<size_t>(ceil_div(m_, tiles_.mr)); }

  void build(const Context& context, const char* file, Defines defines) {
    tiles_.define(defines);
    pack_ = context.state().programs.kernel(file, "gemm_pack_a", defines);
    multiply_ = context.state().programs.kernel(file, "gemm_cpu", defines);
  }

  const ConvProblem p_;
  const int m_, n_, k_;
  GemmCpuTiles tiles_;
  GemmCpuShare share_{};
  Kernel pack_, multiply_;
};

/// Forward and backward data.
class CpuRows : public CpuBase {
 public:
  CpuRows(const Context& context, const ConvProblem& problem)
      : CpuBase(context, problem, conv_gemm(problem)),
        backward_(p_.direction == ConvDirection::backward_data) {
    share_ = gemm_cpu_share_for(tiles_, context.device(), m_, n_, p_.groups);
    Defines defines;
    defines.set("BACKWARD_DATA", backward_);
    if (!backward_) defines.set("ACTIVATION", name_of(p_.activation)).set("BIAS", p_.bias ? 2 : 0);
    build(context, "conv_cpu", defines);
  }

  size_t workspace_size() const override { return static_cast<size_t>(packed_floats()) * sizeof(float); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const Tensor packed = floats_at(workspace, 0, packed_floats());
    const auto groups = static_cast<size_t>(p_.groups);
    if (k_ > 0)
      Launch(stream, pack_)
          .arg(m_)
          .arg(k_)
          .arg(packed)
          .arg(t.w)
          .arg(p_.taps())
          .run({panels(), static_cast<size_t>(ceil_div(k_, tiles_.kc)), groups}, {1, 1, 1});
    Launch launch(stream, multiply_);
    launch.arg(m_).arg(n_).arg(k_).arg(share_.columns).arg(share_.rows).arg(packed);
    launch.arg(backward_ ? t.y : t.x).arg(static_cast<int>(backward_ ? p_.y_extent : p_.x_extent));
    bind_strides(launch, narrow(backward_ ? p_.y : p_.x));
    launch.arg(backward_ ? p_.group_k() : p_.group_c());
    const Spatial &x = p_.x_space, &y = p_.y_space;
    for (const Spatial& pair :
         {backward_ ? y : x, backward_ ? x : y, p_.w_space, p_.stride, p_.pad, p_.dilation})
      launch.arg(pair[1]).arg(pair[2]);
    launch.arg(backward_ ? t.x : t.y);
    bind_strides(launch, backward_ ? p_.x : p_.y);
    bind_epilogue(launch, 1, 0, t.with);
    launch.run({static_cast<size_t>(ceil_div(n_, share_.columns)),
                static_cast<size_t>(ceil_div(m_, share_.rows)), groups},
               {1, 1, 1});
  }

 private:
  bool backward_;
};

class CpuFilter : public CpuBase {
 public:
  CpuFilter(const Context& context, const ConvProblem& problem, const Options& options)
      : CpuBase(context, problem, conv_gemm(problem)) {
    // A work-group takes all rows, so that what it gathers is gathered once.
    const int64_t strips = std::max<int64_t>(1, ceil_div(n_, tiles_.nr()));
    const int64_t blocks = ceil_div(strips * tiles_.nr(), tiles_.nc);
    share_.rows = static_cast<int>(round_up(std::max(1, m_), tiles_.mr));
    share_.columns = static_cast<int>(ceil_div(strips, blocks) * tiles_.nr());
    packed_at_ = workspace_.add(static_cast<size_t>(packed_floats()) * sizeof(float));
    const int64_t room = static_cast<int64_t>(workspace_.rest(options).workspace_limit / sizeof(float) / 2);
    parts_ = conv_parts_for(k_, tiles_.kc, blocks * p_.groups, context.device(), int64_t{p_.groups} * m_ * n_,
                            room);
    sums_.emplace(context, p_, parts_.count, ConvPartSums::Order::row_major, workspace_);
    build(context, "conv_cpu_filter", {});
  }

  size_t workspace_size() const override { return workspace_.size(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const Tensor packed = workspace_part(workspace, packed_at_, {packed_floats()});
    const auto batch = static_cast<size_t>(p_.groups * parts_.count);
    if (k_ > 0) {
      Launch launch(stream, pack_);
      launch.arg(m_).arg(k_).arg(packed).arg(parts_.steps).arg(t.y);
      bind_strides(launch, p_.y);
      launch.arg(p_.y_space[1]).arg(p_.y_space[2]);
      launch.run({panels(), static_cast<size_t>(ceil_div(parts_.steps, tiles_.kc)), batch}, {1, 1, 1});
    }
    Launch launch(stream, multiply_);
    launch.arg(m_)
        .arg(n_)
        .arg(k_)
        .arg(share_.columns)
        .arg(share_.rows)
        .arg(packed)
        .arg(parts_.steps)
        .arg(t.x)
        .arg(static_cast<int>(p_.x_extent));
    bind_strides(launch, narrow(p_.x));
    launch.arg(p_.group_c());
    for (const Spatial& pair : {p_.x_space, p_.y_space, p_.w_space, p_.stride, p_.pad, p_.dilation})
      launch.arg(pair[1]).arg(pair[2]);
    launch.arg(parts_.count > 1 ? sums_->partial(workspace) : t.w);
    bind_epilogue(launch, 1, 0, {});
    launch.run({static_cast<size_t>(ceil_div(n_, share_.columns)),
                static_cast<size_t>(ceil_div(m_, share_.rows)), batch},
               {1, 1, 1});
    sums_->add_up(stream, workspace, t.w);
  }

 private:
  ConvParts parts_;
  WorkspaceParts workspace_;
  size_t packed_at_ = 0;
  std::optional<ConvPartSums> sums_;
};

std::string refuse(const Context& context, const ConvProblem& p, const Options& options) {
  std::string reason = refuse_gemm_cpu(context.device(), EngineRequest(options).names(kConvCpu.name));
  if (reason.empty()) reason = refuse_large(p);
  if (reason.empty()) reason = refuse_general(p);
  // Gathering whole rows still pays where it is all there is to do (2 x naive); gathering a filter's does not
  // (0.3 x).
  if (reason.empty() && p.direction == ConvDirection::backward_filter) reason = refuse_depthwise(p);
  if (!reason.empty()) return reason;
  const ConvGemm g = conv_gemm(p);
  const GemmCpuTiles tiles = tiles_for(context.device(), g);
  const auto least = static_cast<uint64_t>(lines(p.groups * round_up(g.m, tiles.mr) * g.k)) * sizeof(float);
  if (least > options.workspace_limit)
    return cat("needs ", least, " bytes of workspace, the limit is ", options.workspace_limit);
  return {};
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const Options& options) {
  if (problem.direction == ConvDirection::backward_filter)
    return std::make_unique<CpuFilter>(context, problem, options);
  return std::make_unique<CpuRows>(context, problem);
}

}  // namespace

const ConvEngine kConvCpu = {"cpu", refuse, make};

}  // namespace dlprim::detail
