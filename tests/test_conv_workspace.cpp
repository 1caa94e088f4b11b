// Convolution's engines with little workspace, and with parameters that were asked for.
#include "cases/conv.hpp"
#include "catch.hpp"
#include "ops/conv/conv_problem.hpp"

using namespace dlprim;
using namespace dlprim::test;
using dlprim::detail::ConvDirection;

namespace {

/// A convolution in one of its directions, with operands of small integers and its exact results.
struct Exact {
  Exact(const ConvCase& of, ConvDirection in) : c(of), direction(in) {
    Rng rng(7);
    x = integers(element_count(c.x_shape()), rng), w = integers(element_count(c.w_shape()), rng),
    y = integers(element_count(c.y_shape()), rng);
    tx = device_tensor(c.x_shape(), x), tw = device_tensor(c.w_shape(), w),
    ty = device_tensor(c.y_shape(), y);
    expected = direction == ConvDirection::forward         ? conv_forward_reference(c, x, w)
               : direction == ConvDirection::backward_data ? conv_backward_data_reference(c, y, w)
                                                           : conv_backward_filter_reference(c, x, y);
  }
  /// The plan's workspace; its results are checked.
  size_t run(const Options& options) const {
    const Guarded result(direction == ConvDirection::forward         ? c.y_shape()
                         : direction == ConvDirection::backward_data ? c.x_shape()
                                                                     : c.w_shape());
    size_t size = 0;
    const auto with_plan = [&](const auto& plan, const auto& run) {
      size = plan.workspace_size();
      CHECK(size <= options.workspace_limit);
      run(plan);
    };
    const Tensor& out = result.tensor();
    if (direction == ConvDirection::forward)
      with_plan(Conv(context(), {tx, tw, out, c.params}, options),
                [&](const Conv& plan) { plan.run(stream(), tx, tw, {}, out); });
    else if (direction == ConvDirection::backward_data)
      with_plan(ConvBackwardData(context(), backward_data_of({out, tw, ty, c.params}), options),
                [&](const ConvBackwardData& plan) { plan.run(stream(), ty, tw, out); });
    else
      with_plan(ConvBackwardFilter(context(), backward_filter_of({tx, out, ty, c.params}), options),
                [&](const ConvBackwardFilter& plan) { plan.run(stream(), tx, ty, {}, out); });
    // Whole numbers of three digits at most, near which engines come that compute by fractions.
    CHECK(deviation(host_values(out), expected) < 1e-3);  // Winograd's F(4 x 4) rounds
    CHECK(result.intact());
    return size;
  }

  ConvCase c;
  ConvDirection direction;
  std::vector<float> x, w, y;
  Tensor tx, tw, ty;
  std::vector<double> expected;
};

constexpr ConvDirection kDirections[] = {ConvDirection::forward, ConvDirection::backward_data,
                                         ConvDirection::backward_filter};

Options limited(Options options, size_t bytes) {
  options.workspace_limit = bytes;
  return options;
}

}  // namespace

TEST_CASE("conv: the workspace's limit is honoured by every engine, and some engine needs none", "[conv]") {
  const ConvCase cases[] = {{"wide", 5, 40, {9, 11}, 24, {3, 3}, {{1}, {1}, {1}}},
                            {"strided", 3, 16, {12, 9}, 32, {3, 2}, {{2}, {1}, {1}}},
                            {"1x1", 2, 16, {7, 8}, 48, {1, 1}},
                            {"first", 2, 3, {20, 20}, 16, {7, 7}, {{2}, {3}, {3}}},
                            {"depthwise", 6, 24, {10, 10}, 24, {3, 3}, {{1}, {1}, {1}, {1}, 24}},
                            {"groups", 3, 24, {8, 8}, 32, {3, 3}, {{1}, {1}, {1}, {1}, 4}},
                            {"deep", 2, 8, {5, 6, 7}, 8, {3, 3, 3}, {{1}, {1}, {1}}}};
  for (const ConvCase& c : cases)
    for (ConvDirection direction : kDirections) {
      const Exact exact(c, direction);
      CHECK(exact.run(limited({}, 0)) == 0);
      for (const std::string& name : conv_engines()) {
        INFO(c.name << " " << static_cast<int>(direction) << " " << name);
        size_t size = 0;
        try {
          size = exact.run(engine(name));
        } catch (const ValidationError& error) {
          CHECK_THAT(error.what(), contains(name + " refused:"));
          continue;
        }
        for (size_t limit : {size_t{0}, size / 2, size - (size > 0 ? 1 : 0), size}) {
          try {
            exact.run(limited(engine(name), limit));
          } catch (const ValidationError& error) {
            CHECK(limit < size);
            CHECK_THAT(error.what(),
                       contains(name + ": needs ") && contains(" bytes of workspace, the limit is "));
          }
        }
      }
    }
}

