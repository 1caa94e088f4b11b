// Convolution engine `nv_patch`: few channels, as a network's first layer has them, forward, by a warp's
// matrix instructions that read x as patches in local memory. f16 and bf16, and f32 where math allows tf32.
#include "ops/conv/conv_nv_patch.hpp"

#include <algorithm>

#include "core/state.hpp"
#include "ops/lib/epilogue.hpp"

namespace dlprim::detail {

extern const ConvEngine kConvNvPatch;

namespace {

constexpr int kMostChannels = 4;      ///< with more, others' copies of 16 bytes are full
constexpr int kMostTerms16 = 256;     ///< of a sum in 16 bits: with more, nv_wgmma is faster
constexpr int kAtOnce = 16;           ///< BATCH of the kernel
constexpr int kStepWords = 8;         ///< of k
constexpr uint64_t kReserved = 1024;  ///< of local memory, for each group

int per_word(const ConvProblem& p) {
  return static_cast<int>(4 / size_of(p.dtype));
}

/// Words of w's taps, in whole steps.
int words_of(const ConvProblem& p) {
  const int64_t words = int64_t{p.c} * p.w_space[1] * ceil_div(p.w_space[2], per_word(p));
  return static_cast<int>(round_up(words, kStepWords));
}

/// How far a tile of `count` pixels reaches along an axis of x.
int64_t reach(const ConvProblem& p, size_t axis, int64_t count) {
  return (count - 1) * p.stride[axis] + int64_t{p.w_space[axis] - 1} * p.dilation[axis] + 1;
}

int64_t patch_words(const ConvProblem& p, int rows, int columns) {
  return p.c * reach(p, 1, rows) * reach(p, 2, int64_t{16} * columns);
}

struct Tile {
  int rows, columns;
};
constexpr Tile kTiles[] = {{16, 1}, {8, 1},  {12, 1}, {14, 1}, {20, 1}, {24, 1}, {28, 1}, {32, 1},
                           {8, 2},  {14, 2}, {16, 2}, {4, 4},  {2, 8},  {1, 8},  {1, 16}, {1, 32}};
constexpr double kClearly = 0.97;  ///< a tile behind another takes at most so much of its time

}  // namespace

ConvNvPatchKernel::ConvNvPatchKernel(const ConvProblem& p, const EngineOptions& options,
                                     const ConvNvPatchDevice& device) {
  // Fragments of A serve all filters of a group, and those beyond the last one are for nothing.
  filters = round_up(p.k, 32) * 5 < round_up(p.k, 64) * 4 ? 32 : 64;
  double best = 0;
  Tile tile{};
  for (const Tile& each : kTiles) {
    rows = each.rows, columns = each.columns;
    const double cycles = predict(p, device);
    if (cycles > 0 && (best == 0 || cycles < kClearly * best)) best = cycles, tile = each;
  }
  rows = tile.rows, columns = tile.columns;
  options.request.take(kConvNvPatch.name,
                       {{"rows", &rows}, {"columns", &columns}, {"tn", &filters}, {"emulate", &emulate}});
}

int ConvNvPatchKernel::items_of_unit(const ConvProblem& p) const {
  if (size_of(p.result_dtype) == 2) return 256;
  return filters == 32 ? 768 : 512;
}

int ConvNvPatchKernel::groups_of_unit(const ConvProblem& p, const ConvNvPatchDevice& device) const {
  const uint64_t by_memory = (device.local_room + kReserved) / (local_bytes(p) + kReserved);
  return static_cast<int>(std::min<uint64_t>(by_memory, static_cast<uint64_t>(items_of_unit(p) / items())));
}

double ConvNvPatchKernel::predict(const ConvProblem& p, const ConvNvPatchDevice& device) const {
  const int groups = groups_of_unit(p, device);
  if (groups == 0) return 0;
  const int64_t tiles = shape(p).tiles * ceil_div(p.k, filters);
  const int64_t words = patch_words(p, rows, columns), loads = ceil_div(words, items());
  const double steps = words_of(p) / kStepWords, warps = items() / 32;
  const double bytes = 16.0 * rows * columns * filters * static_cast<double>(size_of(p.result_dtype));
  // What keeps a unit from its other groups' work, and what does not.
  const double busy =
      0.87 * warps * steps * (10 + filters / 4) + bytes / 37 + static_cast<double>(words) / 2.2;
  const double waiting = 2500.0 * static_cast<double>(ceil_div(loads, kAtOnce)) + 230 * steps + 1350;
  return static_cast<double>(ceil_div(tiles, int64_t{device.units} * groups)) * (groups * busy + waiting);
}

std::string ConvNvPatchKernel::refuse_tile() const {
  const bool fits = rows > 0 && columns > 0 && rows <= 64 && columns <= 64 && rows * columns % 2 == 0;
  if (!fits)
    return cat("has ", rows, " rows and ", columns, " columns of fragments, not an even number of them");
  if (filters != 32 && filters != 64) return cat("tn is ", filters, ", neither 32 nor 64");
  if (emulate != 0 && emulate != 1) return cat("emulate is ", emulate, ", neither 0 nor 1");
  return {};
}

uint64_t ConvNvPatchKernel::local_bytes(const ConvProblem& p) const {
  const int64_t weights = int64_t{4} * words_of(p) * filters, table = int64_t{8} * words_of(p);
  const int64_t exchange = int64_t{4} * items() * (emulate != 0 ? 10 : 1);
  return static_cast<uint64_t>(weights + table + exchange + 4 * patch_words(p, rows, columns));
}

PatchShape ConvNvPatchKernel::shape(const ConvProblem& p) const {
  PatchShape s{};
  const int64_t tiles_h = ceil_div(p.y_space[1], rows), tiles_w = ceil_div(p.y_space[2], 16 * columns);
  s.tiles_h = divisor_of(static_cast<int>(tiles_h)), s.tiles_w = divisor_of(static_cast<int>(tiles_w));
  s.tiles = static_cast<int>(p.n * tiles_h * tiles_w), s.filters = p.k;
  s.x_h = p.x_space[1], s.x_w = p.x_space[2], s.y_h = p.y_space[1], s.y_w = p.y_space[2];
  s.pad_h = p.pad[1], s.pad_w = p.pad[2];
  s.x = long_strides_of(p.x);
  return s;
}

Defines ConvNvPatchKernel::defines(const ConvProblem& p, bool limited) const {
  const bool last = p.y[1] <= 1;
  Defines defines = conv_defines(p, last ? ConvChannels::columns : ConvChannels::rows);
  defines.set("FRAG_TYPE", p.dtype == DType::f16    ? "FRAG_F16"
                           : p.dtype == DType::bf16 ? "FRAG_BF16"
                                                    : "FRAG_TF32");
  defines.set("EMULATE", emulate != 0).set("LIMIT_REGISTERS", limited && items_of_unit(p) == 512);
  defines.set("ROWS", rows).set("COLUMNS", columns).set("TILE_N", filters);
  defines.set("CHANNELS", p.c).set("TAPS_H", p.w_space[1]).set("TAPS_W", p.w_space[2]);
  defines.set("STRIDE_H", p.stride[1]).set("STRIDE_W", p.stride[2]);
  defines.set("DILATION_H", p.dilation[1]).set("DILATION_W", p.dilation[2]);
  defines.set("X_CHANNELS_LAST", p.x[1] == 1);
  const int64_t vector = last ? conv_result_vector(p, p.k, p.y, p.y_aligned) : 1;
  defines.set("C_BYTES", static_cast<int>(size_of(p.result_dtype))).set("C_TRANSPOSED", !last);
  return defines.set("C_PAIRS", vector >= 2).set("C_WIDE", vector >= 8);
}

namespace {

ConvNvPatchDevice device_of(const Context& context) {
  const Device& device = context.device();
  return {std::max(1, device.facts().compute_units),
          std::max(device.facts().local_memory, device.probes().static_local_memory)};
}

class NvPatch : public ConvImpl {
 public:
  NvPatch(const Context& context, const ConvProblem& problem, const EngineOptions& options)
      : p_(problem), choice_(p_, options, device_of(context)), shape_(choice_.shape(p_)) {
    // As many groups as run at a time: each lays down w once.
    const ConvNvPatchDevice device = device_of(context);
    const int64_t at_a_time = int64_t{device.units} * std::max(1, choice_.groups_of_unit(p_, device));
    groups_ = std::min<int64_t>(shape_.tiles, at_a_time);
    const bool limited = context.device().probes().matrix == MatrixEngine::nv_wgmma;
    kernel_ = context.state().programs.kernel("conv_nv_patch", "conv_nv_patch", choice_.defines(p_, limited));
  }

