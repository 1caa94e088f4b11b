// What random numbers should be: to the last bit, by the device's arithmetic on the host (IEEE sums, products
// and fma), and in double by the C library, which tells how far that arithmetic may be off.
#pragma once

#include <cstdint>

#include <dlprim/random.hpp>

namespace dlprim::test {

inline constexpr Distribution kReals[] = {
    Distribution::uniform,     Distribution::normal, Distribution::bernoulli, Distribution::log_normal,
    Distribution::exponential, Distribution::cauchy, Distribution::geometric};
const char* name_of(Distribution distribution);

/// Element i's number in f32, exactly.
float random_reference(Distribution distribution, double a, double b, const RandomState& state, int64_t i);
/// Nearly the same, in double.
double random_in_double(Distribution distribution, double a, double b, const RandomState& state, int64_t i);
int64_t random_integer_reference(int64_t low, int64_t high, const RandomState& state, int64_t i);

/// -log((w + 1/2) / 2^32) as devices compute it.
float negative_log_reference(uint32_t w);
/// 1 / x as devices compute it.
float reciprocal_reference(float x);

}  // namespace dlprim::test