TEST_CASE("conv: every layer of a network can do without workspace", "[conv]") {
  for (const ConvCase& c : network_convs()) {
    INFO(c.text());
    const ConvDesc desc{c.x_shape(), c.w_shape(), c.y_shape(), c.params};
    CHECK(Conv(context(), desc, limited({}, 0)).workspace_size() == 0);
    CHECK(ConvBackwardData(context(), backward_data_of(desc), limited({}, 0)).workspace_size() == 0);
    CHECK(ConvBackwardFilter(context(), backward_filter_of(desc), limited({}, 0)).workspace_size() == 0);
  }
}

TEST_CASE("conv: statistics and prologue stay within the workspace's limit", "[conv][small]") {
  const ConvCase c{"surrounded", 4, 16, {30, 30}, 8, {3, 3}, {{1}, {1}, {1}}};
  ConvDesc desc{c.x_shape(), c.w_shape(), c.y_shape(), c.params};
  desc.statistics = true;
  CHECK(Conv(context(), desc, limited({}, 0)).workspace_size() == 0);
  const size_t all = Conv(context(), desc).workspace_size();
  for (size_t limit : {all, all / 2, all / 4})
    CHECK(Conv(context(), desc, limited({}, limit)).workspace_size() <= limit);
  desc.prologue = true;
  const size_t x = sizeof(float) * static_cast<size_t>(element_count(c.x_shape()));
  CHECK(Conv(context(), desc, limited({}, x)).workspace_size() == x);
  const size_t both = Conv(context(), desc).workspace_size();
  CHECK(Conv(context(), desc, limited({}, both)).workspace_size() == both);
  CHECK(refusal([&] { Conv(context(), desc, limited({}, x - 1)); }) ==
        "workspace_limit: the prologue needs " + std::to_string(x) + " bytes of workspace, the limit is " +
            std::to_string(x - 1));
  desc.statistics = false;
  CHECK(ConvBackwardFilter(context(), backward_filter_of(desc), limited({}, x)).workspace_size() == x);
  CHECK_THAT(refusal([&] { ConvBackwardFilter(context(), backward_filter_of(desc), limited({}, 0)); }),
             contains("the prologue needs "));
}

TEST_CASE("conv: engines by request, with other tiles and parts", "[conv]") {
  const ConvCase c = tiled_convs().front();
  for (ConvDirection direction : kDirections) {
    const Exact exact(c, direction);
    const bool filter = direction == ConvDirection::backward_filter;
    for (const std::string& request :
         {std::string("fma:tm=32,tn=64,tk=16,rm=4,rn=4"), std::string("fma:tm=64,tn=64,tk=8,rm=4,rn=8"),
          std::string(filter ? "fma:tm=32,tn=32,tk=8,rm=4,rn=4,parts=7"
                             : "fma:tm=32,tn=32,tk=8,rm=4,rn=4")}) {
      INFO(request << " " << static_cast<int>(direction));
      exact.run(engine(request));
    }
    if (context().device().kind() == DeviceKind::cpu)
      for (const char* request : {"cpu:kc=16,nc=32,mc=8", "cpu:kc=512,nc=64,mc=16", "cpu:kc=128"}) {
        INFO(request << " " << static_cast<int>(direction));
        exact.run(engine(request));
      }
  }
  const ConvDesc desc{c.x_shape(), c.w_shape(), c.y_shape(), c.params};
  const auto refused = [&](const char* request) {
    return refusal([&] { Conv(context(), desc, engine(request)); });
  };
  CHECK_THAT(refused("fma:tm=48"), contains("do not divide"));
  CHECK_THAT(refused("fma:tz=48"), contains("fma has no parameter 'tz'"));
  if (context().device().kind() != DeviceKind::cpu) return note_skipped("the rest is for CPUs");
  CHECK_THAT(refused("cpu:kc=17"), contains("are no multiples of"));
  CHECK_THAT(refused("cpu:nc=288"), contains("more than 256 columns"));
  CHECK_THAT(refused("cpu:kc=90000"), contains("the device has local memory of"));
}
