// Writing by index as its engines see it.
#pragma once

#include <dlprim/copy.hpp>

#include "core/defines.hpp"
#include "core/engine.hpp"
#include "ops/index/indexing.hpp"

namespace dlprim::detail {

template <>
inline constexpr int kFields<ScatterParams> = 2;

/// table[indices] = dense.
struct WriteProblem {
  IndexNest nest;
  TensorDesc dense, table;
  ScatterParams params;
  int64_t skip = -1;               ///< an index that writes nothing, below 0: none
  DType accumulator = DType::f32;  ///< what is folded in
};

/// What operators that write start with: y = x where x is another tensor, 0 where there is none.
class WriteStart {
 public:
  /// Throws ValidationError unless x is as y is.
  WriteStart(const Context& context, const std::optional<TensorDesc>& x, const TensorDesc& y);
  /// x is as described, and is y or shares no memory with it. Throws ValidationError.
  void check(const Stream& stream, const Tensor& x, const Tensor& y) const;
  void run(const Stream& stream, const Tensor& x, const Tensor& y) const;

 private:
  std::optional<TensorDesc> x_;
  std::optional<Copy> copy_;
  std::optional<Fill> zeros_;
};

struct WritePlan : EngineImpl {
  virtual void run(const Stream& stream, const Tensor& dense, const std::vector<Tensor>& indices,
                   const Tensor& table, const Tensor& workspace) const = 0;
};

/// The nest's dimensions in two families, neither empty: `p`, along which no two elements meet in a place,
/// and `w`, along which they may.
struct WriteLoops {
  std::vector<LoopDim> p, w;
  int64_t columns = 1, walked = 1;  ///< elements of p, and of w
};
/// p: what the table moves along.
WriteLoops loops_by_table(const IndexNest& nest);
/// p: what the table moves along and no index does, so that a place in w says where in the table.
WriteLoops loops_by_index(const IndexNest& nest);
bool is_indexed_along(const LoopDim& dim);

/// Numbers of places in the table: offsets that indices and `loops.w` reach are key * unit, of keys up to
/// `largest`.
struct WriteKeys {
  WriteKeys(const IndexNest& nest, const WriteLoops& loops);
  int64_t unit = 1, largest = 0;
};

/// From how many columns on GPUs walk them: as many work-items keep them busy.
constexpr int64_t kManyColumns = 16384;
/// Elements that may meet are walked without further ado if they are not more.
constexpr int64_t kFewWalked = 16;
/// Filling or reading a place is cheaper than sorting an element by about as much.
constexpr int64_t kPlacesPerElement = 8;

/// The macros of indexing.cl and fold.cl.
Defines write_defines(const WriteProblem& problem, const WriteLoops& loops);
/// Why sorting cannot serve; empty if it can.
std::string refuse_sorting(const WriteProblem& problem);
/// Why a workspace of 32-bit words, one for each place, and atomic operations on it cannot serve; empty if
/// they can.
std::string refuse_atomics(const WriteProblem& problem);
/// Engine::avoid of the engines that use them.
std::string avoid_atomics(const Context& context, const WriteProblem& problem, const EngineOptions& options);

using WriteEngine = Engine<WriteProblem, WritePlan>;
extern const WriteEngine kWriteColumns, kWriteSorted, kWriteLocal, kWriteWinners, kWriteExtremes;

}  // namespace dlprim::detail
