// Compaction: what choosing elements by a mask consists of: the chosen ones are counted, then moved; in
// between the host may wait for their number. Engines: `tiles`, and `chunks` for CPUs. Not an operator;
// masked.hpp is.
#pragma once

#include <memory>

#include <dlprim/plan.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim::detail {

enum class CompactMode : uint8_t { pack, spread, coordinates };  ///< as the kernels number them

/// What to do. Order is row-major order; there are fewer than 2^31 elements.
struct Compacted {
  CompactMode mode = CompactMode::pack;
  Tensor mask;
  Tensor x;                   ///< what is packed or spread into, of mask's shape; undefined for coordinates
  DType packed = DType::f32;  ///< of the packed elements, or of coordinates
  Tensor total;               ///< [1] of i32 or i64, where their number goes; may be undefined
};

class Compaction {
 public:
  /// `engine`: auto, tiles or chunks. Enqueues nothing. Throws ValidationError, BuildError.
  Compaction(const Stream& stream, const Compacted& compacted, const Options& options);
  const std::string& text() const;
  void count(const Stream& stream) const;
  /// How many were counted. Waits for the device.
  int64_t counted(const Stream& stream) const;
  /// After count(). packed: [room], or [room, rank] of coordinates; what does not fit is dropped.
  void move(const Stream& stream, const Tensor& packed) const;

  struct Plan;

 private:
  void move_tiles(const Stream& stream, const Tensor& x, const Tensor& packed) const;
  void move_chunks(const Stream& stream, const Tensor& packed) const;

  Compacted compacted_;
  std::shared_ptr<const Plan> plan_;
  Tensor counts_;  ///< of each group, its chosen elements
  Tensor bits_;    ///< of each element, whether it is chosen; of tiles
};

}  // namespace dlprim::detail
