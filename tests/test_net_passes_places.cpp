// Inputs of concatenations that are computed where they end up.
#include <dlprim/net_training.hpp>

#include "cases/rewriting.hpp"
#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Integers = std::vector<int64_t>;

/// Results of a run by kind, and what a concatenation's inputs have in common with its result.
struct Seen {
  std::vector<std::pair<std::string, Tensor>> results;

  Model::Watch watch() {
    return [this](const NetGraph::Node& node, const Model::Tensors& outputs) {
      for (const auto& [name, y] : outputs) results.emplace_back(node.kind, y);
    };
  }
  std::vector<Tensor> of(const std::string& kind) const {
    std::vector<Tensor> found;
    for (const auto& [of_kind, y] : results)
      if (of_kind == kind) found.push_back(y);
    return found;
  }
};

/// How many of the tensors lie in the memory of `whole`.
int in_memory_of(const Tensor& whole, const std::vector<Tensor>& tensors) {
  int count = 0;
  for (const Tensor& x : tensors) count += x.storage() == whole.storage() ? 1 : 0;
  return count;
}

int concat_of(RewriteCase& c, const std::vector<int>& values, int64_t axis = 1) {
  return c.g.add("concat", values, {{"axis", axis}});
}

}  // namespace

TEST_CASE("passes: convolutions write into what is concatenated") {
  for (const bool last : {true, false}) {
    RewriteCase c;
    Seen seen;
    c.channels_last = last, c.watch = seen.watch();
    const int x = c.input({2, 16, 6, 5});
    const int y =
        concat_of(c, {c.conv(x, {16, 16, 3, 3}), c.conv(x, {20, 16, 3, 3}), c.conv(x, {28, 16, 3, 3})});
    c.g.add_output("y", c.conv(y, {16, 64, 3, 3}));
    c.rewritten();
    REQUIRE(seen.of("concat").size() == 1);
    CHECK(in_memory_of(seen.of("concat")[0], seen.of("conv")) == 3);
    CHECK(detail::is_channels_last(seen.of("concat")[0]) == last);
  }
}

TEST_CASE("passes: pooling, BatchNorm and elementwise nodes write into what is concatenated") {
  for (const bool last : {true, false}) {
    RewriteCase c;
    Seen seen;
    c.channels_last = last, c.watch = seen.watch();
    const auto pool = [&](int v, const char* mode) {
      return c.g.add("pool", {v},
                     {{"mode", mode},
                      {"kernel", Integers{3, 3}},
                      {"stride", Integers{1, 1}},
                      {"pad_begin", Integers{1, 1}}});
    };
    const int x = c.conv(c.input({2, 4, 7, 6}), {16, 4, 3, 3});
    const int parts = concat_of(c, {pool(x, "max"), pool(x, "average"), c.batch_norm(x, 16),
                                    c.apply("exp", {c.apply("sigmoid", {x})})});
    c.g.add_output("y", c.conv(parts, {8, 64, 3, 3}));
    c.rewritten(1e-5);
    const Tensor y = seen.of("concat")[0];
    CHECK(in_memory_of(y, seen.of("pool")) == 2);
    CHECK(in_memory_of(y, seen.of("batch_norm")) == 1);
    CHECK(in_memory_of(y, seen.of("pointwise")) == 1);
    CHECK(detail::is_channels_last(y) == last);
  }
}

TEST_CASE("passes: parts of any rank that have no gaps are computed in place") {
  RewriteCase c;
  Seen seen;
  c.watch = seen.watch();
  const auto row = [&](int x) { return c.g.add("matmul", {x, c.constant(whole_numbers({4, 4}, 5))}); };
  c.g.add_output("y", concat_of(c, {row(c.input({8, 4})), row(c.input({6, 4}))}, 0));
  c.rewritten();
  CHECK(in_memory_of(seen.of("concat")[0], seen.of("matmul")) == 2);
}

// One input is an input of the graph, stands twice, has another reader, is a view, makes the next one begin
// between multiples of 16 bytes, takes a residual or is an output; or all would have gaps along the axis.
TEST_CASE("passes: where one input cannot be computed in place, none is") {
  for (const char* kind : {"input", "twice", "read", "view", "odd", "residual", "output", "gaps"}) {
    INFO(kind);
    const std::string what = kind;
    RewriteCase c;
    Seen seen;
    c.watch = seen.watch();
    const int x = c.input({2, 16, 6, 5}), y = c.conv(x, {16, 16, 3, 3});
    int other = c.conv(x, {what == "odd" ? 18 : 16, 16, 3, 3}), more = c.conv(x, {16, 16, 3, 3});
    if (what == "input") other = c.input({2, 16, 6, 5});
    if (what == "twice") other = y;
    if (what == "read") c.g.add_output("read", c.apply("exp", {c.apply("sigmoid", {other})}));
    if (what == "view")
      other = c.g.add("slice", {x, c.constant(sizes({4})), c.constant(sizes({12})), c.constant(sizes({1}))});
    if (what == "residual") other = c.apply("add", {other, c.input({2, 16, 6, 5})});
    if (what == "output") c.g.add_output("other", other);
    c.g.add_output("y", c.apply("square", {concat_of(c, {y, other, more}, what == "gaps" ? 2 : 1)}));
    c.rewritten(1e-5);
    REQUIRE(seen.of("concat").size() == 1);
    CHECK(in_memory_of(seen.of("concat")[0], seen.of("conv")) == 0);
  }
}

TEST_CASE("passes: gradients through what was computed in place are equal") {
  for (const bool last : {true, false}) {
    RewriteCase c;
    Seen seen;
    c.channels_last = last, c.watch = seen.watch();
    const int x = c.input({2, 3, 7, 6}), h = c.apply("relu", {c.conv(x, {16, 3, 3, 3})});
    const int parts = concat_of(c, {c.conv(h, {16, 16, 3, 3}), c.conv(h, {20, 16, 3, 3})});
    const int y = c.conv(c.apply("relu", {parts}), {8, 36, 3, 3});
    const int loss = c.g.add("reduce", {c.apply("mul", {y, y})}, {{"function", "mean"}});
    std::vector<int> of{x};
    for (const auto& [value, constant] : c.g.constants)
      if (constant->shape.size() == 4) of.push_back(value);
    const std::vector<int> gradients = add_gradients(c.g, loss, of);
    for (size_t k = 0; k < of.size(); k++) c.g.add_output("d" + std::to_string(k), gradients[k]);
    c.rewritten(1e-5);
    CHECK(in_memory_of(seen.of("concat")[0], seen.of("conv")) == 2);
  }
}
