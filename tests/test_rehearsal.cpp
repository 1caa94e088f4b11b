// Rehearsals: tensors that are made in one have no memory, but sizes and places; nothing of them is kept.
#include <vector>

#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/rehearsal.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

TEST_CASE("rehearsal: its tensors take no memory, and are refused after it") {
  const Context own(context().device());
  const Stream stream(own);
  const Tensor x(stream, {1000});
  fill(stream, 3, x);
  const MemoryStats before = own.memory_stats();
  Tensor made, sum(stream, {1000});
  {
    const Rehearsal rehearsal;
    made = Tensor(stream, {int64_t{1} << 38});  // more than there is
    const Tensor y(stream, {1000}), z(stream, {1000});
    pointwise(stream, {x}, {y}, {}, "y0 = x0 * 2");
    pointwise(stream, {x, y}, {z}, {}, "y0 = x0 + x1");
    copy(stream, z, sum);
    CHECK(made.numel() == int64_t{1} << 38);
    // Two are never one: who writes one may read the other.
    CHECK(error_of<ValidationError>([&] { copy(stream, z.slice(0, 0, 500), z.slice(0, 1, 501)); }) != "");
    CHECK_NOTHROW(copy(stream, y.slice(0, 0, 500), z.slice(0, 1, 501)));
  }
  CHECK(own.memory_stats().allocations == before.allocations + 1);  // sum
  CHECK(error_of<ValidationError>([&] { fill(stream, 1, made); }) ==
        "tensor: was made in a rehearsal, and has no memory");
  CHECK(error_of<ValidationError>([&] { copy(stream, made.slice(0, 0, 1000), sum); }) ==
        "tensor: was made in a rehearsal, and has no memory");
  copy(stream, x, sum);
  CHECK(read<float>(stream, sum) == std::vector<float>(1000, 3));
}
