// The pointwise-broadcast-reduce generator: values, forms of strides, dtypes, bad input, generated text.
#include <dlprim/copy.hpp>
#include <dlprim/elementwise.hpp>
#include <dlprim/masked.hpp>
#include <dlprim/multi_pointwise.hpp>
#include <dlprim/pointwise.hpp>

#include <cmath>
#include <limits>

#include "cases/nn.hpp"
#include "cases/pointwise.hpp"
#include "catch.hpp"
#include "core/engine.hpp"
#include "core/gen/expression_check.hpp"
#include "core/gen/pointwise.hpp"
#include "core/gen/slots.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

void run(const char* name, const std::vector<Tensor>& xs, const std::vector<Tensor>& ys,
         const std::vector<Scalar>& scalars, const std::string& body) {
  Pointwise(context(), described(xs), described(ys), static_cast<int>(scalars.size()), body, engine(name))
      .run(stream(), xs, ys, scalars);
}

/// Elements of a broadcast view in row-major order of `shape`.
std::vector<float> expanded(const Tensor& x, const Shape& shape) {
  return host_values(x.expand(shape));
}

}  // namespace

TEST_CASE("pointwise adds broadcast inputs of many forms", "[small]") {
  struct Case {
    Shape a, b, y;
  };
  const std::vector<Case> cases = {
      {{7}, {7}, {7}},
      {{8}, {1}, {8}},
      {{1}, {1}, {1}},
      {{0}, {1}, {0}},
      {{3, 0, 2}, {3, 0, 2}, {3, 0, 2}},
      {{}, {}, {}},
      {{2, 3, 5, 7}, {3, 1, 1}, {2, 3, 5, 7}},
      {{2, 3, 4, 8}, {3, 1, 1}, {2, 3, 4, 8}},
      {{4, 1, 8}, {5, 1}, {4, 5, 8}},
      {{1, 6}, {5, 1}, {5, 6}},
      {{2, 1, 2, 1, 2, 1, 2, 3}, {1, 3, 1, 2, 1, 2, 1, 3}, {2, 3, 2, 2, 2, 2, 2, 3}},
      {{1023}, {1023}, {1023}},
      {{4096}, {4096}, {4096}},
      {{257, 33}, {33}, {257, 33}}};
  Rng rng(1);
  for (const Case& c : cases)
    for (const char* name : engines()) {
      INFO("engine " << name << " a " << to_string(c.a) << " b " << to_string(c.b));
      const Tensor a = device_tensor(c.a, integers(element_count(c.a), rng));
      const Tensor b = device_tensor(c.b, integers(element_count(c.b), rng));
      const Guarded y(c.y);
      run(name, {a, b}, {y.tensor()}, {10}, "y0 = s0 * x0 + x1");
      const std::vector<float> va = expanded(a, c.y), vb = expanded(b, c.y);
      std::vector<float> expected(va.size());
      for (size_t i = 0; i < va.size(); i++) expected[i] = 10 * va[i] + vb[i];
      CHECK(host_values(y.tensor()) == expected);
      CHECK(y.intact());
    }
}

TEST_CASE("pointwise follows strides, offsets and permutations", "[small]") {
  Rng rng(2);
  const Tensor base = device_tensor({4, 6, 8, 10}, integers(1920, rng, 100));
  const std::vector<Tensor> views = {base.permute({0, 2, 3, 1}), base.slice(3, 1, 10, 2),
                                     base.slice(0, 1, 3),        base.slice(1, 2, 3),
                                     base.transpose(0, 3),       base.slice(3, 3, 4)};
  for (const Tensor& x : views)
    for (const char* name : engines()) {
      INFO("engine " << name << " shape " << to_string(x.shape()) << " strides " << to_string(x.strides()));
      std::vector<float> expected = host_values(x);
      for (float& v : expected) v += 1;
      const Guarded same(x.shape());
      run(name, {x}, {same.tensor()}, {}, "y0 = x0 + 1");
      CHECK(host_values(same.tensor()) == expected);
      CHECK(same.intact());
      Strides gaps = contiguous_strides(x.shape());
      for (int i = 0; i < gaps.size(); i++) gaps[i] = gaps[i] * 2 + (i == 0 ? 1 : 0);
      const Guarded strided(x.shape(), gaps, DType::f32, 5);
      run(name, {x}, {strided.tensor()}, {}, "y0 = x0 + 1");
      CHECK(host_values(strided.tensor()) == expected);
      CHECK(strided.intact());
    }
}

