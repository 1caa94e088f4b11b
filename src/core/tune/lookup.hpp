// Finding rows for a problem: the user's own, then those that come with the library, for the device, its
// architecture, vendor, kind, any device; first rows of this very problem, then of near ones.
#pragma once

#include <string>
#include <vector>

#include <dlprim/device.hpp>
#include <dlprim/tune.hpp>

#include "core/tune/rows.hpp"

namespace dlprim::detail {

/// A row of the user's database.
struct UserRow {
  TuneProblem problem;
  TunedEngine best, second;
  bool exhaustive = false;
  double spread = 0;  ///< see TuneResult
};

struct TuneAnswer {
  std::string engine;  ///< as Options::engine takes it
  std::string source;  ///< where it stands and for which problem, for explain()
};

/// Sizes farther apart say too little of each other: 19 % in one size, 10 % in each of three. At this
/// distance a neighbour's choice loses 2 % on average and 4 % in one of ten cases, at twice of it 4 % and 14
/// to 20 % (docs/tuning.md).
constexpr double kNearEnough = 0.25;

/// The length of the vector of the sizes' binary logarithms' differences; infinite if one has a 0 that the
/// other has not.
double size_distance(const int64_t* a, const int64_t* b, size_t count);

/// The few best answers, best first; one that an engine refuses is followed by the next. A strict problem's
/// own rows are followed by those of standard math: what is best of more engines, and serves, is best of
/// fewer.
std::vector<TuneAnswer> look_up(const TuneProblem& problem, const DeviceFacts& device,
                                const std::vector<UserRow>& user, const TuneSheet* sheets);

/// "m=64 n=64 k=64 batch=1"
std::string sizes_text(const TuneProblem& problem);

}  // namespace dlprim::detail
