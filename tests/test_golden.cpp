// The text of generated kernels, against the files in tests/golden. A wanted change is taken over by running
// this program with DLPRIM_UPDATE_GOLDEN=1 and reading the difference.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "catch.hpp"
#include "core/gen/pointwise.hpp"
#include "core/gen/reduce.hpp"
#include "core/gen/slots.hpp"
#include "core/gen/winograd.hpp"
#include "core/kernel_source.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::detail;
using namespace dlprim::test;
using test::error_of;

namespace {

/// The text without the files that every generated kernel includes: those are read where they lie.
std::string without_includes(std::string text, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const std::string included = kernel_source(name);
    const size_t at = text.find(included);
    REQUIRE(at != std::string::npos);
    text.replace(at, included.size(), std::string("// ") + name + ".cl\n");
  }
  return text;
}

constexpr std::initializer_list<const char*> kCpuIncludes = {"types", "math_cpu_quick", "activation",
                                                             "arithmetic", "special"};

void check_golden(const std::string& name, const std::string& source,
                  std::initializer_list<const char*> includes = {"types", "activation", "arithmetic",
                                                                 "special"}) {
  INFO(name);
  const std::string path = source_file("tests/golden/" + name + ".cl"),
                    text = without_includes(source, includes);
  if (std::getenv("DLPRIM_UPDATE_GOLDEN")) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  CHECK(text == golden.str());
}

PointwiseForm pointwise_form(const std::vector<TensorDesc>& xs, const std::vector<TensorDesc>& ys,
                             int scalars, const std::string& body) {
  const LoopNest nest = make_loop_nest(xs, ys, false);
  PointwiseForm form;
  form.operands = make_operands(xs, ys, nest);
  form.scalars = scalars;
  form.body = body;
  form.real = real_type(xs, ys);
  form.rank = nest.kept.size();
  form.wide = nest.wide;
  form.vector = 4;
  form.unroll = 2;
  form.local = 256;
  return form;
}

ReduceForm reduce_form(const std::vector<TensorDesc>& xs, const std::vector<TensorDesc>& ys,
                       const Reduction& reduction) {
  const LoopNest nest = make_loop_nest(xs, ys, true);
  ReduceForm form;
  form.operands = make_operands(xs, ys, nest);
  form.reduction = reduction;
  form.real = real_type(xs, ys);
  form.kept_rank = nest.kept.size();
  form.reduced_rank = nest.reduced.size();
  form.along_reduced = nest.reduced_innermost;
  form.vector = form.along_reduced ? 4 : 1;
  form.unroll = 4;
  form.lanes_x = 64;
  form.lanes_y = 4;
  return form;
}

}  // namespace

TEST_CASE("generated pointwise kernels are as written down", "[small]") {
  const TensorDesc image({2, 3, 4, 8}), channels({3, 1, 1});
  check_golden("add_channels",
               pointwise_source(pointwise_form({image, channels}, {image}, 0, "y0 = x0 + x1")));
  check_golden("add_channels_cpu",
               pointwise_cpu_source(pointwise_form({image, channels}, {image}, 0, "y0 = x0 + x1")),
               kCpuIncludes);
  PointwiseForm mixed = pointwise_form({TensorDesc({5}, DType::f16), TensorDesc({5}, DType::i64)},
                                       {TensorDesc({5}, DType::bf16), TensorDesc({5}, DType::boolean)}, 2,
                                       "y0 = x0 * s0 + x1;\ny1 = x0 > s1");
  mixed.vector = 1;
  mixed.wide = true;
  check_golden("mixed_wide", pointwise_source(mixed));
}

TEST_CASE("a slot without an end is refused", "[small]") {
  const auto filled = [](const char* text) {
    return error_of<ValidationError>([&] { fill_slots(text, {{"A", "a"}, {"B", "b"}}); });
  };
  CHECK(fill_slots("//$ A\n1\n//$ END\n2\n", {{"A", "a"}}) == "a\n2\n");
  CHECK(filled("//$ A\n1\n//$ B\n2\n//$ END\n") == "slot: A has no END");
  CHECK(filled("//$ A\n1\n//$ END\n//$ B\n2\n") == "slot: B has no END");
}

TEST_CASE("generated reductions are as written down", "[small]") {
  const TensorDesc image({2, 3, 4, 8}), channels({1, 3, 1, 1});
  const ReduceForm rows = reduce_form({image}, {channels}, welford("x0", "y0 = a2 / a0"));
  check_golden("welford_channels", reduce_source(rows));
  check_golden("welford_channels_parts", reduce_parts_source(rows, 32, 8), {"types", "activation"});
  ReduceForm columns = reduce_form({TensorDesc({6, 40})}, {TensorDesc({1, 40})}, sum_of("x0"));
  columns.parts = true;
  check_golden("sum_columns", reduce_source(columns));
  columns.lanes_x = 32;
  check_golden("sum_columns_cpu", reduce_cpu_source(columns), kCpuIncludes);
}

TEST_CASE("generated transforms are as written down", "[small]") {
  const WinogradMatrices four = winograd_matrices(4, 3), one = winograd_matrices(1, 1);
  const auto includes = {"conv_winograd_grid", "gemm_types"};
  check_golden("winograd_source",
               fill_winograd_slots(kernel_source("conv_winograd_source"), four.source, four.source),
               includes);
  check_golden("winograd_filter",
               fill_winograd_slots(kernel_source("conv_winograd_source"), four.filter, four.filter),
               includes);
  check_golden("winograd_target_column",
               fill_winograd_slots(kernel_source("conv_winograd_target"), four.target, one.target), includes);
}
