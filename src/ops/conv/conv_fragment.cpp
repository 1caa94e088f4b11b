// Convolution engines on matrix instructions behind one fragment interface (gemm_fragment.cpp): `amd_wmma`,
// `amd_mfma`, `intel_dpas`, and `nv_fragment`, by name only. Implicit GEMM in three directions, any strides.
#include "ops/conv/conv_fragment.hpp"

#include <algorithm>
#include <optional>

#include "core/state.hpp"
#include "ops/conv/conv_parts.hpp"

namespace dlprim::detail {

extern const ConvEngine kConvNvFragment, kConvAmdWmma, kConvAmdMfma, kConvIntelDpas;

namespace {

constexpr int kLikelyParts = 64;  // a tile's waste at the edges counts, the number of tiles does not
constexpr int kLeastSteps = 256;  // in a part: what it adds up should outweigh what it stores

GemmProblem product_of(const ConvProblem& p, const ConvGather& gather, bool source_rows) {
  const int vector = 16 / static_cast<int>(size_of(p.dtype));
  const bool data = p.direction == ConvDirection::backward_data;
  const GemmOperand source = gather.source_loads(vector, data ? p.y_aligned : p.x_aligned),
                    other = gather.other_loads(vector, gather.filter() ? p.y_aligned : p.w_aligned);
  const auto rows = static_cast<int>(gather.source_rows());
  GemmProblem g;
  g.dtype = p.dtype;
  g.m = source_rows ? rows : gather.target_channels;
  g.n = source_rows ? gather.target_channels : rows;
  g.k = static_cast<int>(gather.steps());
  g.batch = p.groups * (gather.filter() ? kLikelyParts : gather.phases());
  g.a = source_rows ? source : other;
  g.b = source_rows ? other : source;
  return g;
}

}  // namespace

ConvFragmentKernel::ConvFragmentKernel(const MatrixFragment& fragment, const ConvProblem& p,
                                       const EngineOptions& options, int lanes, int units)
    : gather(p),
      // Neighbouring lanes store neighbouring columns.
      source_rows(!gather.filter() && gather.target.strides[1] == 1),
      product(product_of(p, gather, source_rows)),
      kernel(fragment, product, options, lanes, units, true) {}

Defines ConvFragmentKernel::defines(const ConvProblem& p, bool parts) const {
  Defines defines = conv_defines(p, source_rows ? ConvChannels::columns : ConvChannels::rows);
  kernel.define(defines, product);
  gather.define(defines);
  return defines.set("SOURCE_ROWS", source_rows).set("PARTS", parts);
}

int64_t ConvFragmentKernel::source_tiles() const {
  return ceil_div(gather.source_rows(), source_rows ? kernel.tile.tm : kernel.tile.tn);
}

int64_t ConvFragmentKernel::other_tiles() const {
  return ceil_div(gather.target_channels, source_rows ? kernel.tile.tn : kernel.tile.tm);
}

namespace {

ConvFragmentKernel kernel_for(const MatrixFragment& fragment, const Context& context, const ConvProblem& p,
                              const EngineOptions& options) {
  const Device& device = context.device();
  const bool there = device.probes().matrix == fragment.matrix;
  return {fragment, p, options, there ? device.probes().matrix_lanes : 0, device.facts().compute_units};
}

class FragmentConv : public ConvImpl {
 public:
  FragmentConv(const MatrixFragment& fragment, const Context& context, const ConvProblem& problem,
               const EngineOptions& options)
      : p_(problem), choice_(kernel_for(fragment, context, p_, options)) {
    choice_.kernel.require_valid();
    const ConvGather& gather = choice_.gather;
    if (gather.filter()) {
      const int64_t tiles = choice_.source_tiles() * choice_.other_tiles() * p_.groups;
      const int64_t results = p_.groups * gather.source_rows() * gather.target_channels;
      parts_ = conv_parts_for(gather.steps(), kLeastSteps, tiles, context.device(), results,
                              static_cast<int64_t>(options.workspace_limit / sizeof(float) / 2));
      sums_.emplace(context, p_, parts_.count, workspace_, ConvPartsForm{gather.channels_last});
    }
    kernel_ = context.state().programs.kernel("conv_fragment", "gemm_fragment",
                                              choice_.defines(p_, parts_.count > 1));
  }

  size_t workspace_size() const override { return workspace_.size(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const bool data = p_.direction == ConvDirection::backward_data;
    Launch launch(stream, kernel_);
    launch.arg(choice_.product.m).arg(choice_.product.n).arg(choice_.product.k);
    if (sums_)
      launch.arg(t.x).arg(t.y).arg(sums_->target(workspace, t.w)).arg(parts_.steps);
    else
      launch.arg(data ? t.y : t.x).arg(t.w).arg(data ? t.x : t.y);
    launch.arg(choice_.gather.shape());
    bind_epilogue(launch, p_.dtype, t.with);
    const auto items = static_cast<size_t>(choice_.kernel.items());
    launch.run({static_cast<size_t>(choice_.source_tiles() * choice_.gather.phases()) * items,
                static_cast<size_t>(choice_.other_tiles()), static_cast<size_t>(p_.groups * parts_.count)},
               {items, 1, 1});
    if (sums_) sums_->add_up(stream, workspace, t.w);
  }

 private:
  const ConvProblem p_;
  const ConvFragmentKernel choice_;
  ConvParts parts_;
  WorkspaceParts workspace_;
  std::optional<ConvPartSums> sums_;  ///< backward filter
  Kernel kernel_;
};

template <const MatrixFragment& fragment>
std::string refuse(const Context& context, const ConvProblem& p, const EngineOptions& options) {
  std::string reason = refuse_large(p);
  if (reason.empty()) reason = refuse_depthwise(p);
  if (!reason.empty()) return reason;
  const ConvFragmentKernel choice = kernel_for(fragment, context, p, options);
  return refuse_fragment(choice.kernel, context, choice.product);
}

template <const MatrixFragment& fragment>
std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const EngineOptions& options) {
  return std::make_unique<FragmentConv>(fragment, context, problem, options);
}

}  // namespace

const ConvEngine kConvNvFragment = {kNvFragment.engine, refuse<kNvFragment>, make<kNvFragment>,
                                    avoid_nv_fragment};
const ConvEngine kConvAmdWmma = {kAmdWmma.engine, refuse<kAmdWmma>, make<kAmdWmma>};
const ConvEngine kConvAmdMfma = {kAmdMfma.engine, refuse<kAmdMfma>, make<kAmdMfma>};
const ConvEngine kConvIntelDpas = {kIntelDpas.engine, refuse<kIntelDpas>, make<kIntelDpas>};

}  // namespace dlprim::detail
