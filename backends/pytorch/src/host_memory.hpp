// Pinned host memory: buffers that OpenCL allocates where its devices read and write at full speed
// (CL_MEM_ALLOC_HOST_PTR), mapped for as long as they exist. What is freed is kept and given out again, but
// not before the copies that use it are done.
#pragma once

#include <c10/core/Allocator.h>
#include <dlprim/stream.hpp>

namespace ocl {

/// What at::Context takes for pin_memory().
c10::Allocator* host_allocator();
/// Whether the address is in pinned memory.
bool is_pinned(const void* address) noexcept;
/// The pinned block that the address is in is not given out again before `done`. False if it is in none.
bool keep_until(const void* address, const dlprim::Event& done);

}  // namespace ocl
