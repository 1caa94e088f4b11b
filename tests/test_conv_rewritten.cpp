// Convolutions that engines turn into others (conv_nv_few, conv_spread), the other one by the naive engine:
// the rearrangement itself, on any device.
#include <algorithm>

#include "cases/conv.hpp"
#include "catch.hpp"
#include "core/composed.hpp"
#include "ops/conv/conv_nv_few.hpp"
#include "ops/conv/conv_nv_groups.hpp"
#include "ops/conv/conv_nv_images.hpp"
#include "ops/conv/conv_spread.hpp"

using namespace dlprim;
using namespace dlprim::test;
using detail::ConvDirection;

namespace dlprim::detail {
extern const ConvEngine kConvNaive;
}

namespace {

std::vector<float> floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

Tensor operand(Layout layout, const Shape& shape, const std::vector<float>& values, DType dtype) {
  const Guarded room(shape, strides_in(layout, shape), dtype, 5);
  copy(stream(), device_tensor(shape, values), room.tensor());
  return room.tensor();
}

/// All are rewritten then.
Options tf32() {
  Options options;
  options.math = MathMode::tf32;
  return options;
}

/// Sums of few images have room, those of all of x and dy have not.
Options room_for(int64_t bytes) {
  Options options;
  options.workspace_limit = static_cast<size_t>(bytes);
  return options;
}

/// Runs the rewritten problem in one direction, twice, as w may be kept; false if it is none of those that
/// are rewritten.
template <class Inner, class Make>
bool check(const ConvCase& c, ConvDirection direction, const Inner& inner, const Make& make,
           bool constant_w = false, const Options& options = tf32()) {
  Rng rng(1);
  const auto x = integers(element_count(c.x_shape()), rng, 3),
             w = integers(element_count(c.w_shape()), rng, 3),
             dy = integers(element_count(c.y_shape()), rng, 3);
  const bool data = direction == ConvDirection::backward_data,
             filter = direction == ConvDirection::backward_filter;
  const Layout layout = data ? c.x_layout : filter ? c.w_layout : c.y_layout;
  const Shape shape = data ? c.x_shape() : filter ? c.w_shape() : c.y_shape();
  const Guarded result(shape, strides_in(layout, shape), c.dtype, 37);
  const Tensor tx = data ? result.tensor() : operand(c.x_layout, c.x_shape(), x, c.dtype);
  const Tensor tw = filter ? result.tensor() : operand(c.w_layout, c.w_shape(), w, c.dtype);
  const Tensor ty = data || filter ? operand(c.y_layout, c.y_shape(), dy, c.dtype) : result.tensor();
  auto problem = detail::conv_problem(direction, {tx, tw, ty, c.params});
  problem.constant_w = constant_w;
  if (!inner(problem, options)) return false;
  INFO("direction " << static_cast<int>(direction) << ", " << again(c.text()));
  const auto impl = make(context(), problem, detail::EngineOptions(options), detail::kConvNaive.make);
  const Guarded workspace({static_cast<int64_t>(impl->workspace_size())}, DType::u8);
  const EpilogueTensors none;
  for (int run = 0; run < 2; run++)
    impl->run(stream(), {detail::with_depth(tx), detail::with_depth(tw), detail::with_depth(ty), none},
              workspace.tensor());
  const std::vector<double> expected = data     ? conv_backward_data_reference(c, dy, w)
                                       : filter ? conv_backward_filter_reference(c, x, dy)
                                                : conv_forward_reference(c, x, w);
  CHECK(host_values(result.tensor()) == floats(expected));
  CHECK(result.intact());
  CHECK(workspace.intact());
  return true;
}

ConvParams params(const Dims& stride, const Dims& pad, const Dims& pad_end, const Dims& dilation = {}) {
  ConvParams p;
  p.stride = stride, p.pad_begin = pad, p.pad_end = pad_end, p.dilation = dilation;
  return p;
}

/// First layers and their like, of odd sizes.
std::vector<ConvCase> few_channels() {
  return {{"3 channels, 7x7/2", 2, 3, {15, 18}, 5, {7, 7}, params({2}, {3}, {3})},
          {"3 channels, 3x3", 1, 3, {9, 7}, 4, {3, 3}, params({1}, {1}, {1})},
          {"4 channels, 4x4/4", 2, 4, {13, 12}, 3, {4, 4}, params({4}, {0}, {0})},
          {"2 channels, 5x5/3, uneven", 2, 2, {11, 14}, 3, {5, 5}, params({3, 2}, {2, 4}, {1, 0})},
          {"1 channel, 11x11/4", 1, 1, {27, 30}, 2, {11, 11}, params({4}, {2}, {2})},
          {"negative padding", 1, 3, {12, 12}, 2, {3, 5}, params({2}, {-1}, {-2})},
          {"dilated rows", 1, 3, {14, 12}, 2, {3, 3}, params({1, 2}, {2, 1}, {2, 1}, {2, 1})},
          {"one dimension", 2, 3, {23}, 4, {8}, params({2}, {3}, {4})},
          {"three dimensions", 1, 3, {7, 6, 9}, 2, {3, 3, 5}, params({1, 2, 2}, {1}, {1})},
          {"window as wide as x", 1, 3, {5, 6}, 2, {5, 6}, params({1}, {0}, {0})},
          {"stride beyond the window", 1, 3, {10, 11}, 2, {2, 2}, params({3}, {0}, {0})}};
}

/// In every layout and in elements of 2 and 4 bytes.
template <class F>
void in_all_forms(const std::vector<ConvCase>& cases, const F& f) {
  for (const ConvCase& each : cases)
    for (Layout layout : {Layout::nchw, Layout::nhwc, Layout::gaps})
      for (DType dtype : {DType::f32, DType::f16}) {
        ConvCase c = each.in(layout);
        c.w_layout = layout;
        c.dtype = dtype;
        if (is_selected(c.text())) f(c);
      }
}

/// All three directions, with weights that change and that do not; how often each was rewritten is at least
/// `least`.
void check_groups(const std::vector<ConvCase>& cases, int least) {
  int counts[3] = {};
  in_all_forms(cases, [&](const ConvCase& c) {
    for (const auto direction :
         {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_filter})
      for (bool constant_w : {false, true})
        counts[static_cast<int>(direction)] +=
            check(c, direction, detail::conv_nv_groups, detail::make_conv_nv_groups, constant_w);
  });
  for (int count : counts) CHECK(count >= least);
}

ConvCase grouped(ConvCase c, int64_t groups) {
  c.params.groups = groups;
  return c;
}

}  // namespace