TEST_CASE("pointwise over elements with gaps between them, in place too", "[small]") {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8, DType::boolean})
    for (const char* body : {"y0 = 1 - x0", "y0 = fabs((float)x0 - 1)"})  // the second calls a function
      for (const char* name : engines()) {
        INFO(name << ' ' << name_of(dtype) << ' ' << body);
        Rng rng(12);
        std::vector<float> values = integers(1300, rng, dtype == DType::boolean ? 0 : 100);
        for (size_t i = 0; i < values.size(); i += 3) values[i] = 1;
        const Guarded y({1300}, {3}, dtype, 5);
        run(name, {device_tensor({1300}, values, dtype)}, {y.tensor()}, {}, "y0 = x0");
        for (int round = 0; round < 2; round++) {
          run(name, {y.tensor()}, {y.tensor()}, {}, body);
          for (float& v : values) {
            v = body[5] == '1' ? 1 - v : std::abs(v - 1);
            if (dtype == DType::boolean) v = v != 0;
          }
          CHECK(host_values(y.tensor()) == values);
        }
        CHECK(y.intact());
      }
}

TEST_CASE("pointwise converts every dtype to every other", "[small]") {
  const std::vector<DType> dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8,
                                     DType::u8,  DType::i16, DType::i32,  DType::i64, DType::boolean,
                                     DType::u16, DType::u32, DType::u64};
  const std::vector<float> values = {0, 1, 2, 3, 100, 127, 5, 64, 1, 0, 17, 6, 9};
  std::vector<DType> usable;
  for (DType dtype : dtypes)
    if (dtype != DType::f64 || has_doubles()) usable.push_back(dtype);
  for (DType from : usable) {
    // One kernel with an output of every dtype: a hundred kernels would take a minute to compile.
    std::vector<Guarded> guards;
    std::vector<Tensor> ys;
    std::string body;
    for (DType to : usable) {
      body += "y" + std::to_string(guards.size()) + (to == DType::boolean ? " = x0 != 0; " : " = x0; ");
      guards.emplace_back(Shape{13}, to);
      ys.push_back(guards.back().tensor());
    }
    pointwise(stream(), {device_tensor({13}, values, from)}, ys, {}, body);
    for (size_t i = 0; i < usable.size(); i++) {
      INFO(name_of(from) << " to " << name_of(usable[i]));
      std::vector<float> expected = values;
      if (from == DType::boolean || usable[i] == DType::boolean)
        for (float& v : expected) v = v != 0;
      CHECK(host_values(ys[i]) == expected);
      CHECK(guards[i].intact());
    }
  }
}

TEST_CASE("every dtype is read and written several elements at a time", "[small]") {
  const std::vector<DType> narrow = {DType::f16, DType::bf16,    DType::i16, DType::i8,
                                     DType::u8,  DType::boolean, DType::u16};
  std::vector<DType> all = narrow;
  all.insert(all.end(), {DType::f32, DType::i32, DType::u32});
  for (const auto& [dtypes, count] : {std::pair(narrow, 40), std::pair(all, 20)})  // by 8, by 4
    for (DType from : dtypes) {
      std::vector<float> values;
      for (int i = 0; i < count; i++) values.push_back(static_cast<float>(i * 7 % 128));
      const Tensor x = device_tensor({count}, values, from);
      std::vector<Guarded> guards;
      std::vector<Tensor> ys;
      std::string body;
      for (DType to : dtypes) {
        body += "y" + std::to_string(guards.size()) + (to == DType::boolean ? " = x0 != 0; " : " = x0; ");
        guards.emplace_back(Shape{count}, to);
        ys.push_back(guards.back().tensor());
      }
      Pointwise(context(), {x}, {ys.begin(), ys.end()}, 0, body, engine("gpu")).run(stream(), {x}, ys, {});
      for (size_t i = 0; i < dtypes.size(); i++) {
        INFO(count << " of " << name_of(from) << " to " << name_of(dtypes[i]));
        std::vector<float> expected = values;
        if (from == DType::boolean || dtypes[i] == DType::boolean)
          for (float& v : expected) v = v != 0;
        CHECK(host_values(ys[i]) == expected);
        CHECK(guards[i].intact());
      }
    }
}

