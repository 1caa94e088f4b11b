// Plans as text: what serialize() of GEMM and convolution gives makes the same plan again, in this process or
// in another, and nothing else.
#include <dlprim/conv.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/pointwise.hpp>

#include <cstdlib>
#include <fstream>

#include "cases/conv.hpp"
#include "catch.hpp"
#include "child.hpp"
#include "core/plan_record.hpp"
#include "core/state.hpp"
#include "core/text.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::detail;
using namespace dlprim::test;

namespace {

/// Those whose plans are tested; `variant` changes the description.
struct Maker {
  const char* op;
  std::string (*serialize)(const Context&, const Options&, int variant);
  std::string (*explain)(const Context&, const Options&, int variant);
};

ConvDesc conv_desc(int variant) {
  ConvDesc desc{{{2, 8, 9, 7}}, {{16, 8, 3, 3}}, {{2, 16, 7, 5}}, {}};
  if (variant == 1) desc.x.shape[0] = desc.y.shape[0] = 3, desc.x = {desc.x.shape}, desc.y = {desc.y.shape};
  if (variant == 2) desc.x.aligned = false;
  return desc;
}

GemmDesc gemm_desc(int variant) {
  GemmDesc desc{{{40, 24}}, {{24, 56}}, {{40, 56}}};
  if (variant == 1) desc.a = {{48, 24}}, desc.c = {{48, 56}};
  if (variant == 2) desc.a.aligned = false;
  return desc;
}

template <class P, ConvDesc (*desc)(int)>
constexpr Maker conv_maker(const char* op) {
  return {
      op,
      [](const Context& c, const Options& o, int v) { return P(c, conv_desc_of<P>(desc(v)), o).serialize(); },
      [](const Context& c, const Options& o, int v) { return P(c, conv_desc_of<P>(desc(v)), o).explain(); }};
}

const Maker kMakers[] = {
    {"gemm", [](const Context& c, const Options& o, int v) { return Gemm(c, gemm_desc(v), o).serialize(); },
     [](const Context& c, const Options& o, int v) { return Gemm(c, gemm_desc(v), o).explain(); }},
    conv_maker<Conv, conv_desc>("conv"),
    conv_maker<ConvBackwardData, conv_desc>("conv_backward_data"),
    conv_maker<ConvBackwardFilter, conv_desc>("conv_backward_filter")};

Options loading(const std::string& plan) {
  Options options;
  options.plan = plan;
  return options;
}

/// An engine with parameters that no table or prediction chooses by itself.
Options unusual(const char* op) {
  Options options;
  options.engine = std::string(op) == "gemm" ? "fma:tm=32,tn=32,tk=8,rm=4,rn=4,parts=1"
                                             : "fma:tm=32,tn=64,tk=16,rm=4,rn=4";
  options.math = MathMode::strict;
  options.workspace_limit = 123456;
  return options;
}

}  // namespace

TEST_CASE("plan record: a plan is made again from its text", "[small]") {
  for (const Maker& maker : kMakers) {
    INFO(maker.op);
    const std::string usual = maker.serialize(context(), {}, 0);
    const std::string text = maker.serialize(context(), unusual(maker.op), 0);
    CHECK(text != usual);
    CHECK_THAT(text, contains(cat("\nengine ", unusual(maker.op).engine, "\n")));
    for (const std::string& record : {usual, text}) {
      CHECK(maker.serialize(context(), loading(record), 0) == record);
      Options options = loading(record);
      options.tune = TuneMode::measure;  // nothing is measured, nor looked up
      const Context fresh(context().device());
      CHECK(maker.serialize(fresh, options, 0) == record);
      CHECK_THAT(maker.explain(fresh, options, 0), contains(": chosen, loaded, workspace "));
    }
  }
  // Neither the table's answer nor a measurement counts.
  const Context fresh(context().device());
  const TuneProblem p = tune_problem(fresh, "conv n=2 c=8 size=9x7 k=16 window=3x3");
  const std::string text = Conv(fresh, conv_desc(0)).serialize();
  fresh.state().tuning.store({p, {"naive", 1}, {}});
  CHECK(Conv(fresh, conv_desc(0)).engine() == "naive");
  CHECK(Conv(fresh, conv_desc(0), loading(text)).serialize() == text);
}

TEST_CASE("plan record: calls take it too, and results are right", "[small]") {
  const ConvCase c{"loaded", 2, 8, {9, 7}, 16, {3, 3}};
  Rng rng(1);
  const auto x = integers(element_count(c.x_shape()), rng), w = integers(element_count(c.w_shape()), rng);
  const Tensor tx = device_tensor(c.x_shape(), x), tw = device_tensor(c.w_shape(), w),
               y(context(), c.y_shape());
  const std::string text = Conv(context(), {tx, tw, y, {}}, unusual("conv")).serialize();
  for (int i = 0; i < 2; i++) {
    conv(stream(), tx, tw, {}, {}, y, loading(text));
    CHECK(deviation(host_values(y), conv_forward_reference(c, x, w)) == 0);
    conv(stream(), tx, tw, {}, {}, y);
    CHECK(deviation(host_values(y), conv_forward_reference(c, x, w)) == 0);
  }
}

