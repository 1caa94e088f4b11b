// A case of the program `measure`: its text taken apart, its operands.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <dlprim/tensor.hpp>

namespace dlprim::bench {

/// "gemm m=64 n=64" is {op: gemm, m: 64, n: 64}.
using Fields = std::map<std::string, std::string>;

std::string text(const Fields& fields, const std::string& name, const std::string& otherwise);
/// Throws if there is no such field.
int64_t number(const Fields& fields, const std::string& name, int64_t otherwise = -1);

struct Case {
  virtual ~Case() = default;
  /// Enqueues it once on test::stream().
  virtual void run() = 0;
  virtual std::string engine() const = 0;
};

/// Matrices of random numbers in [-1, 1); a and b may be transposed views.
struct GemmOperands {
  explicit GemmOperands(const Fields& fields);
  Tensor a, b, c;
};

/// The same product by CLBlast. Throws in a build without it.
std::unique_ptr<Case> clblast_gemm(const Fields& fields);

}  // namespace dlprim::bench
