// What the winograd engine takes on devices with nv_wgmma: GEMM's prediction of the products, and bytes of
// the transforms.
#include <algorithm>

#include "ops/conv/conv_winograd.hpp"
#include "ops/gemm/gemm_impl.hpp"

namespace dlprim::detail {
namespace {

/// On an H200: microseconds that a transform takes to begin, and bytes that it reads and writes in one.
constexpr double kTransform = 5, kTransformBytes = 3e6;
/// What backward filter's product takes beyond its prediction, as both operands have K along rows: a step of
/// 32 of K for a tile of 128 x 128, and an element that is split, in microseconds.
constexpr double kTurnedStep = 0.127, kTurnedElement = 1.4e-6;
/// Winograd's prediction has to be so much less than those of other engines.
constexpr double kMargin = 1.05;

double beyond_prediction(const Device& device, const GemmProblem& gemm) {
  const int64_t tiles = gemm.batch * ceil_div(gemm.m, int64_t{128}) * ceil_div(gemm.n, int64_t{128});
  const auto turns = static_cast<double>(ceil_div(tiles, int64_t{std::max(1, device.facts().compute_units)}));
  return kTurnedStep * turns * gemm.k / 32 + kTurnedElement * gemm.batch * gemm.n * gemm.k;
}

}  // namespace

double winograd_time(const Context& context, const ConvProblem& p, const WinogradChoice& choice,
                     const Options& options) {
  const bool filter = p.direction == ConvDirection::backward_filter;
  const GemmProblem gemm = gemm_problem(winograd_product(p, choice, choice.chunk));
  double product = predicted_gemm_time(context, gemm, winograd_gemm_options(options, choice));
  if (product == 0) return 0;
  if (filter) product += beyond_prediction(context.device(), gemm);
  const int64_t rows = int64_t{p.n} * choice.tiles[0], chunks = ceil_div(rows, choice.chunk);
  const auto of = [&](const WinogradImages& x, int64_t tiles) {
    return static_cast<double>(winograd_layout(choice, x, tiles, true).bytes());
  };
  const WinogradImages w = winograd_filter(p, choice);
  const int64_t tiles = rows * choice.tiles[1];
  double bytes =
      conv_pixel_bytes(p) + of(winograd_source(p, choice), tiles) + of(winograd_target(p, choice), tiles);
  if (filter || !p.constant_w) bytes += static_cast<double>(choice.parts) * of(w, w.rows());
  return kMargin *
         (static_cast<double>(chunks) * (product + 2 * kTransform) + kTransform + bytes / kTransformBytes);
}

}  // namespace dlprim::detail