TEST_CASE("plan record: another description, operator, device or version is refused", "[small]") {
  for (const Maker& maker : kMakers) {
    INFO(maker.op);
    const std::string text = maker.serialize(context(), {}, 0);
    const bool gemm = std::string(maker.op) == "gemm";
    CHECK(refusal([&] { maker.serialize(context(), loading(text), 1); }) ==
          (gemm ? "plan: was made for a description with m=40, this one has m=48"
                : "plan: was made for a description with n=2, this one has n=3"));
    CHECK_THAT(refusal([&] { maker.serialize(context(), loading(text), 2); }),
               contains("plan: was made for a description with ") && contains(", this one has "));
    for (const Maker& other : kMakers)
      if (other.op != maker.op)
        CHECK(refusal([&] { other.serialize(context(), loading(text), 0); }) ==
              cat("plan: was made for ", maker.op, ", not for ", other.op));
    const auto changed = [&](const auto& change) {
      PlanRecord record = parse_plan_record(text);
      change(record);
      return refusal([&] { maker.serialize(context(), loading(plan_record_text(record)), 0); });
    };
    CHECK_THAT(
        changed([](PlanRecord& r) { r.device = "Chip 9"; }),
        contains("plan: was made for 'Chip 9' of ") && contains("this is '" + context().device().name()));
    CHECK_THAT(changed([](PlanRecord& r) { r.platform = "Chips"; }), contains("(Chips), this is"));
    CHECK_THAT(changed([](PlanRecord& r) { r.units += 7; }), contains("plan: was made for "));
    CHECK_THAT(changed([](PlanRecord& r) { r.version = "0.0.1"; }),
               contains("plan: was made by dlprim 0.0.1, this is "));
    CHECK_THAT(changed([](PlanRecord& r) { r.options.engine = "nothing"; }),
               contains("has no engine 'nothing'"));
    CHECK_THAT(changed([](PlanRecord& r) { r.workspace += 64; }),
               contains("plan: was made by another build"));
    CHECK_THAT(changed([](PlanRecord& r) { r.workspace = size_t{1} << 40; }),
               contains("plan: needs 1099511627776 bytes of workspace, the limit is 1073741824"));
    CHECK(plan_record_text(parse_plan_record(text)) == text);
  }
}

TEST_CASE("plan record: what is damaged is refused, and what has no choice takes none", "[small]") {
  const std::string text = Conv(context(), conv_desc(0)).serialize();
  const auto refused = [&](const std::string& damaged) {
    return refusal([&] { Conv(context(), conv_desc(0), loading(damaged)); });
  };
  CHECK(refused("{}") == "plan: begins with '{}', not with 'dlprim-plan'");
  CHECK(refused("dlprim-plan 1\n" + text.substr(text.find('\n') + 1)) ==
        "plan: is in form 1, this library reads form 2");
  CHECK(refused("dlprim-plan 2\n") == "plan: is cut off: it has no line 'check'");
  for (size_t i = 13; i < text.size(); i++) {  // whichever byte it is
    std::string damaged = text;
    damaged[i] = damaged[i] == 'x' ? 'y' : 'x';
    CHECK(refused(damaged).find("plan: ") == 0);
    CHECK(refused(text.substr(0, i)).find("plan: ") == 0);
  }
  CHECK(refused(text + "more").find("plan: is damaged") == 0);
  Options both = loading(text);
  both.engine = "fma";
  CHECK(refusal([&] { Conv(context(), conv_desc(0), both); }) == "plan: is given, and the engine 'fma' too");
  const TensorDesc x({4, 5}), y({4, 1});
  CHECK(refusal([&] { Reduce(context(), {x}, {y}, 0, sum_of("x0"), loading(text)); }) ==
        "plan: is given, but reduce loads none");
}

TEST_CASE("plan record: loaded in another process", "[.]") {
  for (const Maker& maker : kMakers) {
    std::ifstream file(std::string(std::getenv("DLPRIM_TEST_PLANS")) + maker.op, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    INFO(maker.op);
    CHECK(maker.serialize(context(), loading(text), 0) == text);
  }
}

TEST_CASE("plan record: another process makes the same plans") {
  const TempDir folder;
  for (const Maker& maker : kMakers)
    std::ofstream(folder / maker.op, std::ios::binary) << maker.serialize(context(), unusual(maker.op), 0);
  const Child child = run_child("plan record: loaded in another process",
                                {{"DLPRIM_TEST_PLANS", folder / ""}, {"DLPRIM_TUNE_DB", ""}});
  INFO(child.output);
  CHECK(child.passed);
}
