// Memory of a device as PyTorch sees it. A storage's data pointer is an address in a range that is reserved
// and that nobody may touch: pointer arithmetic and identity work, and a host access faults at once. Its
// context is a Block, which holds the memory itself. The pool behind it, with its reuse across streams, is
// dlprim's.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <c10/core/Storage.h>
#include <dlprim/tensor.hpp>

#include "device.hpp"

namespace ocl {

/// What a storage on a device holds.
struct Block {
  Device* device;
  uintptr_t address;
  size_t bytes;           ///< as asked for
  dlprim::Tensor memory;  ///< u8, a multiple of 16 bytes; of another's buffer, of the elements' size
  bool foreign = false;   ///< not the pool's, and not counted
  std::shared_ptr<void> owner = nullptr;  ///< of foreign memory; let go when no work on the device is left
};

/// Bytes and counts of live storages, as asked for.
struct Usage {
  int64_t allocated = 0, peak = 0, total = 0;
  int64_t blocks = 0, peak_blocks = 0, total_blocks = 0;
  int64_t failures = 0;
};

class Memory {
 public:
  explicit Memory(Device& device);

  /// A new block, in the thread's current stream; a storage's context.
  c10::DataPtr allocate(size_t bytes);
  /// A block around memory that somebody else made: all of a buffer, from its start.
  c10::DataPtr adopt(const dlprim::Tensor& bytes, size_t size, std::shared_ptr<void> owner);
  /// The block that begins at this address, or null.
  Block* find(const void* address);
  /// The block that this address is in, or null. Looks at all of them.
  Block* find_around(const void* address);
  /// Memory for tensors that have no elements.
  const Block& nothing();
  /// The block that a pointer of ours holds; null for others, as torch::from_blob makes them.
  static Block* held_by(const c10::DataPtr& data) noexcept;
  /// Whether the address lies in this device's range.
  bool contains(const void* address) const noexcept;

  Usage usage();
  void reset_total();
  void reset_peak();

 private:
  c10::DataPtr hold(std::unique_ptr<Block> block);
  uintptr_t take_address(size_t bytes);
  static void release(void* block);

  Device& device_;
  uintptr_t base_ = 0, end_ = 0, next_ = 0;
  std::mutex mutex_;
  std::unordered_map<size_t, std::vector<uintptr_t>> free_;  ///< addresses to use again, by their size class
  std::unordered_map<uintptr_t, Block*> live_;
  std::unique_ptr<Block> nothing_;
  Usage usage_;
};

/// Where a storage on a device begins: a block, and the byte in it.
struct Place {
  const Block& block;
  int64_t offset;
};
/// Throws for a storage that is not on a device of ours, or not in its memory.
Place place_of(const c10::Storage& storage);
/// The device whose range the address is in; null if none.
Device* device_of_address(const void* address) noexcept;
/// Makes the storage hold `bytes`, with what it held before.
void resize_storage(c10::StorageImpl& storage, size_t bytes);

/// The allocator of all devices.
c10::Allocator* device_allocator();

}  // namespace ocl
