// GEMM with constant operands: what a plan keeps of them never shows in results, and ends when it should.
#include <cstring>
#include <thread>

#include <dlprim/copy.hpp>
#include <dlprim/error.hpp>
#include <dlprim/recording.hpp>
#include <dlprim/rehearsal.hpp>

#include "cases/gemm.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

GemmDesc desc_of(const GemmCase& x, const Tensor& a, const Tensor& b) {
  GemmDesc desc{a, b, TensorDesc(x.batch == 0 ? Shape{x.m, x.n} : Shape{x.batch, x.m, x.n}, x.c_dtype)};
  desc.alpha = x.alpha;
  desc.activation = x.activation;
  return desc;
}

std::vector<unsigned char> run(const Gemm& plan, const GemmDesc& desc, const Tensor& a, const Tensor& b,
                               const Stream& on = stream()) {
  const Tensor c(on, desc.c.shape, desc.c.dtype);
  plan.run(on, a, b, {}, c);
  on.finish();
  return host_bytes(c);
}

std::vector<GemmCase> cases() {
  std::vector<GemmCase> list;
  for (const bool a : {false, true})
    for (const bool b : {false, true}) {
      list.emplace_back(13, 35, 9, a, b);
      list.emplace_back(61, 133, 600, a, b);
    }
  GemmCase x(30, 50, 300, false, true);
  x.batch = 3;
  list.push_back(x);
  x.one_b = true;
  list.push_back(x);
  x.dtype = DType::f16;
  list.push_back(x);
  x.dtype = x.c_dtype = DType::bf16;
  list.push_back(x);
  x.dtype = DType::i8;
  x.c_dtype = DType::i32;
  list.push_back(x);
  list.emplace_back(20, 30, 0);
  return list;
}

}  // namespace

TEST_CASE("gemm constants: results have the same bits as without", "[gemm]") {
  for (const std::string& engine : serving_gemm_engines())
    for (const GemmCase& x : cases()) {
      INFO("engine=" << engine << " " << x.text());
      const GemmData data = x.dtype == DType::i8 ? integer_data(x) : real_data(x);
      const Tensor a = operand_a(x, data), b = operand_b(x, data);
      GemmDesc desc = desc_of(x, a, b);
      const std::string no = error_of<ValidationError>([&] { Gemm(context(), desc, gemm_engine(engine)); });
      if (no != "(nothing was thrown)") {  // an engine that has no whole numbers
        CHECK(no.find(" refused:") != std::string::npos);
        CHECK(x.dtype == DType::i8);
        continue;
      }
      const Gemm plain(context(), desc, gemm_engine(engine));
      const std::vector<unsigned char> expected = run(plain, desc, a, b);
      for (int which = 1; which <= 3; which++) {
        desc.constant_a = which % 2 != 0;
        desc.constant_b = which >= 2;
        const Gemm plan(context(), desc, gemm_engine(engine));
        CHECK(run(plan, desc, a, b) == expected);
        CHECK(run(plan, desc, a, b) == expected);
      }
    }
}

