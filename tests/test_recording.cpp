// Recordings: a replay gives what the work would give, on memory that nobody else gets; what cannot be
// replayed is refused, and afterwards everything works.
#include <dlprim/recording.hpp>

#include <dlprim/conv.hpp>
#include <dlprim/dropout.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/random.hpp>
#include <dlprim/rehearsal.hpp>
#include <dlprim/sampling.hpp>

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

TEST_CASE("recording: random numbers go on where they are asked to") {
  const Tensor x(stream(), {5, 8}), rows(stream(), {5, 8}),
      columns = Tensor(stream(), {8, 5}).transpose(0, 1), dropped(stream(), {5, 8}),
      drawn(stream(), {5, 3}, DType::i64), order(stream(), {40}, DType::i64);
  fill(stream(), 1, x);
  const auto work = [&](const RandomState& state) {
    random_normal(stream(), 0, 1, state, rows);
    random_uniform(stream(), 0, 1, state, columns);  // by another kernel on GPUs
    dropout(stream(), x, 0.5, state, dropped);
    multinomial(stream(), x, true, state, drawn);
    random_permutation(stream(), state, order);
  };
  const auto results = [&] {
    std::vector<double> all;
    for (const Tensor& t : {rows, columns, dropped})
      for (float v : host_values(t)) all.push_back(v);
    for (const Tensor& t : {drawn, order})
      for (int64_t v : read<int64_t>(stream(), t)) all.push_back(static_cast<double>(v));
    return all;
  };
  for (const bool continues : {false, true}) {
    CAPTURE(continues);
    RandomState state{7, 4, continues};
    const Recording recording(stream(), [&] { work(state); });
    const std::vector<double> first = results();
    for (const uint64_t further : {uint64_t{8}, uint64_t{0}, uint64_t{1} << 33}) {
      recording.replay(further);
      const std::vector<double> again = results();
      CHECK((again == first) == (!continues || further == 0));
      work({7, 4 + (continues ? further : 0)});
      CHECK(results() == again);
    }
    CHECK_THROWS_WITH(recording.replay(6), Catch::Contains("drawn: 6 is no multiple of 4"));
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

namespace {

/// y = a sum of tensors of several sizes and lives, as wide as x.
void tangle(const Tensor& x, const Tensor& y, int levels) {
  const Stream& s = stream();
  std::vector<Tensor> kept;
  Tensor now = x;
  for (int i = 0; i < levels; i++) {
    const Tensor next(s, x.shape()), parts(s, {1 + i % 3, x.numel()});
    pointwise(s, {now}, {next}, {}, "y0 = x0 * 0.5f + " + std::to_string(i % 7) + ".0f");
    pointwise(s, {next}, {parts}, {}, "y0 = x0 - 1");
    pointwise(s, {next, parts.slice(0, 0, 1).reshape(x.shape())}, {next}, {}, "y0 = x0 + x1");
    if (i % 4 == 0) kept.push_back(next);
    if (kept.size() == 3) {
      pointwise(s, {kept[0], kept[1], kept[2]}, {y}, {}, "y0 = x0 + x1 + x2");
      kept.erase(kept.begin());
    }
    now = next;
  }
}

}  // namespace

TEST_CASE("recording: packed, it gives the same in the memory that lives at once") {
  const Tensor x(stream(), {50000}), y(stream(), {50000});
  write(stream(), x, some(x, 6));
  const auto work = [&] { tangle(x, y, 24); };
  work();
  const std::vector<float> expected = host_values(y);
  const Recording plain(stream(), work), packed = Recording::packed(stream(), work);
  CHECK(host_values(y) == expected);
  CHECK(packed.launches() == plain.launches());
  CHECK(packed.live_bytes() == plain.live_bytes());
  CHECK(packed.bytes() >= packed.live_bytes());
  CHECK(static_cast<double>(packed.bytes()) <= 1.1 * static_cast<double>(packed.live_bytes()));
  CHECK(plain.bytes() > packed.bytes());
  for (uint64_t seed : {7, 8}) {
    write(stream(), x, some(x, seed));
    work();
    const std::vector<float> other = host_values(y);
    CHECK(other != expected);
    fill(stream(), -1, y);
    packed.replay();
    CHECK(host_values(y) == other);
  }
}

TEST_CASE("recording: packed, work that differs in its second call is right all the same") {
  for (const auto& lengths : std::vector<std::pair<int, int>>{{24, 9}, {9, 24}, {0, 24}}) {
    const int first = lengths.first, second = lengths.second;
    INFO(first << " levels, then " << second);
    const Tensor x(stream(), {3000}), y(stream(), {3000});
    write(stream(), x, some(x, 9));
    int calls = 0;
    const Recording packed = Recording::packed(stream(), [&] {
      const bool again = calls++ == 1;
      Tensor before;  // one more, of another size, that shifts the others' turns
      if (again) before = Tensor(stream(), {777});
      tangle(x, y, again ? second : first);
      if (again) fill(stream(), 1, before);
    });
    CHECK(calls == 2);
    tangle(x, y, second);
    const std::vector<float> expected = host_values(y);
    fill(stream(), -1, y);
    packed.replay();
    CHECK(host_values(y) == expected);
  }
}

TEST_CASE("recording: packed, its memory stays while a tensor of it does, and goes back with the last") {
  const Context own(context().device());
  const Stream own_stream(own);
  const auto allocated = [&] {
    own_stream.finish();
    return own.memory_stats().allocated;
  };
  Tensor kept;
  {
    const Tensor x(own_stream, {4096});
    fill(own_stream, 3, x);
    const uint64_t before = allocated();
    Recording recording = Recording::packed(own_stream, [&] {
      kept = Tensor();  // the first call's
      Tensor between(own_stream, {4096});
      pointwise(own_stream, {x}, {between}, {}, "y0 = x0 * x0");
      const Tensor y(own_stream, {4096});
      pointwise(own_stream, {between}, {y}, {}, "y0 = x0 + 1");
      kept = y;
    });
    CHECK(allocated() == before + recording.bytes());
    recording = Recording();
  }
  std::vector<Tensor> others;
  for (int i = 0; i < 8; i++) {
    others.emplace_back(own_stream, Shape{4096});
    fill(own_stream, 1e9, others.back());
  }
  CHECK(read<float>(own_stream, kept) == std::vector<float>(4096, 10));
  others.clear();
  kept = Tensor();
  CHECK(allocated() == 0);
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