TEST_CASE("conv: taps of a row as channels", "[conv][small]") {
  int forward = 0, filter = 0;
  in_all_forms(few_channels(), [&](const ConvCase& c) {
    forward += check(c, ConvDirection::forward, detail::conv_nv_rows, detail::make_conv_nv_rows);
    filter += check(c, ConvDirection::backward_filter, detail::conv_nv_rows, detail::make_conv_nv_rows);
  });
  CHECK(forward >= 50);
  CHECK(filter >= 50);
}

TEST_CASE("conv: pixels of a block as channels", "[conv][small]") {
  int count = 0;
  in_all_forms(few_channels(), [&](const ConvCase& c) {
    count += check(c, ConvDirection::backward_data, detail::conv_nv_blocks, detail::make_conv_nv_blocks);
  });
  CHECK(count >= 50);
}

TEST_CASE("conv: a window of one tap with a stride", "[conv][small]") {
  const std::vector<ConvCase> cases = {
      {"1x1/2", 2, 5, {7, 8}, 3, {1, 1}, params({2}, {0}, {0})},
      {"1x1/3x1", 1, 4, {8, 5}, 2, {1, 1}, params({3, 1}, {0}, {0})},
      {"cropped", 1, 4, {9, 9}, 2, {1, 1}, params({2}, {0}, {-3})},
      {"padded behind", 1, 4, {6, 6}, 2, {1, 1}, params({4}, {0}, {3})},
      {"three dimensions", 1, 3, {5, 4, 6}, 2, {1, 1, 1}, params({2}, {0}, {0})},
      {"groups", 1, 4, {5, 5}, 6, {1, 1}, params({2}, {0}, {0})}};
  int count = 0;
  in_all_forms(cases, [&](ConvCase c) {
    if (c.name == "groups") c.params.groups = 2;
    count += check(c, ConvDirection::backward_data, detail::conv_spread_inner, detail::make_conv_spread);
  });
  CHECK(count >= 24);
}

