// Models that are fed many shapes: what is kept of them, how much, and what goes when memory is short.
#include <atomic>
#include <thread>

#include <dlprim/copy.hpp>
#include <dlprim/net_host.hpp>
#include <dlprim/net_model.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr int64_t kWidth = 256;

HostTensor weights(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> values;
  for (int64_t i = 0; i < element_count(shape); i++)
    values.push_back(static_cast<double>(rng.integer(-2, 2)) / 16);
  return host_tensor(DType::f32, shape, values);
}

/// Three products, each with a bias that a pass makes another constant of, and an activation.
NetGraph products(uint64_t seed = 1) {
  NetGraph g;
  int x = g.add_input("x", DType::f32, {{-1, "rows"}, {kWidth}});
  for (uint64_t i = 0; i < 3; i++) {
    x = g.add("matmul", {x, g.add_constant(weights({kWidth, kWidth}, seed + i))});
    x = g.add("elementwise", {x, g.add_constant(weights({1, kWidth}, seed + 10 + i))}, {{"function", "add"}});
    x = g.add("elementwise", {x}, {{"function", "relu"}});
  }
  g.add_output("y", x);
  return g;
}

Tensor rows_of(const Stream& on, int64_t rows) {
  Rng rng(static_cast<uint64_t>(rows));
  std::vector<float> values;
  for (int64_t i = 0; i < rows * kWidth; i++) values.push_back(static_cast<float>(rng.integer(-3, 3)));
  const Tensor x(on, {rows, kWidth});
  write(on, x, values);
  return x;
}

std::vector<float> run(const Model& model, const Stream& on, int64_t rows) {
  return read<float>(on, model.run(on, {{"x", rows_of(on, rows)}}).at("y"));
}

}  // namespace

TEST_CASE("many lengths take hardly more memory than one, and keep their recordings") {
  const Context own(context().device());
  const Stream on(own);
  const Model model{products()};
  constexpr int64_t kLengths = 60;
  for (int i = 0; i < 3; i++) run(model, on, kLengths);
  const uint64_t one = own.memory_stats().allocated;
  std::vector<std::vector<float>> expected;
  for (int round = 0; round < 4; round++)
    for (int64_t rows = 1; rows <= kLengths; rows++) {
      const std::vector<float> y = run(model, on, rows);
      if (round == 0) expected.push_back(y);
      CHECK(y == expected[static_cast<size_t>(rows - 1)]);
    }
  CHECK(own.memory_stats().allocated < one + one * 3 / 10);
  // All are replayed: nothing is compiled, and no plan is looked for.
  const uint64_t asked =
      own.program_stats().reused + own.program_stats().built + own.program_stats().from_disk;
  for (int64_t rows = 1; rows <= kLengths; rows++) run(model, on, rows);
  const uint64_t now = own.program_stats().reused + own.program_stats().built + own.program_stats().from_disk;
  CHECK(now == asked);
}

TEST_CASE("a model keeps as many recordings as it was told to, and as many bytes") {
  const Context own(context().device());
  const Stream on(own);
  const auto asked = [&] { return own.program_stats().reused; };
  for (const bool by_bytes : {false, true}) {
    INFO(by_bytes);
    const Model model{products()};
    Model::Kept kept;
    if (by_bytes)
      kept.bytes = 0;  // the last alone
    else
      kept.recordings = 2;
    model.keep(kept);
    const std::vector<float> one = run(model, on, 1), two = run(model, on, 2), three = run(model, on, 3);
    const auto again = [&](int64_t rows, const std::vector<float>& expected) {
      for (int i = 0; i < 3; i++) CHECK(run(model, on, rows) == expected);
    };
    again(1, one), again(2, two), again(3, three);
    uint64_t before = asked();
    again(3, three);
    if (!by_bytes) again(2, two);
    CHECK(asked() == before);  // they are replayed
    again(1, one);
    CHECK(asked() > before);  // it had gone
    model.keep({});
    again(2, two), again(3, three), again(1, one);
    before = asked();
    again(2, two), again(3, three), again(1, one);
    CHECK(asked() == before);
  }
}

