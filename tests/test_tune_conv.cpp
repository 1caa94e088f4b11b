// Tuning of convolution: its problems, what is measured of them and on first use, and the plans that
// docs/tuning.md explains.
#include <dlprim/conv.hpp>
#include <dlprim/tune.hpp>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <regex>

#include "cases/conv.hpp"
#include "catch.hpp"
#include "child.hpp"
#include "core/state.hpp"
#include "core/text.hpp"
#include "ops/conv/conv_tune.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::detail;
using namespace dlprim::test;

TEST_CASE("tune: convolutions as lines and as tables know them", "[conv]") {
  const auto problem_of = [](const std::string& more) {
    return tune_problem(context(), "conv n=2 c=16 size=9x8 k=32 window=3x3 " + more);
  };
  const TuneProblem p = problem_of("");
  CHECK((p.dtype == DType::f32 && p.math == MathMode::standard));
  CHECK(p.form == "forward-nchw-window3x3");
  CHECK(sizes_text(p) == "n=2 c=16 k=32 h=9 w=8 groups=1 d=1");
  CHECK(problem_of("direction=backward_filter layout=nhwc stride=2x1 pad=1 dilation=1x2").form ==
        "backward_filter-nhwc-window3x3-stride2x1-pad1x1-dilation1x2");
  CHECK(problem_of("layout=nhwc weights=nchw").form == "forward-nhwc.nchw.nhwc-window3x3");
  CHECK(problem_of("weights=nhwc").form == "forward-nchw.nhwc.nchw-window3x3");
  CHECK(problem_of("groups=2 math=strict constant=w").math == MathMode::strict);
  CHECK(problem_of("groups=4").form == "forward-nchw-window3x3-odd");  // 4 channels a group
  CHECK(problem_of("math=tf32").math == MathMode::tf32);
  CHECK(problem_of("math=tf32 dtype=bf16").math == MathMode::standard);
  CHECK(tune_problem(context(), "conv n=1 c=8 size=5x6x7 k=8 window=3x1x1").form ==
        "forward-nchw-window3x1x1");
  CHECK(sizes_text(tune_problem(context(), "conv n=1 c=8 size=5x6x7 k=8 window=1x1x1")) ==
        "n=1 c=8 k=8 h=6 w=7 groups=1 d=5");
  CHECK(tune_problem(context(), "conv n=1 c=8 size=7 k=8 window=3").form == "forward-nchw-window1x3");
  CHECK(error_of<ValidationError>([&] { problem_of("groups=3"); }).find("params: groups 3") == 0);
  CHECK(error_of<ValidationError>([&] { problem_of("engine=fma"); }).find("engine=fma is not auto") !=
        std::string::npos);

  // What networks ask for is in the full list, as far as it fits the device.
  const std::vector<std::string> lines = tuning_problems(context(), "conv", true);
  for (const ConvCase& c : network_convs()) {
    if (c.flops() > 1e9) continue;
    const auto named = [&](const std::string& line) {
      return line.find(cat("c=", c.c, " size=", c.size[0], "x", c.size[1], " k=", c.k, " ")) !=
             std::string::npos;
    };
    CHECK(std::count_if(lines.begin(), lines.end(), named) >= 3);
  }
}

TEST_CASE("tune: convolutions of mixed layouts, ends and strides have forms of their own", "[small]") {
  const Shape x{2, 16, 9, 8}, w{32, 16, 3, 3}, y{2, 32, 7, 6};
  const auto described = [](const Shape& shape, Layout layout) {
    return TensorDesc{shape, strides_in(layout, shape), DType::f32, true};
  };
  const auto form = [&](Layout of_x, Layout of_w, Layout of_y, const ConvParams& params = {},
                        const Shape& to = {}) {
    const Shape& result = to.empty() ? y : to;
    const ConvDesc desc{described(x, of_x), described(w, of_w), described(result, of_y), params};
    return conv_tune_problem(conv_problem(ConvDirection::forward, desc), {}).form;
  };
  const Layout planes = Layout::nchw, last = Layout::nhwc, gaps = Layout::gaps;
  CHECK(form(planes, planes, planes) == "forward-nchw-window3x3");
  CHECK(form(last, last, last) == "forward-nhwc-window3x3");
  CHECK(form(last, planes, last) == "forward-nhwc.nchw.nhwc-window3x3");
  CHECK(form(gaps, planes, last) == "forward-other.nchw.nhwc-window3x3");
  CHECK(form(planes, planes, planes, {{1}, {1, 0}, {0, 2}}, {2, 32, 8, 8}) ==
        "forward-nchw-window3x3-pad1x0-end0x2");
  CHECK(form(planes, planes, planes, {{2}, {1}, {1}}, {2, 32, 5, 4}) ==
        "forward-nchw-window3x3-stride2x2-pad1x1");
  // Of one channel a group and of 1x1 the layouts of w are the same one.
  const ConvCase depthwise{"", 2, 16, {9, 8}, 16, {3, 3}, {{1}, {}, {}, {}, 16}},
      flat{"", 2, 16, {9, 8}, 8, {1, 1}};
  for (ConvCase c : {depthwise, flat}) {
    c = c.in(last);
    const ConvDesc desc{described(c.x_shape(), last), c.w_shape(), described(c.y_shape(), last), c.params};
    CHECK(conv_layout(conv_problem(ConvDirection::forward, desc)) == "nhwc");
  }
  // Nor does that of a constant w count.
  ConvDesc constant{described(x, last), described(w, planes), described(y, last), {}};
  constant.constant_w = true;
  CHECK(conv_layout(conv_problem(ConvDirection::forward, constant)) == "nhwc");
  constant.y = described(y, gaps);
  CHECK(conv_layout(conv_problem(ConvDirection::forward, constant)) == "nhwc.nchw.other");
}

