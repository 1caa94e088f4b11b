// GEMM with constant operands: what a plan keeps of them never shows in results, and ends when it should.
#include <cstring>
#include <thread>

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

TEST_CASE("gemm constants: kept by memory, until forgotten or the plan ends", "[gemm]") {
  const GemmCase x(24, 200, 100, false, true);
  for (const std::string& engine : serving_gemm_engines()) {
    INFO("engine=" << engine);
    const GemmData data = integer_data(x), other = integer_data(x, 2);
    const Tensor a = operand_a(x, data), b = operand_b(x, data), b2 = operand_b(x, other);
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
    CHECK(context().memory_stats().allocated == before);
  }
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
