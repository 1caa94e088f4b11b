// The passes of the sort, see sort_pairs.cl and sort_pairs_cpu.cl.
#include "ops/sort/sort_pairs.hpp"

#include <algorithm>

#include "core/composed.hpp"

namespace dlprim::detail {
namespace {

constexpr int kDigits = 256;
constexpr int64_t kTile = 2048;        // TILE of sort_pairs.cl
constexpr int64_t kMostBlocks = 1024;  // whose counts are still few beside the elements

}  // namespace

int bits_of(uint64_t largest) {
  int bits = 0;
  while (bits < 64 && largest >> bits) bits++;
  return bits;
}

SortPairs::SortPairs(const Context& context, int64_t count, int bits)
    : SortPairs(context, count, bits, context.device().kind() == DeviceKind::cpu) {}

SortPairs::SortPairs(const Context& context, int64_t count, int bits, bool cpu) : count_(count) {
  require(count < int64_t{1} << 31, "count", count, " pairs are more than 2^31 - 1");
  passes_ = std::max(1, static_cast<int>(ceil_div(bits, 8)));
  ProgramCache& programs = context.state().programs;
  const char* file = cpu ? "sort_pairs_cpu" : "sort_pairs";
  for (bool positions : {false, true}) {
    const Defines defines = Defines().set("POSITIONS", positions);
    (positions ? move_positions_ : move_) = programs.kernel(file, "sort_move", defines);
  }
  count_digits_ = programs.kernel(file, "sort_count", Defines().set("POSITIONS", false));
  scan_ = programs.kernel(file, "sort_scan", Defines().set("POSITIONS", false));
  const int64_t units = std::max(1, static_cast<int>(context.device().facts().compute_units));
  if (cpu) {
    blocks_ = std::clamp<int64_t>(count / 16384, 1, 4 * units);
    chunk_ = ceil_div(std::max<int64_t>(count, 1), blocks_);
  } else {
    const int64_t tiles = ceil_div(std::max<int64_t>(count, 1), kTile);
    chunk_ = ceil_div(tiles, std::min(kMostBlocks, 8 * units)) * kTile;
    local_ = 256;
  }
  blocks_ = ceil_div(std::max<int64_t>(count, 1), chunk_);
  WorkspaceParts parts;
  counts_at_ = parts.add(static_cast<size_t>((blocks_ + 1) * kDigits) * 4);
  if (passes_ > 1) {
    keys_at_ = parts.add(static_cast<size_t>(count) * 4);
    values_at_ = parts.add(static_cast<size_t>(count) * 4);
  }
  workspace_ = parts.size();
}

void SortPairs::run(const Stream& stream, const Tensor& keys, const Tensor& values, const Tensor& keys_out,
                    const Tensor& values_out, const Tensor& workspace) const {
  if (count_ == 0) return;
  const Tensor counts = workspace_part(workspace, counts_at_, {(blocks_ + 1) * kDigits}, DType::i32);
  Tensor other_keys, other_values;
  if (passes_ > 1) {
    other_keys = workspace_part(workspace, keys_at_, {count_}, DType::i32);
    other_values = workspace_part(workspace, values_at_, {count_}, DType::i32);
  }
  const auto count = static_cast<uint32_t>(count_), chunk = static_cast<uint32_t>(chunk_),
             blocks = static_cast<uint32_t>(blocks_);
  const size_t items = static_cast<size_t>(blocks_) * local_;
  Tensor from_keys = keys, from_values = values;
  for (int pass = 0; pass < passes_; pass++) {
    const bool last_place = (passes_ - 1 - pass) % 2 == 0;  // the last pass has to end in the results
    const Tensor &to_keys = last_place ? keys_out : other_keys,
                 &to_values = last_place ? values_out : other_values;
    const auto shift = static_cast<uint32_t>(8 * pass);
    Launch(stream, count_digits_)
        .arg(from_keys)
        .arg(counts)
        .arg(count)
        .arg(shift)
        .arg(chunk)
        .arg(blocks)
        .run({items}, {local_});
    Launch(stream, scan_).arg(counts).arg(blocks).run({local_ == 1 ? 1 : kDigits * local_}, {local_});
    Launch move(stream, from_values.defined() ? move_ : move_positions_);
    move.arg(from_keys).arg(from_values).arg(to_keys).arg(to_values).arg(counts);
    move.arg(count).arg(shift).arg(chunk).arg(blocks).run({items}, {local_});
    from_keys = to_keys;
    from_values = to_values;
  }
}

}  // namespace dlprim::detail