TEST_CASE("copy converts, and makes bool of what is not zero", "[small]") {
  const Tensor x = device_tensor({4}, {0, 0.5f, -0.0f, -3});
  const Guarded truth({4}, DType::boolean), whole({4}, DType::i32);
  copy(stream(), x, truth.tensor());
  copy(stream(), x, whole.tensor());
  CHECK(host_values(truth.tensor()) == std::vector<float>{0, 1, 0, 1});
  CHECK(host_values(whole.tensor()) == std::vector<float>{0, 0, 0, -3});
  CHECK((truth.intact() && whole.intact()));
  CHECK_THROWS_AS(copy(stream(), Tensor(), whole.tensor()), ValidationError);
}

TEST_CASE("the 16-bit floats round to nearest even and keep special values", "[small]") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {1.0f,          1.00048828125f, 1.001f,       65504,    65519,
                                     65520,         1e30f,          -1e30f,       inf,      -inf,
                                     5.9604645e-8f, 2.9e-8f,        -0.0f,        0.0f,     1e-7f,
                                     3.14159265f,   0x1p-14f,       0x1.ffcp-15f, -2.5e-6f, 1.0f / 3};
  const auto n = static_cast<int64_t>(values.size());
  const Tensor x = device_tensor({n}, values);
  for (DType to : {DType::f16, DType::bf16}) {
    INFO(name_of(to));
    CHECK(host_bytes(cast(stream(), x, to)) == host_bytes(device_tensor({n}, values, to)));
    CHECK(std::isnan(host_values(cast(stream(), device_tensor({1}, {std::nanf("")}), to))[0]));
  }
}

TEST_CASE("pointwise has several outputs and mixes dtypes", "[small]") {
  const Tensor f = device_tensor({4}, {0.5f, -1.5f, 2, 7});
  const Tensor i = device_tensor({4}, {1, 2, 3, 4}, DType::i32);
  const Tensor h = device_tensor({1}, {0.25f}, DType::f16);
  const Guarded sum({4}), above({4}, DType::boolean), whole({4}, DType::i64);
  pointwise(stream(), {f, i, h}, {sum.tensor(), above.tensor(), whole.tensor()}, {1.0},
            "y0 = x0 + x1 + x2; y1 = x0 > s0; y2 = x1 * 1000000007L");
  CHECK(host_values(sum.tensor()) == std::vector<float>{1.75f, 0.75f, 5.25f, 11.25f});
  CHECK(host_values(above.tensor()) == std::vector<float>{0, 0, 1, 1});
  CHECK(read<int64_t>(stream(), whole.tensor()) ==
        std::vector<int64_t>{1000000007, 2000000014, 3000000021, 4000000028});
  CHECK((sum.intact() && above.intact() && whole.intact()));
}

TEST_CASE("integer tensors have 64-bit scalars", "[small]") {
  const Tensor x(context(), {2}, DType::i64);
  write(stream(), x, std::vector<int64_t>{int64_t{1} << 40, -5});
  const Tensor y(context(), {2}, DType::i64);
  pointwise(stream(), {x}, {y}, {1099511627776.0}, "y0 = x0 - s0");
  CHECK(read<int64_t>(stream(), y) == std::vector<int64_t>{0, -5 - (int64_t{1} << 40)});
  CHECK_THROWS_AS(pointwise(stream(), {x}, {y}, {std::nan("")}, "y0 = x0 - s0"), ValidationError);
}

TEST_CASE("whole numbers stay exact in all 64 bits", "[small]") {
  const int64_t big = (int64_t{1} << 60) + 1, least = std::numeric_limits<int64_t>::min();
  const std::vector<int64_t> numbers{5, -7, 0};
  const Tensor x(context(), {3}, DType::i64), y(context(), {3}, DType::i64), sum(context(), {1}, DType::i64);
  write(stream(), x, numbers);
  for (const char* name : engines()) {
    run(name, {x}, {y}, {big, least}, "y0 = x0 == -7 ? s1 : x0 + s0");
    CHECK(read<int64_t>(stream(), y) == std::vector<int64_t>{big + 5, least, big});
  }
  reduce(stream(), {x}, {sum}, {big}, sum_of("x0", "y0 = a0 + s0"));
  CHECK(read<int64_t>(stream(), sum) == std::vector<int64_t>{big - 2});
  fill(stream(), big, y);
  CHECK(read<int64_t>(stream(), y) == std::vector<int64_t>(3, big));
  const Tensor mask(context(), {3}, DType::boolean);
  write(stream(), mask, std::vector<bool>{false, true, false});
  masked_fill(stream(), x, mask, -big, y);
  CHECK(read<int64_t>(stream(), y) == std::vector<int64_t>{5, -big, 0});
  elementwise(stream(), "clip", {y}, {-big + 1, 3}, x);
  CHECK(read<int64_t>(stream(), x) == std::vector<int64_t>{3, -big + 1, 0});
  // As a float a whole number is rounded; what no i64 holds is refused where all tensors are whole.
  const Tensor f(context(), {1});
  fill(stream(), big, f);
  CHECK(host_values(f) == std::vector<float>{0x1p60f});
  CHECK_THROWS_AS(fill(stream(), std::numeric_limits<uint64_t>::max(), y), ValidationError);
  CHECK_THROWS_AS(fill(stream(), 0x1p63, y), ValidationError);
}