TEST_CASE("gemm constants: kept by memory, until forgotten or the weight ends", "[gemm]") {
  const GemmCase x(24, 200, 100, false, true);
  for (const std::string& engine : serving_gemm_engines()) {
    INFO("engine=" << engine);
    const GemmData data = integer_data(x), other = integer_data(x, 2);
    const Tensor a = operand_a(x, data);
    const uint64_t without = context().memory_stats().allocated;
    Tensor b = operand_b(x, data), b2 = operand_b(x, other);
    GemmDesc desc = desc_of(x, a, b);
    const Gemm plain(context(), desc, gemm_engine(engine));
    const auto expected = run(plain, desc, a, b), expected2 = run(plain, desc, a, b2);
    REQUIRE(expected != expected2);
    const bool keeps = engine == "cpu" || engine == "nv_wgmma" || engine == "nv_mma";
    const uint64_t before = context().memory_stats().allocated;
    {
      desc.constant_b = true;
      const Gemm plan(context(), desc, gemm_engine(engine));
      {
        const Rehearsal rehearsal;  // where nothing is computed, and so nothing kept
        plan.run(stream(), a, b, {}, Tensor(stream(), desc.c.shape));
      }
      CHECK(run(plan, desc, a, b) == expected);
      const uint64_t one = context().memory_stats().allocated;
      if (keeps) CHECK(one >= before + 200 * 100 * sizeof(float));
      CHECK(run(plan, desc, a, b.as_strided(b.shape(), b.strides())) == expected);  // a view: the same memory
      CHECK(context().memory_stats().allocated == one);
      CHECK(run(plan, desc, a, b2) == expected2);
      CHECK(run(plan, desc, a, b) == expected);

      copy(stream(), b2, b);  // against the promise
      if (keeps) CHECK(run(plan, desc, a, b) == expected);
      plan.forget_constants();
      CHECK(context().memory_stats().allocated == before);
      CHECK(run(plan, desc, a, b) == expected2);

      for (const uint64_t seed : {3, 4, 5}) {  // tensors that end, and whose memory the next one has
        const GemmData more = integer_data(x, seed);
        const Tensor brief = operand_b(x, more);
        CHECK(run(plan, desc, a, brief) == run(plain, desc, a, brief));
      }
    }
    stream().finish();
    if (keeps) CHECK(context().memory_stats().allocated > before);
    b = b2 = Tensor();
    CHECK(context().memory_stats().allocated == without);
  }
}

TEST_CASE("gemm constants: plans of other sizes share what is kept of a weight", "[gemm]") {
  for (const std::string& engine : serving_gemm_engines())
    for (const DType dtype : {DType::f32, DType::f16}) {
      INFO("engine=" << engine << " dtype=" << name_of(dtype));
      GemmCase x(1, 70, 300, false, true);
      x.dtype = x.c_dtype = dtype;
      const Tensor b = operand_b(x, real_data(x));
      std::vector<std::vector<unsigned char>> expected, given;
      uint64_t first = 0, last = 0;
      for (const bool constant : {false, true})
        for (const int rows : {1, 2, 7, 8, 9, 30, 61, 130, 300}) {
          x.m = rows;
          const Tensor a = operand_a(x, real_data(x));
          GemmDesc desc = desc_of(x, a, b);
          desc.constant_b = constant;
          if (error_of<ValidationError>([&] { Gemm(context(), desc, gemm_engine(engine)); }) !=
              "(nothing was thrown)")
            continue;
          const uint64_t before = context().memory_stats().allocated;
          (constant ? given : expected)
              .push_back(run(Gemm(context(), desc, gemm_engine(engine)), desc, a, b));
          if (constant && first == 0) first = context().memory_stats().allocated - before;
          if (constant) last = context().memory_stats().allocated - before;
        }
      CHECK(given == expected);
      if (engine == "cpu") CHECK(first >= 70 * 300 * sizeof(float));
      CHECK(last == 0);
    }
}

TEST_CASE("gemm constants: the engine that is chosen packs a weight in one form for all sizes on CPUs",
          "[gemm]") {
  if (context().device().kind() != DeviceKind::cpu) return;  // others choose among engines by the size
  for (const int64_t n : {256, 1024}) {
    const Tensor b(stream(), {n, n});
    fill(stream(), 1, b);
    uint64_t kept = 0;
    for (const int64_t rows : {2, 3, 9, 16, 30, 33, 38, 64, 150, 400}) {
      const Tensor a(stream(), {rows, n}), c(stream(), {rows, n});
      fill(stream(), 1, a);
      const uint64_t before = context().memory_stats().allocated;
      GemmDesc desc{a, b, c};
      desc.constant_b = true;
      Gemm(context(), desc).run(stream(), a, b, {}, c);
      kept += context().memory_stats().allocated - before;
      CHECK(host_values(c)[0] == static_cast<float>(n));
    }
    CHECK(kept <= static_cast<uint64_t>(n * n) * sizeof(float) * 17 / 16);
  }
}

