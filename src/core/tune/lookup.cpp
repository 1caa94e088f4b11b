// The order of rows. A sheet that names a device or an architecture serves only those: rows measured on one
// chip say little of its vendor's others. Rows for a vendor or a kind are in sheets that name no more.
#include "core/tune/lookup.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "core/text.hpp"

namespace dlprim::detail {
namespace {

constexpr size_t kMostAnswers = 4;

enum Level { kUser, kDevice, kArchitecture, kVendor, kKind, kDefault, kNone };
constexpr const char* kLevelNames[] = {"user", "device", "architecture", "vendor", "kind", "default"};

Level level_of(const TuneSheet& sheet, const DeviceFacts& device) {
  const auto is = [](const char* text, const std::string& fact) { return *text && fact == text; };
  if (is(sheet.device, device.name)) return kDevice;
  if (is(sheet.architecture, device.architecture)) return kArchitecture;
  if (*sheet.device || *sheet.architecture) return kNone;
  if (*sheet.vendor) return is(sheet.vendor, device.vendor) ? kVendor : kNone;
  if (*sheet.kind) return is(sheet.kind, name_of(device.kind)) ? kKind : kNone;
  return kDefault;
}

struct Hit {
  Level level;
  bool other_math;
  double distance;
  std::string engine;
  const char* file;  ///< null: the user's database
  std::vector<int64_t> sizes;
  double spread;  ///< see TuneResult

  /// This very problem first, then by level, then the nearer one.
  auto rank() const { return std::make_tuple(distance > 0, level, other_math, distance); }
};

std::string names_of(const TuneProblem& problem) {
  std::string names;
  for (const auto& [name, size] : problem.sizes) names += (names.empty() ? "" : " ") + name;
  return names;
}

std::vector<int64_t> values_of(const TuneProblem& problem) {
  std::vector<int64_t> values;
  for (const auto& [name, size] : problem.sizes) values.push_back(size);
  return values;
}

bool serves_math(MathMode row, MathMode asked) {
  return row == asked || (row == MathMode::standard && asked == MathMode::strict);
}

bool can_be_near(const TuneProblem& row, const TuneProblem& asked) {
  if (row.op != asked.op || row.dtype != asked.dtype || row.result != asked.result || row.form != asked.form)
    return false;
  return serves_math(row.math, asked.math) &&
         std::equal(row.sizes.begin(), row.sizes.end(), asked.sizes.begin(), asked.sizes.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first; });
}

std::string source_of(const Hit& hit, const TuneProblem& problem) {
  std::string text = hit.file ? cat(hit.file, " by ", kLevelNames[hit.level]) : "the user's measurements";
  text += hit.distance == 0 ? ", this problem" : ", nearest problem";
  if (hit.distance != 0)
    for (size_t i = 0; i < hit.sizes.size(); i++) text += cat(' ', problem.sizes[i].first, '=', hit.sizes[i]);
  if (hit.spread > kUnsteady)
    text += cat(" (on a busy device: times spread by ", static_cast<int>(100 * hit.spread), " %)");
  return text;
}

}  // namespace

double size_distance(const int64_t* a, const int64_t* b, size_t count) {
  double squares = 0;
  for (size_t i = 0; i < count; i++) {
    if (a[i] == b[i]) continue;
    if (a[i] <= 0 || b[i] <= 0) return std::numeric_limits<double>::infinity();
    const double octaves = std::log2(static_cast<double>(a[i]) / static_cast<double>(b[i]));
    squares += octaves * octaves;
  }
  return std::sqrt(squares);
}

std::string sizes_text(const TuneProblem& problem) {
  std::string text;
  for (const auto& [name, size] : problem.sizes) text += cat(text.empty() ? "" : " ", name, '=', size);
  return text;
}

std::vector<TuneAnswer> look_up(const TuneProblem& problem, const DeviceFacts& device,
                                const std::vector<UserRow>& user, const TuneSheet* sheets) {
  const size_t count = problem.sizes.size();
  const std::vector<int64_t> sizes = values_of(problem);
  const std::string names = names_of(problem);
  std::vector<Hit> hits;
  const auto add = [&](Level level, MathMode math, const int64_t* row_sizes, const std::string& engine,
                       const char* file, double spread) {
    const double distance = size_distance(sizes.data(), row_sizes, count);
    if (distance <= kNearEnough)
      hits.push_back(
          {level, math != problem.math, distance, engine, file, {row_sizes, row_sizes + count}, spread});
  };
  for (const UserRow& row : user) {
    if (!can_be_near(row.problem, problem)) continue;
    add(kUser, row.problem.math, values_of(row.problem).data(), row.best.engine, nullptr, row.spread);
  }
  for (const TuneSheet* sheet = sheets; sheet->file; sheet++) {
    const Level level = level_of(*sheet, device);
    if (level == kNone || problem.op != sheet->op || names != sheet->size_names) continue;
    for (const TuneRow* row = sheet->rows; row != sheet->rows + sheet->count; row++)
      if (row->dtype == problem.dtype && row->result == problem.result &&
          serves_math(row->math, problem.math) && problem.form == row->form)
        add(level, row->math, row->sizes, row->engine, sheet->file, 0);
  }
  std::stable_sort(hits.begin(), hits.end(), [](const Hit& a, const Hit& b) { return a.rank() < b.rank(); });
  std::vector<TuneAnswer> answers;
  for (const Hit& hit : hits) {
    const bool known = std::any_of(answers.begin(), answers.end(),
                                   [&](const TuneAnswer& answer) { return answer.engine == hit.engine; });
    if (!known && answers.size() < kMostAnswers) answers.push_back({hit.engine, source_of(hit, problem)});
  }
  return answers;
}

}  // namespace dlprim::detail
