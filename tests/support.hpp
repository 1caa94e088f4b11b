// What the tests share: the device under test, poisoned and guarded outputs, exact inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <dlprim/copy.hpp>
#include <dlprim/error.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/scalar.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim::test {

/// The context on the device that DLPRIM_TEST_DEVICE names (see Device::find), or on the default one; one per
/// program. A stream of it.
Context& context();
Stream& stream();

/// A generator of test data: the same seed, the same numbers on every machine (SplitMix64).
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  uint64_t next();
  /// Uniform in [low, high], integers.
  int64_t integer(int64_t low, int64_t high);
  /// Uniform in [low, high).
  double real(double low, double high);

 private:
  uint64_t state_;
};

/// `count` small integers in [-limit, limit], zero with probability 1 - density. Products of such numbers add
/// up without rounding, so results can be compared bit for bit.
std::vector<float> integers(int64_t count, Rng& rng, int limit = 4, double density = 1.0);
/// `count` reals in [low, high).
std::vector<float> reals(int64_t count, Rng& rng, double low = -1, double high = 1);

/// A tensor of f32 (or of `dtype`, converted) holding `values`.
Tensor device_tensor(const Shape& shape, const std::vector<float>& values, DType dtype = DType::f32);
/// The elements as float, whatever the dtype, in row-major order.
std::vector<float> host_values(const Tensor& x);
/// The elements' bytes in row-major order.
std::vector<unsigned char> host_bytes(const Tensor& x);

/// An output with canaries around it. The tensor starts out as poison (NaN, or a large number for integers).
class Guarded {
 public:
  /// `padding` elements of the dtype on both sides; 16-byte alignment is kept when padding is a multiple
  /// of 16.
  explicit Guarded(const Shape& shape, DType dtype = DType::f32, int64_t padding = 64);
  /// Other strides, in elements; the gaps are canaries as well.
  Guarded(const Shape& shape, const Strides& strides, DType dtype, int64_t padding = 64);
  const Tensor& tensor() const { return tensor_; }
  /// True if no byte outside the tensor's elements has changed.
  bool intact() const;

 private:
  Tensor whole_, tensor_;
  std::vector<unsigned char> before_;
  std::vector<bool> inside_;  ///< bytes that belong to an element of the tensor
};

inline std::vector<Scalar> scalars(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

/// False if DLPRIM_TEST_CASE is in the environment and no part of `text`, which tells a case of a list from
/// the others.
bool is_selected(const std::string& text);
/// What to put before the program's name to run that case again and no other: "DLPRIM_TEST_CASE='...'".
std::string again(const std::string& text);

/// Options that ask for one engine by name.
Options engine(const std::string& name);
/// "cpu" and "gpu", of operators with these two engines: the GPU's runs everywhere, the other one on CPUs.
std::vector<const char*> engines();
/// Descriptions of tensors; of one that may be undefined.
std::vector<TensorDesc> described(const std::vector<Tensor>& tensors);
std::optional<TensorDesc> described(const Tensor& tensor);
/// The two have the same bits.
bool same_bits(const Guarded& a, const Guarded& b);

/// Says at the program's end that the test case, or a part of it, was not run: "skipped: NAME: REASON", once
/// for each reason, and in the last line "skipped: COUNT". Catch2 counts the case as passed all the same.
void note_skipped(const std::string& reason);
/// Whether the device computes in double; a note of what is skipped if it does not.
bool has_doubles();

/// The largest |a - b|, in units of the largest finite |b|; infinity where the sizes differ, or one is NaN or
/// infinite and the other is not the same. Where all of b is zero, the largest |a|.
double deviation(const std::vector<float>& a, const std::vector<double>& b);
template <class T>
double deviation(const std::vector<float>& a, const std::vector<T>& b) {
  return deviation(a, std::vector<double>(b.begin(), b.end()));
}

/// A central difference in double of a scalar function of a vector, for element `i`.
double numeric_gradient(const std::function<double(const std::vector<double>&)>& f, std::vector<double> x,
                        size_t i, double step = 1e-4);

/// The whole number that the environment has for `variable`, if it has one.
int64_t setting(const char* variable, int64_t otherwise);

/// Whether case `number` of a list is run: all are, but each Nth alone where the environment has
/// `variable`=N, as there is no time for all.
bool in_share(const char* variable, size_t number);
constexpr char kShareOfForms[] = "DLPRIM_TEST_SHARE_OF_FORMS";  ///< of the cases that ctest's conv_forms runs
constexpr char kShareOfShapes[] =
    "DLPRIM_TEST_SHARE_OF_SHAPES";  ///< of odd shapes, in cases with the tag [small]

/// A file of the source tree, and one of the built tree: paths relative to their roots, found from where this
/// program lies, so that a built tree may be moved, to another machine as well (scripts/pack-tests).
std::string source_file(const std::string& path);
std::string built_file(const std::string& path);

/// The text of the error of type E that `f` throws, "(nothing was thrown)" if none; another passes through.
template <class E, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}
/// The same of a ValidationError.
template <class F>
std::string refusal(F&& f) {
  return error_of<ValidationError>(f);
}

}  // namespace dlprim::test