TEST_CASE("NaN scalars and inputs pass through floats", "[small]") {
  const Tensor x = device_tensor({3}, {1, std::nanf(""), -2});
  const Tensor y(context(), {3});
  pointwise(stream(), {x}, {y}, {}, "y0 = relu(x0)");
  const std::vector<float> v = host_values(y);
  CHECK((v[0] == 1 && std::isnan(v[1]) && v[2] == 0));
  pointwise(stream(), {x}, {y}, {std::nan("")}, "y0 = x0 * s0");
  for (float value : host_values(y)) CHECK(std::isnan(value));
}

TEST_CASE("an output may be an input, element for element", "[small]") {
  for (const char* name : engines()) {
    const Tensor x = device_tensor({1000}, std::vector<float>(1000, 3));
    run(name, {x}, {x}, {2}, "y0 = x0 * s0");
    CHECK(host_values(x) == std::vector<float>(1000, 6));
    CHECK_THROWS_AS(run(name, {x.slice(0, 0, 999)}, {x.slice(0, 1, 1000)}, {}, "y0 = x0"), ValidationError);
    CHECK(host_values(x) == std::vector<float>(1000, 6));
  }
}

TEST_CASE("quotients and roots of f32 are rounded correctly where the device can", "[small]") {
  const DeviceFacts& facts = context().device().facts();
  if (facts.kind == DeviceKind::gpu && !facts.rounds_quotients)
    return note_skipped("the device rounds no quotients");
  Rng rng(12);
  const int64_t count = 20000;
  const std::vector<float> va = reals(count, rng), vb = reals(count, rng);
  const Tensor a = device_tensor({count}, va), b = device_tensor({count}, vb);
  for (const char* name : engines()) {
    INFO("engine " << name);
    const Guarded y({count});
    run(name, {a, b}, {y.tensor()}, {}, "y0 = x0 / x1 - sqrt(fabs(x0))");
    std::vector<float> expected(va.size());
    for (size_t i = 0; i < va.size(); i++) expected[i] = va[i] / vb[i] - std::sqrt(std::fabs(va[i]));
    CHECK(host_values(y.tensor()) == expected);
  }
}

TEST_CASE("an element count beyond a work-group's share is covered once") {
  for (int64_t n : {int64_t{100003}, int64_t{1} << 20}) {
    for (const char* name : engines()) {
      INFO(name << " " << n);
      const Tensor x(context(), {n});
      fill(stream(), 1, x);
      run(name, {x}, {x}, {}, "y0 = x0 + 1");
      CHECK(host_values(x) == std::vector<float>(static_cast<size_t>(n), 2));
    }
  }
}

TEST_CASE("what benchmarks time is right") {
  for (const cases::PointwiseCase& c : cases::pointwise_cases(1)) {
    if (!is_selected(c.name)) continue;
    INFO(again(c.name));
    Rng rng(21);
    std::vector<std::vector<float>> values;
    std::vector<Tensor> xs;
    for (const Shape& shape : c.inputs) {
      values.push_back(integers(element_count(shape), rng));
      xs.push_back(device_tensor(shape, values.back()));
    }
    const Guarded y(c.output);
    c.run(stream(), xs, y.tensor());
    // Welford's means are rounded; each of 3136 terms then adds three roundings at most.
    const double bound = c.reduction.accumulators == 3 ? 3 * 3136 * 0x1p-24 : 0;
    CHECK(deviation(host_values(y.tensor()), c.reference(values)) <= bound);
    CHECK(y.intact());
  }
}