TEST_CASE("empty_cache gives back recordings and prepared constants, and the model goes on") {
  const Context own(context().device());
  const Stream on(own);
  const Model model{products()};
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < 3; i++)
    for (int64_t rows : {3, 90, 40}) expected.push_back(run(model, on, rows));
  const uint64_t full = own.memory_stats().allocated;
  own.empty_cache();
  const uint64_t left = own.memory_stats().allocated;
  CHECK(left < full);
  CHECK(left <= 3 * (kWidth * kWidth + 2 * kWidth) * sizeof(float) * 11 / 10 + 3 * 1024);  // the weights
  for (int i = 0; i < 3; i++)
    for (int64_t rows : {3, 90, 40}) expected.push_back(run(model, on, rows));
  for (size_t i = 3; i < expected.size(); i++) CHECK(expected[i] == expected[i % 3]);
}

TEST_CASE("a limit under what all shapes would take throws nowhere") {
  std::vector<Model> models;
  for (uint64_t i = 0; i < 2; i++) models.emplace_back(products(100 * i + 1));
  constexpr size_t kLengths = 6;
  std::vector<std::vector<float>> expected(2 * kLengths);
  const auto run_all = [&](const Stream& on, bool first) {
    for (size_t m = 0; m < models.size(); m++)
      for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < kLengths; i++) {
          const std::vector<float> y = run(models[m], on, static_cast<int64_t>(1 + 1700 * i));
          if (first && k == 0) expected[kLengths * m + i] = y;
          CHECK(y == expected[kLengths * m + i]);
        }
  };
  const Context own(context().device()), limited(context().device());
  const Stream on(own), within(limited);
  run_all(on, true);
  const uint64_t limit = uint64_t{80} << 20;  // a run of the longest takes about 55
  REQUIRE(own.memory_stats().allocated > limit);
  limited.set_memory_limit(limit);
  run_all(within, false);
  run_all(within, false);
  CHECK(limited.memory_stats().held <= limit);
}

TEST_CASE("models of several threads take memory from each other", "[threads]") {
  const Context own(context().device());
  const Stream on(own);
  const Model first{products()};
  const auto length = [](size_t i) { return static_cast<int64_t>(1 + 150 * i); };
  std::vector<std::vector<float>> expected;
  for (size_t i = 0; i < 6; i++) expected.push_back(run(first, on, length(i)));
  own.empty_cache();
  own.set_memory_limit(uint64_t{64} << 20);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; t++)
    threads.emplace_back([&] {
      try {
        const Stream mine(own);
        std::vector<Model> models;
        for (int m = 0; m < 4; m++) models.emplace_back(products());
        for (int k = 0; k < 3; k++)
          for (const Model& model : models)
            for (size_t i = 0; i < 6; i++)
              if (run(model, mine, length(i)) != expected[i]) wrong++;
      } catch (const Error&) {
        wrong += 1000;
      }
    });
  for (int i = 0; i < 20; i++) own.empty_cache();
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("constants that a pass makes for several shapes are one") {
  // A folded BatchNorm: other weights than the model's, for each shape that is rewritten.
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{-1}, {kWidth}});
  const int h = g.add("matmul", {x, g.add_constant(weights({kWidth, kWidth}, 3))});
  const int b = g.add_constant(weights({1, kWidth}, 4));
  g.add_output("y", g.add("elementwise", {h, b}, {{"function", "add"}}));
  const Context own(context().device());
  const Stream on(own);
  const Model model{g};
  for (int i = 0; i < 3; i++) run(model, on, 64);
  const uint64_t one = own.memory_stats().allocated;
  for (int i = 0; i < 3; i++)
    for (int64_t rows = 1; rows < 64; rows++) run(model, on, rows);
  CHECK(own.memory_stats().allocated <= one + one / 10);
}