TEST_CASE("tune: convolution's plain engine is only compared with, and not for large problems", "[small]") {
  const auto candidates = [](int64_t batch) {
    const ConvDesc desc{{{batch, 64, 56, 56}}, {{64, 64, 3, 3}}, {{batch, 64, 54, 54}}, {}};
    return conv_candidates(context(), conv_problem(ConvDirection::forward, desc), {});
  };
  for (int64_t batch : {1, 8192}) {
    const TuneCandidates c = candidates(batch);
    CHECK(c.timed.size() >= 1);
    CHECK(std::count(c.timed.begin(), c.timed.end(), "naive") == 0);
    CHECK(c.references.back() == "naive");
    if (batch > 1 && context().device().facts().compute_units < 160) CHECK(c.references.front() != "naive");
  }
  // Where nothing else serves it is timed.
  const TensorDesc far({2, 1, 8, 8}, {int64_t{1} << 32, 64, 8, 1}, DType::f32, true);
  const ConvDesc desc{far, {{1, 1, 3, 3}}, {{2, 1, 6, 6}}, {}};
  CHECK(conv_candidates(context(), conv_problem(ConvDirection::forward, desc), {}).timed ==
        std::vector<std::string>{"naive"});
}

TEST_CASE("tune: convolutions measured in every direction on first use", "[.]") {
  const Context first(context().device());
  const TensorDesc x({2, 8, 9, 7}), w({16, 8, 3, 3}), y({2, 16, 7, 5});
  const auto explained = [&](const Context& c, TuneMode mode, int direction) {
    Options options;
    options.tune = mode;
    if (direction == 0) return Conv(c, {x, w, y, {}}, options).explain();
    if (direction == 1) return ConvBackwardData(c, backward_data_of({x, w, y, {}}), options).explain();
    return ConvBackwardFilter(c, backward_filter_of({x, w, y, {}}), options).explain();
  };
  for (int direction = 0; direction < 3; direction++) {
    CHECK(explained(first, TuneMode::table, direction).find("the user's measurements") == std::string::npos);
    const std::string measured = explained(first, TuneMode::measure, direction);
    CHECK(measured.find("chosen, the user's measurements, this problem") != std::string::npos);
    CHECK(measured.find("naive: could serve") != std::string::npos);
  }
  const auto known = [&](const Context& c, bool exhaustive) {
    return c.state().tuning.knows(tune_problem(c, "conv n=2 c=8 size=9x7 k=16 window=3x3"), exhaustive);
  };
  const Context second(context().device());  // as another process
  CHECK((known(second, false) && !known(second, true)));
  const std::string thorough = explained(second, TuneMode::exhaustive, 0);
  CHECK((known(second, true) && known(first, true)));
  const ProgramStats before = second.program_stats();
  CHECK(explained(second, TuneMode::exhaustive, 0) == thorough);  // nothing is measured again
  CHECK(explained(second, TuneMode::measure, 0) == thorough);
  CHECK(second.program_stats().built + second.program_stats().from_disk == before.built + before.from_disk);
  // A transposed convolution is one in the other direction.
  ConvParams transposed;
  transposed.transposed = true;
  CHECK(Conv(second, {y, w, x, transposed}).explain().find("the user's measurements, this problem") !=
        std::string::npos);
}

TEST_CASE("tune: convolutions on first use, into a database") {
  const TempDir folder;
  const Child child = run_child("tune: convolutions measured in every direction on first use",
                                {{"DLPRIM_TUNE_DB", folder / "t.sqlite"}, {"DLPRIM_LOG", "1"}});
  INFO(child.output);
  CHECK(child.passed);
  CHECK(child.output.find("dlprim: tuning conv n=2 c=8 k=16 h=9 w=7 groups=1 d=1 dtype=f32") !=
        std::string::npos);
  CHECK(child.output.find("engine=naive us=") == std::string::npos);
}

namespace {

/// The plans that docs/tuning.md explains.
std::vector<std::string> explained() {
  std::vector<std::string> texts;
  for (const ConvCase& c : {ConvCase{"3x3", 8, 64, {56, 56}, 64, {3, 3}, {{1}, {1}, {1}}},
                            ConvCase{"depthwise", 8, 512, {14, 14}, 512, {3, 3}, {{1}, {1}, {1}, {1}, 512}},
                            ConvCase{"first", 8, 3, {224, 224}, 64, {7, 7}, {{2}, {3}, {3}}}})
    texts.push_back(Conv(context(), {c.x_shape(), c.w_shape(), c.y_shape(), c.params}).explain());
  return texts;
}

}  // namespace

TEST_CASE("tune: documented plans", "[.]") {
  std::ifstream file(source_file("docs/tuning.md"), std::ios::binary);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const std::string& text : explained()) {
    // The file's rows serve its device by the name, and others of the architecture by that.
    const std::string shown =
        std::regex_replace(text, std::regex("conv.json by (device|architecture)"), "conv.json by device");
    const bool found = page.find("```\n" + shown + "```\n") != std::string::npos;
    if (!found) std::cout << "docs/tuning.md does not have this plan as it is now:\n" << shown;
    CHECK(found);
  }
}

TEST_CASE("tune: the documentation's plans are as they are shown") {
  const DeviceFacts& facts = context().device().facts();
  if (facts.architecture != "avx512" || facts.platform != "Portable Computing Language")
    return note_skipped("the page shows plans of PoCL with AVX-512");
  const Child child = run_child("tune: documented plans", {{"DLPRIM_TUNE_DB", ""}});
  INFO(child.output);
  CHECK(child.passed);
}
