// What the winograd engine takes on devices with nv_wgmma: GEMM's prediction of the products, and bytes of
// the transforms.
#include "ops/conv/conv_winograd.hpp"
#include "ops/gemm/gemm_impl.hpp"

namespace dlprim::detail {
namespace {

/// On an H200: microseconds that a transform takes to begin, and bytes that it reads and writes in one.
constexpr double kTransform = 5, kTransformBytes = 3e6;
/// Winograd's prediction has to be so much less than those of other engines.
constexpr double kMargin = 1.05;

}  // namespace

double winograd_time(const Context& context, const ConvProblem& p, const WinogradChoice& choice,
                     const Options& options) {
  const bool filter = p.direction == ConvDirection::backward_filter;
  const double product = predicted_gemm_time(context, gemm_problem(winograd_product(p, choice, choice.chunk)),
                                             winograd_gemm_options(options, choice));
  if (product == 0) return 0;
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
