// Normalisation of rows by one kernel: what layer and group normalisation have in common. Each adds an engine
// of generated kernels for tensors that are no rows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/norm/norm_parts.hpp"

namespace dlprim::detail {

struct NormProblem {
  TensorDesc x, y;
  std::optional<TensorDesc> weight, bias;
  double epsilon = 0;
  bool center = true;      ///< false: the mean is taken as 0
  bool statistics = true;  ///< mean and inv_std are written
  bool variance = false;   ///< so is the unbiased variance
  int64_t rows = 0, length = 0;
  int64_t x_row = 0, y_row = 0;  ///< elements from one row to the next
  int64_t turns = 1;             ///< rows after which weights repeat
  int64_t plane = 0;             ///< neighbours that share a weight; 0: a row has one for each element
  int axes = 0, groups = 0;      ///< for engines of generated kernels
  std::string no_rows;           ///< why the tensors are not made of rows; empty if they are
  DType real() const { return x.dtype == DType::f64 || y.dtype == DType::f64 ? DType::f64 : DType::f32; }
};

/// mean, inv_std and variance are row-major, of the problem's `real`, or undefined if not wanted.
struct NormTensors {
  Tensor x, weight, bias, y, mean, inv_std, variance, workspace;
};

struct NormImpl : EngineImpl {
  virtual void run(const Stream& stream, const NormTensors& t) const = 0;
};

using NormEngine = Engine<NormProblem, NormImpl>;
/// For GPUs and for CPUs; each runs everywhere. Behind them operators have `generated`, which serves
/// everything.
extern const NormEngine kNormRows, kNormCpu;

/// Makes the plan's info out of what the problem has in common and `text`, what an operator adds.
std::shared_ptr<const NormImpl> norm_plan(const char* op, const EngineList<NormProblem, NormImpl>& engines,
                                          const Context& context, const NormProblem& problem,
                                          const Options& options, const std::string& text,
                                          std::shared_ptr<const PlanInfo>& info);

/// How the axes from `split` on are a row of neighbours, and rows lie at equal distances: that distance, or
/// no value.
std::optional<int64_t> row_distance(const TensorDesc& desc, int split);

/// How a GPU's work-items share rows: `lanes` of them a row, `together` rows a group, `unroll` accesses of
/// `vector` elements each.
struct RowLanes {
  int lanes = 1, together = 1, vector = 1, unroll = 1;
  bool held = true;  ///< one round of accesses is a whole row
};
/// For rows of `length`, with at most `most` elements of each held by a work-item of at most `group`.
RowLanes row_lanes(int64_t length, int vector, int most, int group);
/// Elements an access, of 16 bytes at most: 8, 4, or 1 where a tensor or a distance between rows is not
/// aligned. Null pointers do not count.
int row_vector(int64_t length, std::initializer_list<const TensorDesc*> tensors,
               std::initializer_list<int64_t> distances);

/// Why rows cannot have an index of 32 bits; empty if they can.
std::string too_many(int64_t rows, int64_t length);

/// Macros of norm_rows_common.cl for one of its dtypes, "X" or "Y": X_DTYPE and X_TYPE.
void define_dtype(Defines& defines, const std::string& name, DType dtype);

}  // namespace dlprim::detail
