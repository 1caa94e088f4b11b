// Distributions' parameters as numbers of random.cl.
#pragma once

#include "ops/random/random_fill.hpp"

namespace dlprim::detail {

/// "log_normal", and random.cl's macro, which Bernoulli numbers do not have.
struct DistributionNames {
  const char *text, *macro;
};
/// Throws ValidationError for a number that is no distribution.
DistributionNames names_of(Distribution distribution);

/// What a refusal calls a and b.
struct ArgumentNames {
  const char *a = "a", *b = "b";
};
/// Throws ValidationError: parameters that the distribution does not take, integers.
Draw make_draw(const RandomDesc& desc, double a, double b, const ArgumentNames& names);
/// From `low` to `high` - 1. Throws ValidationError: another distribution, numbers that y cannot hold.
Draw integer_draw(const RandomDesc& desc, int64_t low, int64_t high);

}  // namespace dlprim::detail
