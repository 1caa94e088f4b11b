// Channels last inside of networks: what convolutions write so stays so, and all is equal.
#include <dlprim/net_host.hpp>
#include <dlprim/net_training.hpp>

#include "cases/rewriting.hpp"
#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Integers = std::vector<int64_t>;

/// Kinds of nodes whose results are row-major though they have 16 channels, rows and columns.
struct RowMajor {
  std::string kinds;
  int last = 0;  ///< how many results have channels last

  Model::Watch watch() {
    return [this](const NetGraph::Node& node, const Model::Tensors& outputs) {
      for (const auto& [name, y] : outputs) {
        if (y.rank() != 4 || y.shape()[1] < 16 || y.shape()[2] * y.shape()[3] == 1) continue;
        if (detail::is_channels_last(y))
          last++;
        else
          kinds += node.kind + " ";
      }
    };
  }
};

/// A network with all that follows a layout: [2, 5] from [2, 3, 9, 8]. Convolutions of 16 channels and more
/// choose channels last.
int network(RewriteCase& c, int x, bool training = false) {
  const auto pool = [&](int v, const char* mode) {
    return c.g.add("pool", {v}, {{"mode", mode}, {"kernel", Integers{2, 2}}, {"stride", Integers{1, 1}}});
  };
  int h = c.batch_norm(c.apply("square", {c.conv(x, {16, 3, 3, 3}, true)}), 16);
  if (training) {
    NetGraph::Node& norm = c.g.nodes.back();
    norm.attributes.at("training") = 1;
    for (int k = 1; k < 5; k++) {
      const int more = c.g.add_value();
      c.g.nodes.back().outputs.push_back(more);
    }
  }
  h = pool(c.apply("relu", {h}), "max");
  const int same = c.conv(h, {16, 16, 3, 3});
  h = c.apply("relu", {c.apply("add", {same, h})});
  h = c.g.add("concat", {h, c.conv(h, {16, 16, 3, 3})}, {{"axis", 1}});
  const int gate = c.apply("sigmoid", {c.g.add("global_pool", {h}, {{"mode", "average"}})});
  h = pool(c.apply("mul", {h, gate}), "average");
  h = c.g.add("flatten", {c.g.add("global_pool", {h}, {{"mode", "average"}})});
  return c.g.add("matmul", {h, c.constant(whole_numbers({32, 5}, 8))});
}

}  // namespace

TEST_CASE("passes: channels last stay so from the first convolution to the last") {
  for (const bool last : {true, false}) {
    RewriteCase c;
    RowMajor rows;
    c.channels_last = last, c.watch = rows.watch();
    c.g.add_output("y", network(c, c.input({2, 3, 9, 8})));
    c.rewritten(1e-5);
    CHECK((rows.kinds.empty() && rows.last >= 6) == last);
    INFO(rows.kinds);
    CHECK((rows.last == 0) == !last);
  }
}

TEST_CASE("passes: what needs row-major memory behind channels last is right") {
  for (const char* kind : {"reshape", "transpose", "slice", "output", "resize"}) {
    INFO(kind);
    RewriteCase c;
    c.channels_last = true;
    int h = c.conv(c.input({2, 3, 5, 4}), {16, 3, 3, 3});
    const std::string what = kind;
    if (what == "reshape") h = c.g.add("reshape", {h, c.constant(sizes({2, 8, 40}))});
    if (what == "transpose") h = c.g.add("transpose", {h}, {{"axes", Integers{0, 3, 1, 2}}});
    if (what == "slice")
      h = c.g.add("slice", {h, c.constant(sizes({1})), c.constant(sizes({3})), c.constant(sizes({1}))});
    if (what == "resize")
      h = c.g.add("resize", {h, NetGraph::kNone, NetGraph::kNone, c.constant(sizes({2, 16, 10, 8}))});
    c.g.add_output("y", h);
    c.rewritten();
  }
}

TEST_CASE("passes: a residual that lies otherwise is brought into channels last") {
  RewriteCase c;
  c.channels_last = true;
  const int x = c.input({2, 16, 5, 6}), other = c.input({2, 16, 5, 6});
  c.g.add_output("y", c.apply("relu", {c.apply("add", {c.conv(x, {16, 16, 3, 3}), other})}));
  CHECK(c.rewritten() == "conv");
}

TEST_CASE("passes: gradients have channels last, too, and are equal") {
  RewriteCase c;
  RowMajor rows;
  c.channels_last = true, c.watch = rows.watch();
  const int x = c.input({2, 3, 9, 8});
  const int y = network(c, x, true);
  const int loss = c.g.add("reduce", {c.apply("mul", {y, y})}, {{"function", "mean"}});
  std::vector<int> of{x};
  for (const auto& [value, constant] : c.g.constants)
    if (constant->shape.size() == 4 || constant->shape == Shape{32, 5}) of.push_back(value);
  REQUIRE(of.size() == 5);
  const std::vector<int> gradients = add_gradients(c.g, loss, of);
  for (size_t k = 0; k < of.size(); k++) c.g.add_output("d" + std::to_string(k), gradients[k]);
  c.rewritten(1e-5);
  // Gradients by filters lie as filters do, and parts of a tensor as it does.
  std::istringstream kinds(rows.kinds);
  for (std::string kind; kinds >> kind;) CHECK((kind == "conv_backward_filter" || kind == "split"));
  CHECK(rows.last >= 12);
}

TEST_CASE("passes: the gradient of a mean over planes has channels last") {
  RewriteCase c;
  c.channels_last = true;
  int means_last = 0;
  c.watch = [&](const NetGraph::Node& node, const Model::Tensors& outputs) {
    if (node.kind != "reduce_backward") return;
    for (const auto& [name, dx] : outputs) means_last += detail::is_channels_last(dx) ? 1 : 0;
  };
  const int w = c.constant(whole_numbers({16, 3, 3, 3}, 3));
  const int h = c.g.add("conv", {c.input({2, 3, 5, 4}), w}, {{"pad_begin", Integers{1, 1}}});
  const int mean = c.g.add("reduce", {h}, {{"function", "mean"}, {"axes", Integers{2, 3}}});
  const int loss = c.g.add("reduce", {c.apply("mul", {mean, mean})}, {{"function", "sum"}});
  c.g.add_output("dw", add_gradients(c.g, loss, {w})[0]);
  c.rewritten(1e-5);
  CHECK(means_last == 1);
}