  size_t workspace_size() const override { return 0; }

  void run(const Stream& stream, const ConvTensors& t, const Tensor&) const override {
    Launch launch(stream, kernel_);
    launch.arg(shape_).arg(t.x).arg(t.w).arg(long_strides_of(p_.w));
    launch.arg(t.y).arg(long_strides_of(p_.y));
    bind_epilogue(launch, p_.dtype, t.with);
    const auto items = static_cast<size_t>(choice_.items());
    launch.run({static_cast<size_t>(groups_) * items, static_cast<size_t>(ceil_div(p_.k, choice_.filters))},
               {items, 1});
  }

 private:
  const ConvProblem p_;
  const ConvNvPatchKernel choice_;
  const PatchShape shape_;
  int64_t groups_ = 0;
  Kernel kernel_;
};

std::string refuse_problem(const ConvProblem& p, const EngineOptions& options) {
  if (p.direction != ConvDirection::forward) return "is for forward";
  if (p.dtype == DType::f64) return "is for f32, f16 and bf16, the operands are f64";
  if (p.dtype == DType::f32 && options.math != MathMode::tf32) return "is for f32 by math tf32";
  if (p.groups != 1 || p.c > kMostChannels)
    return cat("is for one group of up to ", kMostChannels, " channels, there are ", p.groups, " groups and ",
               p.c, " channels");
  if (p.has_depth()) return "is for one or two dimensions";
  if (p.taps() == 1) return "is for windows, which have more than one tap";
  if (p.n == 0 || p.c == 0 || p.k == 0 || p.y_pixels() == 0) return "has an empty side";
  return refuse_large(p);
}

std::string refuse(const Context& context, const ConvProblem& p, const EngineOptions& options) {
  const MatrixEngine matrix = context.device().probes().matrix;
  const std::string reason = refuse_problem(p, options);
  if (!reason.empty()) return reason;
  const ConvNvPatchDevice device = device_of(context);
  const ConvNvPatchKernel choice(p, options, device);
  if (matrix != MatrixEngine::nv_mma && matrix != MatrixEngine::nv_wgmma && choice.emulate == 0)
    return cat("needs the matrix engine nv_mma, the device has ", name_of(matrix));
  if (choice.rows == 0) return "has no tile that the device's local memory holds";
  const std::string wrong = choice.refuse_tile();
  if (!wrong.empty()) return wrong;
  const uint64_t bytes = choice.local_bytes(p);
  if (bytes > device.local_room)
    return cat("needs ", bytes, " bytes of local memory, the device has ", device.local_room);
  if (choice.items() > context.device().facts().max_work_group)
    return cat("needs work-groups of ", choice.items(), ", the device has ",
               context.device().facts().max_work_group);
  return {};
}

std::string avoid(const Context& context, const ConvProblem& p, const EngineOptions&) {
  const int terms = p.c * p.taps();
  if (context.device().probes().matrix != MatrixEngine::nv_wgmma || size_of(p.dtype) != 2 ||
      terms <= kMostTerms16)
    return {};
  return cat("has sums of ", terms, " products in 16 bits, pays up to ", kMostTerms16);
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const EngineOptions& options) {
  return std::make_unique<NvPatch>(context, problem, options);
}

/// The engine's own choice, and every tile.
std::vector<std::string> candidates(const Context& context, const ConvProblem& p,
                                    const EngineOptions& options) {
  std::vector<std::string> result = {kConvNvPatch.name};
  const ConvNvPatchDevice device = device_of(context);
  ConvNvPatchKernel own(p, options, device), other = own;
  for (const Tile& tile : kTiles) {
    other.rows = tile.rows, other.columns = tile.columns;
    const bool same = tile.rows == own.rows && tile.columns == own.columns;
    if (!same && other.groups_of_unit(p, device) > 0)
      result.push_back(cat(kConvNvPatch.name, ":rows=", tile.rows, ",columns=", tile.columns));
  }
  other = own;
  other.filters = own.filters == 32 ? 64 : 32;
  if (other.groups_of_unit(p, device) > 0) result.push_back(cat(kConvNvPatch.name, ":tn=", other.filters));
  return result;
}

}  // namespace

const ConvEngine kConvNvPatch = {"nv_patch", refuse, make, avoid, nullptr, candidates};

}  // namespace dlprim::detail