TEST_CASE("one kernel serves all shapes of a form", "[small]") {
  const Context own(context().device());
  const Stream s(own);
  const auto programs = [&] { return own.program_stats().built + own.program_stats().from_disk; };
  const auto once = [&](const Shape& shape) {
    const Tensor x(own, shape), y(own, shape);
    fill(s, 2, x);
    pointwise(s, {x}, {y}, {}, "y0 = x0 * 3");
    s.finish();
  };
  once({64});
  const uint64_t after = programs();
  for (const Shape& shape : {Shape{128}, Shape{8, 12}, Shape{2, 3, 4, 5, 6}}) once(shape);
  CHECK(programs() == after);
}

TEST_CASE("the kernels of a reduction serve all shapes of a form") {
  const Context own(context().device());
  const Stream s(own);
  const auto programs_after = [&](const Shape& from, const Shape& to) {
    const Tensor x(own, from), y(own, to);
    fill(s, 2, x);
    reduce(s, {x}, {y}, {}, sum_of("x0"));
    s.finish();
    return own.program_stats().built + own.program_stats().from_disk;
  };
  const uint64_t rows = programs_after({64, 4096}, {64, 1});
  CHECK(programs_after({48, 4100}, {48, 1}) == rows);
  CHECK(programs_after({8, 8, 4160}, {8, 8, 1}) == rows);
  const uint64_t columns = programs_after({512, 512}, {1, 512});
  CHECK(programs_after({516, 1024}, {1, 1024}) == columns);
  const uint64_t parts = programs_after({1 << 20}, {1});
  CHECK(programs_after({1 << 21}, {1}) == parts);
}

TEST_CASE("bad pointwise input is refused by name and value", "[small]") {
  const Tensor x = device_tensor({2, 3}, std::vector<float>(6, 1));
  const Tensor y(context(), {2, 3});
  const Tensor short_y(context(), {3});
  using V = ValidationError;
  const auto call = [&](std::vector<Tensor> xs, std::vector<Tensor> ys, std::vector<Scalar> s,
                        const char* body) {
    return error_of<V>([=] { pointwise(stream(), xs, ys, s, body); });
  };
  CHECK_THAT(call({x}, {short_y}, {}, "y0 = x0"),
             contains("inputs[0]") && contains("[2, 3]") && contains("[3]"));
  CHECK_THAT(call({x}, {}, {}, "y0 = x0"), contains("outputs"));
  CHECK_THAT(call({Tensor()}, {y}, {}, "y0 = x0"), contains("inputs[0]") && contains("not defined"));
  CHECK_THAT(call({x}, {y}, {}, "  "), contains("body"));
  CHECK_THAT(call({x}, {y}, {}, "y0 = x0 // note"), contains("comment"));
  CHECK_THAT(call({x}, {short_y.expand({2, 3})}, {}, "y0 = x0"),
             contains("outputs[0]") && contains("one address"));
  CHECK_THAT(call({x}, {y, y}, {}, "y0 = x0; y1 = x0"), contains("outputs[1]") && contains("outputs[0]"));
  const Context other(context().device());
  CHECK_THAT(call({Tensor(other, {2, 3})}, {y}, {}, "y0 = x0"), contains("another context"));
  pointwise(stream(), {x}, {y}, {}, "y0 = x0");
  CHECK(host_values(y) == std::vector<float>(6, 1));
}

