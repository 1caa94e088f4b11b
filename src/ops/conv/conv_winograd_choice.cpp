// Decisions of the winograd engine.
#include "ops/conv/conv_winograd.hpp"

#include <algorithm>

#include "ops/gemm/gemm_impl.hpp"

namespace dlprim::detail {
namespace {

/// Bytes of transformed tiles that CPUs work on at a time, so that the next step finds them in the cache; no
/// fewer than those of the filter, which each chunk reads anew.
constexpr uint64_t kCpuChunkBytes = 8000000;
/// Of the workspace, what `nv_wgmma` takes beside an operand, and ends of planes.
constexpr uint64_t kSplitEnds = 1 << 18;
/// The most that tiles may cost, in what multiply-adds without them cost at full speed.
constexpr double kMostCost = 1.05;

struct Bytes {
  uint64_t filter = 0;           ///< transformed
  uint64_t source = 0, row = 0;  ///< of a row of tiles; of both tensors of pixels
};

Bytes bytes_of(const ConvProblem& p, const WinogradChoice& choice) {
  const WinogradImages from = winograd_source(p, choice), to = winograd_target(p, choice),
                       w = winograd_filter(p, choice);
  const auto of = [&](const WinogradImages& x, int64_t tiles, bool last) {
    return winograd_layout(choice, x, tiles, last).bytes();
  };
  const int tiles = choice.tiles[1];
  const uint64_t source = of(from, tiles, false);
  return {of(w, w.rows(), true), source, source + of(to, tiles, false)};
}

/// Whether transformed pixels are the product's second operand, which engines are likelier to copy.
bool multiplies_by_pixels(const ConvProblem& p, const WinogradChoice& choice) {
  return p.direction == ConvDirection::backward_filter ||
         !winograd_layout(choice, winograd_target(p, choice), 1).channels_last;
}

/// As many rows of tiles as the workspace has room for, with some for GEMM, in chunks of equal length. 0: not
/// even one.
int chunk_for(const ConvProblem& p, const WinogradChoice& choice, const Options& options, int asked) {
  const Bytes bytes = bytes_of(p, choice);
  const bool constant = p.constant_w && p.direction != ConvDirection::backward_filter;
  const uint64_t kept = constant ? 0 : bytes.filter, limit = options.workspace_limit;
  const uint64_t ends = choice.split ? 2 * kSplitEnds : 4096;  // what parts are rounded up by
  if (kept + bytes.row + ends > limit) return 0;
  const uint64_t for_gemm = 2 * kept + ends;
  // GEMM may want copies of what is transformed; `nv_wgmma` only of the second operand, split.
  const uint64_t room = limit > kept + for_gemm ? limit - kept - for_gemm : 0;
  const uint64_t split = multiplies_by_pixels(p, choice) ? 2 * bytes.source : 0;
  const uint64_t row = choice.split ? bytes.row + split : 3 * bytes.row;
  int64_t most = std::max<int64_t>(1, static_cast<int64_t>(room / row));
  if (asked > 0) most = std::min<int64_t>(most, asked);
  if (asked == 0 && choice.cpu)
    most = std::min(
        most,
        static_cast<int64_t>(std::max(kCpuChunkBytes, bytes.filter) / std::max<uint64_t>(1, bytes.row)) + 1);
  const int64_t rows = int64_t{p.n} * choice.tiles[0];
  return static_cast<int>(ceil_div(rows, ceil_div(rows, std::min(most, rows))));
}

/// What the work costs, in multiply-adds that take as long, on a CPU (2 cores with 16 floats a vector, 125
/// 10^9 multiply-adds a second; resnet18's layers at batch 8). Bytes of transformed tensors are written, and
/// read by GEMM, or the other way round; a tensor with its columns side by side is transposed on the way.
struct Costs {
  double source = 8, source_columns = 13.5, target = 5.5, target_columns = 12.5, filter = 8, filter_read = 7;
  double launches = 7.5e6;  ///< of a chunk
  double gemm = 1.1;
};

double cost_of(const ConvProblem& p, const WinogradChoice& choice) {
  const Costs cost;
  const bool filter = p.direction == ConvDirection::backward_filter;
  const WinogradImages from = winograd_source(p, choice), to = winograd_target(p, choice),
                       w = winograd_filter(p, choice);
  const int rows = p.n * choice.tiles[0], tiles = rows * choice.tiles[1];
  const auto bytes = [&](const WinogradImages& x, int64_t count) {
    return static_cast<double>(winograd_layout(choice, x, count, true).bytes());
  };
  const auto of = [&](const WinogradImages& x, bool read) {
    const bool columns = x.strides[1] != 1;
    return bytes(x, tiles) * (read ? (columns ? cost.source_columns : cost.source)
                                   : (columns ? cost.target_columns : cost.target));
  };
  const double chunks = static_cast<double>(ceil_div(rows, choice.chunk)), of_filter = bytes(w, w.rows());
  double result = cost.gemm * choice.form.points() * static_cast<double>(tiles) * p.c * p.k;
  result += of(from, true) + of(to, filter) + cost.launches * chunks;
  return result + of_filter * ((p.constant_w && !filter ? 0 : cost.filter) + cost.filter_read * chunks);
}

}  // namespace

std::string refuse_winograd_problem(const ConvProblem& p) {
  if (p.dtype == DType::f64) return "is for f32, f16 and bf16, the operands are f64";
  if (p.groups != 1) return cat("is for one group, there are ", p.groups);
  if (p.n == 0 || p.c == 0 || p.k == 0)
    return cat("there is nothing to multiply: ", p.n, " images, ", p.c, " channels, ", p.k, " filters");
  return refuse_large(p);
}

WinogradImages winograd_source(const ConvProblem& p, const WinogradChoice& choice) {
  const bool data = p.direction == ConvDirection::backward_data;
  const ConvStrides& strides = data ? p.y : p.x;
  const Spatial& space = data ? p.y_space : p.x_space;
  WinogradImages result{p.n, data ? p.k : p.c, {space[1], space[2]}, choice.tiles};
  for (size_t axis = 0; axis < 2; axis++)
    result.pad[axis] = data ? p.w_space[axis + 1] - 1 - p.pad[axis + 1] : p.pad[axis + 1];
  result.strides = {strides[0], strides[1], strides[3], strides[4]};
  result.extent = data ? p.y_extent : p.x_extent;
  result.aligned = data ? p.y_aligned : p.x_aligned;
  return result;
}

WinogradImages winograd_target(const ConvProblem& p, const WinogradChoice& choice) {
  const bool data = p.direction == ConvDirection::backward_data;
  const ConvStrides& strides = data ? p.x : p.y;
  const Spatial& space = data ? p.x_space : p.y_space;
  WinogradImages result{p.n, data ? p.c : p.k, {space[1], space[2]}, choice.tiles};
  result.strides = {strides[0], strides[1], strides[3], strides[4]};
  result.extent = data ? p.x_extent : p.y_extent;
  result.aligned = data ? p.x_aligned : p.y_aligned;
  return result;
}

WinogradImages winograd_filter(const ConvProblem& p, const WinogradChoice& choice) {
  WinogradImages result;
  result.size = {p.w_space[1], p.w_space[2]};
  result.strides = {p.w[0], p.w[1], p.w[3], p.w[4]};
  result.images = p.k, result.channels = p.c;
  result.extent = p.w_extent;
  result.aligned = p.w_aligned;
  if (p.direction == ConvDirection::backward_filter) return result;
  const bool data = p.direction == ConvDirection::backward_data;
  // GEMM's engines for GPUs want the source's channels contiguous, the one for CPUs the target's.
  if (data != choice.cpu) {
    std::swap(result.images, result.channels);
    std::swap(result.strides[0], result.strides[1]);
  }
  if (data)
    for (size_t axis = 0; axis < 2; axis++) {
      result.first += (result.size[axis] - 1) * result.strides[2 + axis];
      result.strides[2 + axis] *= -1;
    }
  return result;
}

WinogradLayout winograd_layout(const WinogradChoice& choice, const WinogradImages& x, int64_t tiles,
                               bool channels_last) {
  const bool last = channels_last || choice.cpu || x.strides[1] == 1 || x.channels == 1;
  // 64 bytes, a vector of the kernels for CPUs; 16, which GPUs read at a time, and 128, which they write.
  return {last, choice.form.points(), tiles, x.channels, choice.cpu ? 16 : 4, choice.cpu ? 16 : 32};
}

namespace {

TensorDesc transposed(TensorDesc x) {
  std::swap(x.shape[1], x.shape[2]);
  std::swap(x.strides[1], x.strides[2]);
  return x;
}

/// On GPUs: layers with fewer operations wait for their launches.
constexpr double kLeastFlops = 4e9;
/// The most parts of backward filter's sums.
constexpr int kMostParts = 16;

/// The same in `parts`, which have as many rows each; a refusal if they cannot.
WinogradChoice in_parts(const ConvProblem& p, WinogradChoice choice, int parts) {
  const int64_t rows = int64_t{p.n} * choice.tiles[0];
  if (parts < 1 || rows % parts != 0 || parts > choice.chunk) {
    choice.refusal = cat(parts, " parts are not for ", rows, " rows of tiles, ", choice.chunk, " at a time");
    return choice;
  }
  choice.parts = parts;
  const int64_t lines = rows / parts;  // of tiles, in all parts
  choice.chunk = static_cast<int>(ceil_div(lines, ceil_div(lines, choice.chunk / parts)) * parts);
  return choice;
}

/// With as many parts as are predicted to be fastest.
WinogradChoice predicted(const Context& context, const ConvProblem& p, const Options& options,
                         WinogradChoice choice) {
  choice.time = winograd_time(context, p, choice, options);
  WinogradChoice best = choice;
  if (p.direction != ConvDirection::backward_filter) return best;
  for (int parts = 2; parts <= kMostParts && best.time > 0; parts++) {
    WinogradChoice other = in_parts(p, choice, parts);
    if (!other.refusal.empty() || parts * bytes_of(p, choice).filter > options.workspace_limit / 4) continue;
    other.time = winograd_time(context, p, other, options);
    if (other.time < best.time) best = other;
  }
  return best;
}

/// Parameters of the engine, 0 where nothing is asked.
struct Asked {
  int m = 0, rows = 0, cpu = 0, parts = 0;
};

/// Whether the workspace holds transformed tiles and, beside the one that is multiplied by it, the operand
/// that `nv_wgmma` splits.
bool has_room_for_split(const ConvProblem& p, const WinogradChoice& choice, const Options& options) {
  const bool filter = p.direction == ConvDirection::backward_filter;
  const WinogradImages from = winograd_source(p, choice), to = winograd_target(p, choice),
                       w = winograd_filter(p, choice);
  const int64_t tiles = int64_t{choice.chunk} * choice.tiles[1];
  const auto of = [&](const WinogradImages& x, int64_t count) -> uint64_t {
    return winograd_layout(choice, x, count).bytes();
  };
  const uint64_t weights = static_cast<uint64_t>(choice.parts) * of(w, w.rows()), source = of(from, tiles);
  const uint64_t kept = p.constant_w && !filter ? 0 : weights,
                 split = 2 * (multiplies_by_pixels(p, choice) ? source : kept);
  return kept + source + of(to, tiles) + split + kSplitEnds <= options.workspace_limit;
}

/// The choice for tiles of m results; `split`: with the products of `nv_wgmma`.
WinogradChoice choice_of(const Context& context, const ConvProblem& p, const Options& options,
                         const Asked& asked, int m, bool split) {
  WinogradChoice choice;
  choice.m = m;
  choice.cpu = asked.cpu != 0;
  choice.split = split;
  choice.form = winograd_form(p, m);
  choice.refusal = refuse_winograd_form(p, choice.form);
  if (!choice.refusal.empty()) return choice;
  const bool data = p.direction == ConvDirection::backward_data,
             filter = p.direction == ConvDirection::backward_filter;
  for (size_t axis = 0; axis < 2; axis++) {
    const int pixels = data ? p.x_space[axis + 1] : p.y_space[axis + 1];
    const int step = filter ? choice.form.taps[axis] : choice.form.results[axis];
    choice.tiles[axis] = static_cast<int>(ceil_div(pixels, step));
  }
  if (options.math == MathMode::strict)
    choice.refusal = refuse_winograd_strict(p, choice.form, int64_t{p.n} * choice.tiles[0] * choice.tiles[1]);
  if (!choice.refusal.empty()) return choice;
  choice.chunk = chunk_for(p, choice, options, asked.rows);
  if (choice.chunk == 0) {
    const Bytes bytes = bytes_of(p, choice);
    choice.refusal = cat("needs ", bytes.filter + bytes.row, " bytes of workspace, the limit is ",
                         options.workspace_limit);
    return choice;
  }
  if (filter && asked.parts != 0) choice = in_parts(p, choice, asked.parts);
  return split && asked.parts == 0 ? predicted(context, p, options, choice) : choice;
}

/// The same, with these products where the device has them and there is room.
WinogradChoice choice_of(const Context& context, const ConvProblem& p, const Options& options,
                         const Asked& asked, int m) {
  if (asked.cpu == 0 && context.device().probes().matrix == MatrixEngine::nv_wgmma) {
    const WinogradChoice choice = choice_of(context, p, options, asked, m, true);
    if (choice.refusal.empty() && has_room_for_split(p, choice, options)) return choice;
  }
  return choice_of(context, p, options, asked, m, false);
}

}  // namespace

WinogradChoice winograd_choice(const Context& context, const ConvProblem& p, const EngineOptions& options,
                               const char* name) {
  Asked asked;
  asked.cpu = context.device().kind() == DeviceKind::cpu;
  options.request.take(
      name, {{"m", &asked.m}, {"rows", &asked.rows}, {"cpu", &asked.cpu}, {"parts", &asked.parts}});
  const int m = asked.m;
  WinogradChoice choice;
  choice.refusal = refuse_winograd_problem(p);
  if (choice.refusal.empty() && m != 0 && m != 2 && m != 4)
    choice.refusal = cat("tiles of ", m, ", must be 2 or 4");
  if (!choice.refusal.empty()) return choice;
  if (m != 0) return choice_of(context, p, options, asked, m);
  choice = choice_of(context, p, options, asked, 2);
  WinogradChoice larger = choice_of(context, p, options, asked, 4);
  if (!larger.refusal.empty()) return choice;
  const bool predicted = choice.time > 0 && larger.time > 0;
  const bool better = !choice.refusal.empty() ||
                      (predicted ? larger.time < choice.time : cost_of(p, larger) < cost_of(p, choice));
  return better ? larger : choice;
}

Options winograd_gemm_options(const Options& options, const WinogradChoice& choice) {
  Options result = inner_gemm_options(options);
  if (choice.split) result.engine = "nv_wgmma";
  // Ten bits of transformed numbers would be fewer of the result's.
  if (result.math == MathMode::tf32) result.math = MathMode::standard;
  return result;
}

GemmDesc winograd_product(const ConvProblem& p, const WinogradChoice& choice, int rows) {
  const int64_t tiles = int64_t{rows} / choice.parts * choice.tiles[1],
                most = int64_t{choice.chunk} / choice.parts * choice.tiles[1];
  const auto layout = [&](const WinogradImages& x) {
    return winograd_layout(choice, x, most).in_parts(choice.parts);
  };
  const WinogradImages w = winograd_filter(p, choice);
  const WinogradLayout source = layout(winograd_source(p, choice)),
                       target = layout(winograd_target(p, choice)),
                       filter = winograd_layout(choice, w, w.rows(), true).in_parts(choice.parts);
  if (p.direction == ConvDirection::backward_filter)
    return {transposed(target.desc(tiles)), source.desc(tiles), filter.desc()};
  const TensorDesc u = choice.cpu ? filter.desc() : transposed(filter.desc());
  GemmDesc desc{source.desc(), u, target.desc()};
  desc.constant_b = p.constant_w;
  if (!target.channels_last) {
    desc = {transposed(u), transposed(source.desc()), transposed(target.desc())};
    desc.constant_a = p.constant_w;
  }
  return desc;
}

std::string avoid_winograd(const Context& context, const ConvProblem& p, const WinogradChoice& choice) {
  const DeviceKind kind = context.device().kind();
  const double flops = conv_flops(p);
  if (kind != DeviceKind::cpu) {
    if (choice.time == 0)
      return cat("was measured on CPUs and with nv_wgmma, the device is a ", name_of(kind));
    if (winograd_source(p, choice).strides[1] != 1 || winograd_target(p, choice).strides[1] != 1)
      return "was measured with channels last on GPUs";
    return flops >= kLeastFlops ? std::string()
                                : cat("was measured from ", kLeastFlops, " operations on, these are ", flops);
  }
  const double direct = flops / 2, ratio = cost_of(p, choice) / std::max(1., direct);
  if (ratio <= kMostCost) return {};
  return cat("is expected to take ", ratio, " times as long as multiply-adds, should be at most ", kMostCost);
}

}  // namespace dlprim::detail
