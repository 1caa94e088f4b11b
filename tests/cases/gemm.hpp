// Matrix products, with a reference as plain loops in double and an operation count. Tests and benchmarks
// share them.
#pragma once

#include <string>
#include <vector>

#include <dlprim/gemm.hpp>

#include "support.hpp"

namespace dlprim::test {

/// How a matrix lies in memory: runs of neighbours, `gap` unused elements behind each, the first element
/// `offset` elements behind a 16-byte boundary.
struct MatrixLayout {
  bool transposed = false;  ///< columns are contiguous
  int64_t gap = 0, offset = 0;
};

struct GemmCase {
  int64_t m, n, k;
  MatrixLayout a, b, c;
  float alpha = 1, beta = 0;
  GemmDesc::Vector bias = GemmDesc::Vector::none;
  Activation activation = Activation::identity;
  GemmDesc::Vector scale = GemmDesc::Vector::none;
  bool residual = false, preactivation = false;
  DType dtype = DType::f32, c_dtype = DType::f32;
  int64_t batch = 0;                  ///< 0: matrices, not batches of them
  bool one_a = false, one_b = false;  ///< the same for all products

  GemmCase(int64_t m_, int64_t n_, int64_t k_, bool a_transposed = false, bool b_transposed = false)
      : m(m_), n(n_), k(k_), a{a_transposed}, b{b_transposed} {}

  double flops() const;
  int64_t vector_size(GemmDesc::Vector form) const;
  int64_t products() const { return batch == 0 ? 1 : batch; }
  GemmParams params() const { return {alpha, beta, activation}; }
  /// One line that tells the case from all others.
  std::string text() const;
};

/// A product of f32 tensors that lie row-major.
inline GemmDesc desc_of(const Shape& a, const Shape& b, const Shape& c) {
  return {TensorDesc(a), TensorDesc(b), TensorDesc(c)};
}

/// Row-major values of the operands; of one matrix where all products share it.
struct GemmData {
  std::vector<float> a, b, c, bias, scale, residual;
};
/// Small integers, so that sums are exact in float.
GemmData integer_data(const GemmCase& x, uint64_t seed = 1);
/// Reals in [-1, 1).
GemmData real_data(const GemmCase& x, uint64_t seed = 1);

/// A tensor that holds `values` in `layout`; unused elements are NaN.
Tensor matrix(int64_t rows, int64_t columns, const MatrixLayout& layout, const std::vector<float>& values,
              DType dtype = DType::f32);
/// The case's operands, of rank 3 if it is a batch.
Tensor operand_a(const GemmCase& x, const GemmData& data);
Tensor operand_b(const GemmCase& x, const GemmData& data);
/// A bias or scale as the call form takes it: [N], [M, 1], or undefined.
Tensor vector_tensor(const GemmCase& x, GemmDesc::Vector form, const std::vector<float>& values);

/// What is given to the activation: scale * alpha * A B + beta * C + bias + residual, row-major. C is not
/// read if beta is 0, nor A and B if alpha is.
std::vector<double> gemm_preactivation(const GemmCase& x, const GemmData& data);
/// C.
std::vector<double> gemm_reference(const GemmCase& x, const GemmData& data);
/// As a store to a tensor of this dtype rounds them.
std::vector<float> rounded(const std::vector<double>& values, DType dtype = DType::f32);
/// Equal values, NaN equal to NaN.
bool same(const std::vector<float>& x, const std::vector<float>& y);
/// How many results are not as a chain of multiply-adds gives them: NaN, infinities, and within K + 3
/// roundings of the sum of magnitudes and of denormals.
size_t gemm_differences(const GemmCase& x, const GemmData& data, const std::vector<float>& got);
/// Root mean square of the error over that of what is expected.
double relative_error(const std::vector<float>& values, const std::vector<double>& expected);

struct GemmResult {
  std::vector<float> values, preactivation;
  bool intact = false, repeats = false;  ///< nothing else was written; the second run gave the same bits
};
/// Runs the case twice by the call form into poisoned, guarded outputs (which hold data.c if beta is not 0).
GemmResult run_gemm(const GemmCase& x, const GemmData& data, const Options& options);

/// Every size around vectors' and tiles' edges as M, as N and as K, in each of the four transpositions, with
/// factors, gaps and offsets in turn; sizes of 0; alpha = 0.
std::vector<GemmCase> odd_gemms(DType dtype);
/// The same sizes where M or N is 1.
std::vector<GemmCase> odd_vector_gemms(DType dtype);
/// Problems of several tiles and blocks of k.
std::vector<GemmCase> tiled_gemms();
/// Every dtype, with bias, beta and activation, plain and in batches.
std::vector<GemmCase> typed_gemms();
/// Every part of the epilogue alone, and all together, in every dtype.
std::vector<GemmCase> epilogue_gemms();
/// A matrix times a vector, from either side, in every order, with all that may come after the sum.
std::vector<GemmCase> vector_gemms();
/// What benchmarks time: squares, the four transpositions, and shapes of linear layers.
std::vector<GemmCase> bench_gemms();

/// The names of all engines, in their order; or those that DLPRIM_TEST_ENGINES lists, which may have
/// parameters.
const std::vector<std::string>& gemm_engines();
/// Options that ask for one.
Options gemm_engine(const std::string& name);
/// Why the engine does not serve on this device unless it is asked for; empty if it does.
std::string gemm_refusal(const std::string& engine);
/// What asking for the engine throws; empty if it is given.
std::string gemm_refusal_by_name(const std::string& engine);
/// The engines that the device can run, whether or not they are meant for it.
std::vector<std::string> serving_gemm_engines();

}  // namespace dlprim::test
