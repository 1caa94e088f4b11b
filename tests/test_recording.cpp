// Recordings: a replay gives what the work would give, on memory that nobody else gets; what cannot be
// replayed is refused, and afterwards everything works.
#include <dlprim/recording.hpp>

#include <dlprim/conv.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/rehearsal.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

/// y = relu(conv(x, w)) + x, with memory of its own for what is between.
struct Work {
  Tensor x, w, y;

  explicit Work(const Stream& s) : x(s, {1, 4, 9, 7}), w(s, {4, 4, 3, 3}), y(s, {1, 4, 9, 7}) {}
  void operator()(const Stream& s) const {
    const Tensor h(s, y.shape());
    ConvParams params;
    params.pad_begin = {1};
    conv(s, x, w, {}, params, h);
    const Tensor r(s, y.shape());
    pointwise(s, {h}, {r}, {}, "y0 = x0 > 0 ? x0 : 0");
    pointwise(s, {r, x}, {y}, {}, "y0 = x0 + x1");
  }
};

std::vector<float> some(const Tensor& t, uint64_t seed) {
  Rng rng(seed);
  return integers(t.numel(), rng);
}

}  // namespace

TEST_CASE("recording: a replay computes from what lies in memory then") {
  const Work work(stream());
  write(stream(), work.w, some(work.w, 1));
  write(stream(), work.x, some(work.x, 2));
  const Recording recording(stream(), [&] { work(stream()); });
  const std::vector<float> first = host_values(work.y);
  CHECK(recording.launches() >= 3);
  CHECK(recording.bytes() > 0);
  for (uint64_t seed : {3, 4}) {
    write(stream(), work.x, some(work.x, seed));
    work(stream());
    const std::vector<float> expected = host_values(work.y);
    CHECK(expected != first);
    fill(stream(), -1, work.y);
    recording.replay();
    CHECK(host_values(work.y) == expected);
  }
}

TEST_CASE("recording: nobody else gets its memory, and it gives that back") {
  const Context own(context().device());
  const Stream own_stream(own);
  const auto allocated = [&] {
    own_stream.finish();
    return own.memory_stats().allocated;
  };
  {
    const Work work(own_stream);
    fill(own_stream, 1, work.w);
    fill(own_stream, 1, work.x);
    const uint64_t before = allocated();
    {
      const Recording recording(own_stream, [&] { work(own_stream); });
      CHECK(allocated() == before + recording.bytes());
      const std::vector<float> expected = read<float>(own_stream, work.y);
      // Tensors of the same sizes, full of something else.
      std::vector<Tensor> others;
      for (int i = 0; i < 8; i++) {
        others.emplace_back(own_stream, work.y.shape());
        fill(own_stream, 1e9, others.back());
      }
      recording.replay();
      CHECK(read<float>(own_stream, work.y) == expected);
      for (const Tensor& other : others) CHECK(read<float>(own_stream, other)[5] == 1e9F);
      others.clear();
      const Recording copy = recording;
    }
    CHECK(allocated() == before);
  }
  CHECK(allocated() == 0);
}

TEST_CASE("recording: memory goes from one tensor to the next while it is made") {
  const auto chain = [](int length) {
    return Recording(stream(), [&] {
      Tensor x(stream(), {100000});
      fill(stream(), 1, x);
      for (int i = 0; i < length; i++) {
        const Tensor y(stream(), {100000});
        pointwise(stream(), {x}, {y}, {}, "y0 = x0 + 1");
        x = y;
      }
    });
  };
  CHECK(chain(20).bytes() == chain(2).bytes());
}

TEST_CASE("recording: tensors made in it outlive it, and what it used stays") {
  Tensor y;
  Recording recording;
  {
    const Tensor x(stream(), {5});
    fill(stream(), 2, x);
    recording = Recording(stream(), [&] {
      y = Tensor(stream(), {5});
      pointwise(stream(), {x}, {y}, {}, "y0 = x0 * x0");
    });
  }
  fill(stream(), 0, y);
  const Tensor other(stream(), {5});  // would lie where x lies
  fill(stream(), 9, other);
  recording.replay();
  CHECK(host_values(y) == std::vector<float>(5, 4));
  recording = Recording();
  CHECK_FALSE(recording);
  CHECK(host_values(y) == std::vector<float>(5, 4));
  CHECK_THROWS_AS(recording.replay(), ValidationError);
}

TEST_CASE("recording: what was written from the host is there in each replay") {
  const Tensor y(stream(), {3});
  const Recording recording(stream(), [&] {
    Tensor sum;
    for (float v : {1.0F, 2.0F, 4.0F}) {  // each table goes before the next is made
      const Tensor table = device_tensor({3}, {v, 10 * v, 100 * v});
      const Tensor next(stream(), {3});
      if (sum.defined())
        pointwise(stream(), {sum, table}, {next}, {}, "y0 = x0 + x1");
      else
        pointwise(stream(), {table}, {next}, {}, "y0 = x0");
      sum = next;
    }
    copy(stream(), sum, y);
  });
  for (int i = 0; i < 2; i++) {
    CHECK(host_values(y) == std::vector<float>{7, 70, 700});
    fill(stream(), 0, y);
    recording.replay();
  }
  CHECK(host_values(y) == std::vector<float>{7, 70, 700});
}

TEST_CASE("recording: reading back is refused, and leaves nothing behind") {
  const Tensor x = device_tensor({2}, {1, 2});
  CHECK_FALSE(Recording::active());
  CHECK_THROWS_WITH(Recording(stream(), [&] { host_values(x); }), Catch::Contains("recording"));
  CHECK_FALSE(Recording::active());
  CHECK(host_values(x) == std::vector<float>{1, 2});
  CHECK_THROWS_AS(Recording(stream(), [&] { Recording(stream(), [] {}); }), ValidationError);
  const Rehearsal rehearsal;
  CHECK_THROWS_AS(Recording(stream(), [] {}), ValidationError);
}

TEST_CASE("recording: commands on another stream are not kept") {
  const Stream other(context());
  const Tensor x(stream(), {4}), z(other, {4});
  const Recording recording(stream(), [&] {
    fill(stream(), 1, x);
    fill(other, 1, z);
  });
  fill(stream(), 0, x);
  fill(other, 0, z);
  recording.replay();
  CHECK(host_values(x) == std::vector<float>(4, 1));
  CHECK(read<float>(other, z) == std::vector<float>(4, 0));
}