TEST_CASE("conv: several groups as one", "[conv]") {
  const ConvParams padded = params({1}, {1}, {1});
  check_groups({grouped({"8 groups of 8", 2, 64, {5, 6}, 64, {3, 3}, padded}, 8),
                grouped({"6 groups of 16 and 4", 1, 96, {4, 3}, 24, {1, 1}, params({1}, {0}, {0})}, 6),
                grouped({"3 groups of 4 and 32", 2, 12, {3, 4}, 96, {2, 2}, padded}, 3)},
               30);
}

TEST_CASE("conv: several small groups as one", "[conv][small]") {
  const ConvParams padded = params({1}, {1}, {1});
  check_groups({grouped({"4 groups of 3 and 2", 1, 12, {4, 5}, 8, {3, 2}, params({2}, {1}, {0})}, 4),
                grouped({"2 groups, three dimensions", 1, 8, {3, 4, 3}, 6, {2, 3, 2}, padded}, 2)},
               20);
}

TEST_CASE("conv: a few images at a time", "[conv][small]") {
  const std::vector<ConvCase> cases = {
      {"3x3", 7, 5, {6, 5}, 3, {3, 3}, params({1}, {1}, {1})},
      {"with a stride", 5, 3, {9, 8}, 4, {3, 2}, params({2, 1}, {1}, {0})},
      {"one image", 1, 3, {6, 6}, 2, {3, 3}, params({1}, {1}, {1})},
      grouped({"groups", 4, 4, {5, 5}, 6, {3, 3}, params({1}, {0}, {0})}, 2),
      {"three dimensions", 3, 3, {4, 5, 6}, 2, {1, 3, 3}, params({1}, {1}, {1})}};
  int count = 0;
  in_all_forms(cases, [&](const ConvCase& c) {
    const auto of = [&](int64_t bytes, bool rewritten) {
      const bool was = check(c, ConvDirection::backward_filter, detail::conv_nv_images,
                             detail::make_conv_nv_images, false, room_for(bytes));
      if (rewritten)
        count += was;
      else
        CHECK_FALSE(was);
    };
    for (int64_t bytes : {8000, 12000, 20000}) of(bytes, true);
    of(int64_t{1} << 30, false);
    of(100, false);
    CHECK_FALSE(check(c, ConvDirection::forward, detail::conv_nv_images, detail::make_conv_nv_images, false,
                      room_for(8000)));
  });
  CHECK(count >= 30);
}

TEST_CASE("conv: a few images at a time by nv_wgmma", "[conv]") {
  if (context().device().probes().matrix != MatrixEngine::nv_wgmma)
    return note_skipped("the device has no nv_wgmma");
  Rng rng(4);
  for (Layout layout : {Layout::nchw, Layout::nhwc})
    for (int64_t n : {32, 33}) {
      ConvCase c{"images", n, 16, {12, 12}, 24, {3, 3}, params({1}, {1}, {1})};
      c = c.in(layout);
      const auto x = integers(element_count(c.x_shape()), rng, 3),
                 dy = integers(element_count(c.y_shape()), rng, 3);
      const Tensor tx = operand(layout, c.x_shape(), x, c.dtype),
                   ty = operand(layout, c.y_shape(), dy, c.dtype);
      const Guarded dw(c.w_shape(), strides_in(layout, c.w_shape()), c.dtype, 37);
      Options options = room_for(1300000);  // x and dy as three parts of bf16 take 1.1 MB and more
      options.engine = "nv_wgmma";
      const ConvDesc desc{tx, dw.tensor(), ty, c.params};
      INFO(again(c.text()));
      CHECK(detail::conv_nv_images(detail::conv_problem(ConvDirection::backward_filter, desc), options));
      const ConvBackwardFilter plan(context(), backward_filter_of(desc), options);
      CHECK(plan.workspace_size() <= options.workspace_limit);
      const Guarded workspace({static_cast<int64_t>(plan.workspace_size())}, DType::u8, 64);
      for (int run = 0; run < 2; run++) plan.run(stream(), tx, ty, {}, dw.tensor(), workspace.tensor());
      CHECK(host_values(dw.tensor()) == floats(conv_backward_filter_reference(c, x, dy)));
      CHECK(dw.intact());
      CHECK(workspace.intact());
    }
}
