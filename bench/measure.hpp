// A case of the program `measure`, and its operands. Each measure_*.cpp brings the cases of one op.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <dlprim/tensor.hpp>

#include "core/tune/problem_line.hpp"

namespace dlprim::bench {

struct Case {
  virtual ~Case() = default;
  /// Enqueues it once on test::stream().
  virtual void run() = 0;
  /// What the run has written, in the order in which the reference gives it: bench/compare compares both.
  virtual std::vector<Tensor> results() const = 0;
  /// What has to be read and written; 0 where arithmetic is what counts.
  virtual double bytes() const { return 0; }
};

/// Makes `op` known to `measure`: as a constant beside `make`, which takes all fields of the line.
struct CasesOf {
  CasesOf(const char* op, std::unique_ptr<Case> (*make)(detail::ProblemLine& line));
};

/// A case of an operator that moves data: `run` enqueues it on test::stream().
std::unique_ptr<Case> moving_case(double bytes, const std::vector<Tensor>& results,
                                  std::function<void()> run);
/// One whose results are there only after the run.
std::unique_ptr<Case> moving_case(double bytes, std::function<std::vector<Tensor>()> results,
                                  std::function<void()> run);
/// Bytes of the tensors' elements; undefined ones have none.
double bytes_of(const std::vector<Tensor>& tensors);

// Operands. The numbers follow from the place of an element in row-major order and from the operand's name;
// bench/operands.py makes the same ones.

/// Uniform in [low, high), multiples of 2^-24 of that range.
Tensor random_tensor(const std::string& name, const Shape& shape, DType dtype, double low = -1,
                     double high = 1);
/// Whole numbers from 0 to below `end`, i64.
Tensor random_whole(const std::string& name, const Shape& shape, int64_t end);

/// Where tensors lie and what they hold: "size=64x256x56x56 dtype=f32 layout=nchw low=-1 high=1". layout:
/// nchw, nhwc, or strided, every second element of larger rows.
struct Form {
  /// Takes those fields.
  explicit Form(detail::ProblemLine& line);
  /// An input of that name, random_tensor() in [low, high).
  Tensor input(const std::string& name, const Shape& of_shape, DType of_dtype) const;
  Tensor input(const std::string& name) const { return input(name, shape, dtype); }
  /// For a result, without gaps: channels last if the layout is nhwc, else row-major.
  Tensor result(const Shape& of_shape, DType of_dtype) const;
  Tensor result() const { return result(shape, dtype); }
  /// The bool input "mask", true with probability one half.
  Tensor mask() const;
  /// `values`, row-major, as they lie in that layout.
  Tensor laid_out(const Tensor& values, DType of_dtype) const;

  Shape shape;
  DType dtype;
  std::string layout;
  double low, high;
};

/// Takes the line's engine and math.
Options options_of(detail::ProblemLine& line);

/// Matrices of random numbers in [-1, 1); a and b may be transposed views.
struct GemmOperands {
  /// Takes the line's sizes, orders and dtypes.
  explicit GemmOperands(detail::ProblemLine& line);
  Tensor a, b, c;
};

}  // namespace dlprim::bench
