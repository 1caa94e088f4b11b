// The winograd_fused engine: F(2 x 2, 3 x 3) in one kernel for GPUs, forward and backward data. Filters are
// transformed before.
#include <algorithm>
#include <optional>

#include "core/gen/slots.hpp"
#include "core/kernel_source.hpp"
#include "ops/conv/conv_winograd_weights.hpp"
#include "ops/lib/epilogue.hpp"

namespace dlprim::detail {

extern const ConvEngine kConvWinogradFused;

namespace {

constexpr int kItems = 256, kTiles = 32, kPoints = 16;

struct Tile {
  int filters = 64, channels = 8;
  uint64_t local_bytes() const {
    const int operands = channels * (filters + kTiles + 4), sums = 8 * (kTiles + 4);
    return sizeof(float) * kPoints * static_cast<uint64_t>(std::max(operands, sums));
  }
};

/// The largest tile that fits, or the one asked for.
Tile tile_for(const Device& device, const ConvProblem& p, const EngineOptions& options) {
  Tile tile;
  const int filters = p.direction == ConvDirection::backward_data ? p.c : p.k;
  if (filters <= 32) tile.filters = 32;
  while (tile.channels > 2 && tile.local_bytes() > device.facts().local_memory) tile.channels /= 2;
  options.request.take(kConvWinogradFused.name, {{"filters", &tile.filters}, {"channels", &tile.channels}});
  return tile;
}

WinogradChoice choice_for(const ConvProblem& p) {
  WinogradChoice choice;
  choice.form = winograd_form(p, 2);
  const Spatial& space = p.direction == ConvDirection::backward_data ? p.x_space : p.y_space;
  for (size_t axis = 0; axis < 2; axis++) choice.tiles[axis] = static_cast<int>(ceil_div(space[axis + 1], 2));
  return choice;
}

/// The transformed filter: [point][channel][filter].
WinogradImages filter_of(const ConvProblem& p, WinogradChoice choice) {
  choice.cpu = true;  // its order of filters
  return winograd_filter(p, choice);
}

class WinogradFused : public ConvImpl {
 public:
  WinogradFused(const Context& context, const ConvProblem& p, const EngineOptions& options)
      : p_(p),
        choice_(choice_for(p)),
        tile_(tile_for(context.device(), p, options)),
        source_(winograd_source(p, choice_)),
        target_(winograd_target(p, choice_)) {
    weights_.emplace(context, p_, choice_, filter_of(p_, choice_), workspace_);
    Defines defines = conv_defines(p_);
    defines.set("FILTERS", tile_.filters).set("CHANNELS", tile_.channels);
    defines.set("X_CHANNELS_LAST", source_.strides[1] == 1).set("Y_CHANNELS_LAST", target_.strides[1] == 1);
    const WinogradMatrices matrices = winograd_matrices(2, 3);
    kernel_ = context.state().programs.generated(
        "conv_winograd_fused",
        fill_slots(kernel_source("conv_winograd_fused"), {{"SOURCE", winograd_statements(matrices.source)},
                                                          {"TARGET", winograd_statements(matrices.target)}}),
        "conv_winograd_fused", defines);
  }

  size_t workspace_size() const override { return workspace_.size(); }
  void forget_constants() const override { weights_->forget_constants(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const bool data = p_.direction == ConvDirection::backward_data;
    const Tensor u = weights_->prepare(stream, t.w, workspace);
    const int64_t tiles = int64_t{source_.rows()} * choice_.tiles[1];
    Launch launch(stream, kernel_);
    launch.arg(data ? t.y : t.x).arg(image_of(source_)).arg(u);
    launch.arg(data ? t.x : t.y).arg(image_of(target_));
    launch.arg(WinogradProduct{weights_->layout().plane, static_cast<int>(weights_->layout().pitch),
                               source_.channels, target_.channels, static_cast<int>(tiles), choice_.tiles[0],
                               choice_.tiles[1], source_.pad[0], source_.pad[1]});
    bind_epilogue(launch, p_.dtype, t.with);
    launch.run({static_cast<size_t>(ceil_div(tiles, kTiles) * kItems),
                static_cast<size_t>(ceil_div(target_.channels, tile_.filters))},
               {kItems, 1});
  }

 private:
  static WinogradImage image_of(const WinogradImages& images) {
    const auto stride = [&](size_t d) { return static_cast<int>(images.strides[d]); };
    return {images.size[0], images.size[1], stride(0), stride(1), stride(2), stride(3)};
  }

  const ConvProblem p_;
  const WinogradChoice choice_;
  const Tile tile_;
  const WinogradImages source_, target_;
  WorkspaceParts workspace_;
  std::optional<WinogradWeights> weights_;
  Kernel kernel_;
};

std::string refuse(const Context& context, const ConvProblem& p, const EngineOptions& options) {
  const Device& device = context.device();
  if (p.direction == ConvDirection::backward_filter) return "is for forward and backward data";
  std::string reason = refuse_winograd_problem(p);
  const WinogradChoice choice = choice_for(p);
  if (reason.empty()) reason = refuse_winograd_form(p, choice.form);
  if (reason.empty() && (p.w_space[1] != 3 || p.w_space[2] != 3))
    reason = cat("is for 3x3 windows, not ", p.w_space[1], "x", p.w_space[2]);
  if (reason.empty() && options.math == MathMode::strict) reason = refuse_winograd_strict(p, choice.form, 0);
  if (!reason.empty()) return reason;
  const Tile tile = tile_for(device, p, options);
  if ((tile.filters != 32 && tile.filters != 64) ||
      (tile.channels != 2 && tile.channels != 4 && tile.channels != 8))
    return cat("tiles of ", tile.filters, " filters (32 or 64) and ", tile.channels, " channels (2, 4 or 8)");
  if (tile.local_bytes() > device.facts().local_memory)
    return cat("needs ", tile.local_bytes(), " bytes of local memory, the device has ",
               device.facts().local_memory);
  const WinogradImages w = filter_of(p, choice);
  const uint64_t bytes = p.constant_w ? 0 : winograd_layout(choice, w, w.rows(), true).bytes();
  if (bytes > options.workspace_limit)
    return cat("needs ", bytes, " bytes of workspace, the limit is ", options.workspace_limit);
  return {};
}

std::string avoid(const Context& context, const ConvProblem&, const EngineOptions&) {
  return cat("no device is known where it is the fastest; this is a ", name_of(context.device().kind()));
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const EngineOptions& options) {
  return std::make_unique<WinogradFused>(context, problem, options);
}

}  // namespace

const ConvEngine kConvWinogradFused = {"winograd_fused", refuse, make, avoid};

}  // namespace dlprim::detail
