// Compaction: what choosing elements by a mask consists of: the chosen ones are counted, then moved; in
// between the host may wait for their number. Engines: `tiles`, and `chunks` for CPUs. Not an operator;
// masked.hpp is.
#pragma once

#include <memory>
#include <optional>

#include <dlprim/copy.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/tensor.hpp>

#include "core/composed.hpp"

namespace dlprim::detail {

enum class CompactMode : uint8_t { pack, spread, coordinates };  ///< as the kernels number them

/// What to do. Order is row-major order; there are fewer than 2^31 elements.
struct Compacted {
  CompactMode mode = CompactMode::pack;
  TensorDesc mask;
  std::optional<TensorDesc> x;  ///< what is packed or spread into, of mask's shape; none for coordinates
  DType packed = DType::f32;    ///< of the packed elements, or of coordinates
  DType total = DType::i64;     ///< i32 or i64: of the tensor where their number goes
  bool counts = false;          ///< whether there is such a tensor
};

struct CompactTensors {
  const Tensor &mask, &x;
  const Tensor& packed;  ///< [room], or [room, rank] of coordinates; what does not fit is dropped
  const Tensor& total;
};

class Compaction {
 public:
  /// `engine`: auto, tiles or chunks. Throws ValidationError, BuildError.
  Compaction(const Context& context, const Compacted& compacted, const Options& options);
  const std::shared_ptr<const PlanInfo>& info() const { return info_; }
  /// The workspace is of the info's size.
  void count(const Stream& stream, const Tensor& mask, const Tensor& workspace) const;
  /// How many were counted. Waits for the device.
  int64_t counted(const Stream& stream, const Tensor& workspace) const;
  /// After count(), with the same workspace.
  void move(const Stream& stream, const CompactTensors& tensors, const Tensor& workspace) const;

  struct Plan;

 private:
  void move_tiles(const Stream& stream, const CompactTensors& t, const Tensor& x,
                  const Tensor& workspace) const;
  void move_chunks(const Stream& stream, const CompactTensors& t, const Tensor& workspace) const;

  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<const PlanInfo> info_;
};

}  // namespace dlprim::detail