TEST_CASE("gemm constants: they go when memory is short, but for those in use", "[gemm]") {
  const Context own(context().device());
  const Stream on(own);
  constexpr int64_t n = 512, k = 1024;  // 2 MiB
  const Gemm plan = [&] {
    GemmDesc desc{TensorDesc({4, k}), TensorDesc({k, n}), TensorDesc({4, n})};
    desc.constant_b = true;
    return Gemm(own, desc, gemm_engine("cpu"));
  }();
  std::vector<Tensor> weights;
  const Tensor a(on, {4, k}), c(on, {4, n});
  fill(on, 1, a);
  own.set_memory_limit(uint64_t{60} << 20);
  for (int i = 0; i < 20; i++) {  // 40 MiB of weights, and as much again were they all kept
    weights.emplace_back(on, Shape{k, n});
    fill(on, i + 1, weights.back());
    plan.run(on, a, weights.back(), {}, c);
    CHECK(read<float>(on, c)[5] == static_cast<float>(k * (i + 1)));
  }
  for (int i = 0; i < 20; i++) {  // those that went are made again
    plan.run(on, a, weights[static_cast<size_t>(i)], {}, c);
    CHECK(read<float>(on, c)[5] == static_cast<float>(k * (i + 1)));
  }
  CHECK(own.memory_stats().held <= uint64_t{60} << 20);
  own.empty_cache();
  CHECK(own.memory_stats().allocated < uint64_t{42} << 20);
  const std::string short_of = error_of<OutOfMemory>([&] { const Tensor large(on, {int64_t{16} << 20}); });
  CHECK(short_of.find("out of device memory") != std::string::npos);
  plan.run(on, a, weights[3], {}, c);
  CHECK(read<float>(on, c)[5] == 4.0F * k);
}

TEST_CASE("gemm constants: a recording prepares nothing in its replays", "[gemm]") {
  const GemmCase x(24, 200, 100, false, true);
  const GemmData data = integer_data(x);
  const Tensor a = operand_a(x, data), b = operand_b(x, data);
  GemmDesc desc = desc_of(x, a, b);
  const auto expected = run(Gemm(context(), desc, gemm_engine("cpu")), desc, a, b);
  desc.constant_b = true;
  const Gemm plan(context(), desc, gemm_engine("cpu"));
  const Tensor c(stream(), desc.c.shape, desc.c.dtype);
  const auto recorded = [&] { return Recording::packed(stream(), [&] { plan.run(stream(), a, b, {}, c); }); };
  const Recording recording = recorded();
  CHECK(host_bytes(c) == expected);
  CHECK(recording.launches() == recorded().launches());  // the second found b prepared
  plan.forget_constants();
  context().empty_cache();
  fill(stream(), 0, c);
  recording.replay();
  CHECK(host_bytes(c) == expected);
}

TEST_CASE("gemm constants: one plan on several streams and threads", "[gemm][threads]") {
  const GemmCase x(40, 150, 300, false, true);
  const GemmData data = integer_data(x);
  const Tensor a = operand_a(x, data), b = operand_b(x, data);
  GemmDesc desc = desc_of(x, a, b);
  const auto expected = run(Gemm(context(), desc), desc, a, b);
  desc.constant_a = desc.constant_b = true;
  // An engine that keeps something: `cpu` serves everywhere.
  const bool on_matrix = gemm_refusal_by_name("nv_wgmma").empty();
  const Gemm plan(context(), desc, gemm_engine(on_matrix ? "nv_wgmma" : "cpu"));
  run(plan, desc, a, b);  // its kernels run once before several threads start them
  for (int round = 0; round < 5; round++) {
    plan.forget_constants();
    const Stream first(context()), second(context());
    const Tensor c1(first, desc.c.shape), c2(second, desc.c.shape);
    plan.run(first, a, b, {}, c1);
    plan.run(second, a, b, {}, c2);  // what the first stream prepares is not done yet
    second.finish();
    CHECK(host_bytes(c2) == expected);
    first.finish();
    CHECK(host_bytes(c1) == expected);

    plan.forget_constants();
    std::vector<std::vector<unsigned char>> results(3);
    std::vector<std::thread> threads;
    for (auto& result : results)
      threads.emplace_back([&] {
        const Stream own(context());
        const Tensor c(own, desc.c.shape);
        for (int i = 0; i < 3; i++) plan.run(own, a, b, {}, c);
        std::vector<float> values = read<float>(own, c);
        result.resize(values.size() * sizeof(float));
        std::memcpy(result.data(), values.data(), result.size());
      });
    for (std::thread& thread : threads) thread.join();
    for (const auto& result : results) CHECK(result == expected);
  }
}
