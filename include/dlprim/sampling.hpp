// Random permutations, and samples from discrete distributions, out of random.hpp's words. A result depends
// on the seed, the offset and the operands alone, and has the same bits on every device: sums of weights are
// of integers, so that their order does not count, and the rest is random.hpp's arithmetic.
#pragma once

#include <cstdint>
#include <memory>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/random.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// y: [n], any stride, i32 or i64, n below 2^31.
struct RandomPermutationDesc {
  TensorDesc y;
};

/// The numbers 0 .. n - 1 in random order. Up to 1024 numbers are ranked by keys of 64 random bits; every
/// order is equally likely. More of them go through a keyed bijection, a Feistel network of 12 rounds on the
/// next power of two, repeated until the result lies below n (Black and Rogaway, 2002): no memory and no
/// sort, one write for each number. Such orders are not all possible; there are as many as keys of 384 bits.
class DLPRIM_API RandomPermutation : public Plan {
 public:
  /// Throws ValidationError (rank, size, dtype), BuildError.
  explicit RandomPermutation(const Context& context, const RandomPermutationDesc& desc,
                             const Options& options = {});
  /// Uses n words of `state`.
  void run(const Stream& stream, const RandomState& state, const Tensor& y,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  RandomPermutationDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// The same; the plan is found in the context's cache, or made.
DLPRIM_API void random_permutation(const Stream& stream, const RandomState& state, const Tensor& y,
                                   const Options& options = {}, const Tensor& workspace = {});

/// w: weights, [C] or [N, C], floating, any strides. y: the indices drawn, [S] or [N, S], i32 or i64, any
/// strides.
struct MultinomialDesc {
  TensorDesc w, y;
  bool replacement = false;
};

/// Draws S indices of each row with probabilities in proportion to its weights, which need not add up to 1.
/// Weights that are negative, infinite or NaN count as 0, and so do, with replacement, those below 2^-30 of
/// their row's largest. With replacement: the index where the running sum passes a random share of the whole.
/// Without: the indices of the largest weight / e, e exponential numbers, in falling order (Efraimidis and
/// Spirakis, 2006). Where a row has no index left that may be drawn, the rest is -1.
class DLPRIM_API Multinomial : public Plan {
 public:
  /// Throws ValidationError (ranks, shapes, dtypes; C from 1 to 2^31 - 1; S above C without replacement),
  /// BuildError.
  explicit Multinomial(const Context& context, const MultinomialDesc& desc, const Options& options = {});
  /// Uses as many words of `state` as y has elements, or without replacement w.
  void run(const Stream& stream, const Tensor& w, const RandomState& state, const Tensor& y,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  MultinomialDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// The same; the plan is found in the context's cache, or made.
DLPRIM_API void multinomial(const Stream& stream, const Tensor& w, bool replacement, const RandomState& state,
                            const Tensor& y, const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
