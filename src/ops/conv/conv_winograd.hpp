// What the winograd engine decides before it computes: the form F(m, r), how tensors are seen as tiles, how
// many tiles at a time, and whether that pays.
#pragma once

#include <string>

#include <dlprim/gemm.hpp>

#include "ops/conv/conv_winograd_tiles.hpp"

namespace dlprim::detail {

struct WinogradChoice {
  std::string refusal;  ///< of the engine; the rest then means nothing
  int m = 0;            ///< the form's, see winograd_form()
  WinogradForm form;
  bool cpu = false;    ///< the kernels for CPUs
  bool split = false;  ///< products are those of GEMM's nv_wgmma, as whose times are known
  Plane tiles{1, 1};   ///< of an image
  int chunk = 1;       ///< rows of tiles that are transformed before they are multiplied
  int parts = 1;       ///< backward filter: of a chunk, each with sums of its own
  double time = 0;     ///< predicted, in microseconds; 0: it was not
};

/// Why no form of these engines can serve: dtypes, groups, sizes; empty if one may.
std::string refuse_winograd_problem(const ConvProblem& p);

/// `name`: the engine's. Asked for by name it takes m (2 or 4), rows (the chunk), cpu (0 or 1) and parts.
WinogradChoice winograd_choice(const Context& context, const ConvProblem& p, const EngineOptions& options,
                               const char* name);
/// Why the choice does not pay; empty if it does.
std::string avoid_winograd(const Context& context, const ConvProblem& p, const WinogradChoice& choice);

/// Microseconds of a run with the products of `nv_wgmma`; 0 if that refuses them.
double winograd_time(const Context& context, const ConvProblem& p, const WinogradChoice& choice,
                     const Options& options);

/// The batch of products: one for each point, and in backward filter for each part.
GemmDesc winograd_product(const ConvProblem& p, const WinogradChoice& choice, int rows);
/// How the product is to be planned.
Options winograd_gemm_options(const Options& options, const WinogradChoice& choice);

// The problem's tensors as tiles. The source is what is convolved: x, or dy in backward data. In backward
// filter the source is x, the target dy, and the filter, dw, is written.
WinogradImages winograd_source(const ConvProblem& p, const WinogradChoice& choice);
WinogradImages winograd_target(const ConvProblem& p, const WinogradChoice& choice);
WinogradImages winograd_filter(const ConvProblem& p, const WinogradChoice& choice);

/// `tiles` tiles transformed, one part. Unless `channels_last` channels or tiles are contiguous, as they are
/// nearer to each other in `images`.
WinogradLayout winograd_layout(const WinogradChoice& choice, const WinogradImages& images, int64_t tiles,
                               bool channels_last = false);

}  // namespace dlprim::detail