TEST_CASE("errors of expressions name the expression and the place in it", "[small]") {
  const Tensor x = device_tensor({2, 3}, {1, 1, 1, 1, 1, 1}), y(context(), {2, 3}), sum(context(), {2, 1});
  const auto of_body = [&](const std::string& body, const std::vector<Tensor>& ys = {}) {
    return error_of<ValidationError>([&] {
      pointwise(stream(), {x, x}, ys.empty() ? std::vector{y} : ys, {2}, body);
    });
  };
  CHECK(of_body("x0") == "body: 'x0': output y0 is not assigned");
  CHECK(of_body("y0 == x0") == "body: 'y0 == x0': output y0 is not assigned");
  CHECK(of_body("y0 += x0") == "body: 'y0 += x0': output y0 is not assigned");
  CHECK(of_body("y0 = x0", {y, Tensor(context(), {2, 3})}) == "body: 'y0 = x0': output y1 is not assigned");
  CHECK(of_body("y0 = x0 + x2") == "body: 'y0 = x0 + x2': at 11: there is no x2; the inputs are x0 to x1");
  CHECK(of_body("y0 = x0; y1 = 3") ==
        "body: 'y0 = x0; y1 = 3': at 10: there is no y1; the only output is y0");
  CHECK(of_body("y0 = s1") == "body: 'y0 = s1': at 6: there is no s1; the only scalar is s0");
  CHECK(of_body("y0 = (x0 + 1") == "body: 'y0 = (x0 + 1': at 6: '(' is not closed");
  CHECK(of_body("y0 = x0) + 1") == "body: 'y0 = x0) + 1': at 8: ')' closes nothing");
  // What the device's compiler finds. Each has words of its own.
  for (const auto& [body, place] :
       {std::pair("y0 = no_such_function(x0)", "at 6: "), std::pair("y0 = x0 + wrong", "at 11: "),
        std::pair("y0 = x0 + ", "at "), std::pair("y0 = x0 @ x1", "at ")}) {
    CAPTURE(body);
    CHECK_THAT(of_body(body),
               Catch::StartsWith("body: '" + std::string(body) + "': ") && Catch::Contains(place));
  }
  // A compiler that only warns of a function that does not exist, and whose linker fails without a place.
  const std::string log =
      "<kernel>:1:9: warning: unused variable\n<kernel>:2:8: warning: implicit declaration of function 'f'\n"
      "fatal: Unresolved extern function 'f'\n";
  CHECK(error_of<ValidationError>([&] {
          detail::throw_expression_error(log, "y0 = 1; x0;\n  y0 = f(x0);\n", {{"body", "y0 = f(x0)"}});
        }) == "body: 'y0 = f(x0)': at 6: implicit declaration of function 'f'");
  // Names of one's own, and outputs by address, are fine.
  pointwise(stream(), {x}, {y}, {}, "real x7 = x0 + 1, s3 = 2; y0 = x7 * s3");
  CHECK(host_values(y) == std::vector<float>(6, 4));
  pointwise(stream(), {x}, {y}, {}, "y0 = sincos(x0 - x0, &y0) + 3");
  CHECK(host_values(y) == std::vector<float>(6, 3));

  const auto of_reduction = [&](Reduction r) {
    return error_of<ValidationError>([&] { reduce(stream(), {x}, {sum}, {}, r); });
  };
  const Reduction good{1, "a0 = 0", "a0 += x0", "a0 += b0", "y0 = a0"};
  reduce(stream(), {x}, {sum}, {}, good);
  CHECK(host_values(sum) == std::vector<float>(2, 3));
  Reduction r = good;
  r.finish = "a0";
  CHECK(of_reduction(r) == "finish: 'a0': output y0 is not assigned");
  r = good, r.accumulate = "a1 += x0";
  CHECK(of_reduction(r) == "accumulate: 'a1 += x0': at 1: there is no a1; the only accumulator is a0");
  r = good, r.combine = "a0 += b1";
  CHECK(of_reduction(r) == "combine: 'a0 += b1': at 7: there is no b1; the only partial accumulator is b0");
  r = good, r.finish = "y0 = a0 + x0";
  CHECK(of_reduction(r) == "finish: 'y0 = a0 + x0': at 11: there is no x0; there is no finishing input");
  r = good, r.accumulate = "a0 += wrong";
  CHECK_THAT(of_reduction(r), Catch::StartsWith("accumulate: 'a0 += wrong': at 7: "));

  MultiPointwiseTensors tensors;
  tensors.changed = {{y}};
  const auto of_many = [&](const std::string& body) {
    return error_of<ValidationError>([&] { multi_pointwise(stream(), tensors, {}, {}, body); });
  };
  CHECK(of_many("x0") == "body: 'x0': output y0 is not assigned");
  CHECK_THAT(of_many("y0 = x0 + wrong"), Catch::StartsWith("body: 'y0 = x0 + wrong': at 11: "));
}

TEST_CASE("slots must be filled exactly", "[small]") {
  const std::string text = "a\n  //$ ONE\n  default\n  //$ END\nb\n";
  CHECK(detail::fill_slots(text, {{"ONE", "x\ny\n"}}) == "a\n  x\n  y\nb\n");
  CHECK_THROWS_AS(detail::fill_slots(text, {}), ValidationError);
  CHECK_THROWS_AS(detail::fill_slots(text, {{"ONE", ""}, {"TWO", ""}}), ValidationError);
}

TEST_CASE("plans explain their engines", "[small]") {
  const TensorDesc d({16});
  const Pointwise plan(context(), {d}, {d}, 0, "y0 = x0");
  CHECK_THAT(plan.explain(), contains(plan.engine() + ": chosen"));
  CHECK_THROWS_AS(Pointwise(context(), {d}, {d}, 0, "y0 = x0", engine("none_such")), ValidationError);
}
