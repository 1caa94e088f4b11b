// Convolution of infinities, NaN, tiny and huge numbers: what engines cannot hold that take numbers apart.
#include <algorithm>
#include <cmath>

#include "cases/conv.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

/// y, dx and dw; dw of another gradient than dx.
std::vector<std::vector<float>> results_of(const ConvCase& c, const Tensor& x, const Tensor& w,
                                           const Tensor& dy, const Tensor& filter_dy, const std::string& by) {
  const Tensor y(context(), c.y_shape()), dx(context(), c.x_shape()), dw(context(), c.w_shape());
  conv(stream(), x, w, {}, c.params, y, engine(by));
  conv_backward_data(stream(), dy, w, c.params, dx, engine(by));
  conv_backward_filter(stream(), x, filter_dy, c.params, dw, engine(by));
  return {host_values(y), host_values(dx), host_values(dw)};
}

}  // namespace

// Engines that take numbers apart must not show it. (Infinite weights, and gradients beside padding, meet the
// padding's zeros in some engines and not in others.)
TEST_CASE("conv: infinities, NaN, huge and tiny numbers are as with multiply-adds", "[conv]") {
  ConvCase c = tiled_convs().front();
  c.n = 1;
  const float odd[] = {INFINITY, -INFINITY, NAN, 1e38f, 3e-39f, 1e-30f};
  // Of sums of so many products, in two orders.
  const auto like = [](const std::vector<float>& u, const std::vector<float>& v, bool tiny, double terms) {
    const double bound = tiny ? 1e-48 : 1e-5 * std::sqrt(terms / 9);
    for (size_t i = 0; i < u.size(); i++) {
      if (std::isnan(u[i]) != std::isnan(v[i])) return false;
      if (std::isnan(u[i])) continue;
      if (std::isinf(u[i]) || std::isinf(v[i])
              ? u[i] != v[i]
              : std::abs(double{u[i]} - v[i]) > 1e-4 * std::abs(v[i]) + bound)
        return false;
    }
    return true;
  };
  const std::vector<std::string> engines = serving_conv_engines(c);
  CHECK(has_matrix_engine(engines));
  for (const bool tiny : {false, true}) {
    Rng rng(12);
    const auto values = [&](const Shape& shape) {
      std::vector<float> v = reals(element_count(shape), rng);
      for (float& number : v)
        if (tiny) number *= 1e-22f;
      return v;
    };
    std::vector<float> x = values(c.x_shape()), w = values(c.w_shape()), dy = values(c.y_shape());
    const Tensor plain_dy = device_tensor(c.y_shape(), dy);
    if (!tiny)
      for (size_t i = 0; i < 6; i++) x[700 * i + 3] = dy[800 * i + 7] = odd[i];
    const Tensor tx = device_tensor(c.x_shape(), x), tw = device_tensor(c.w_shape(), w),
                 tdy = device_tensor(c.y_shape(), dy);
    const auto results = [&](const std::string& by) { return results_of(c, tx, tw, tdy, plain_dy, by); };
    const auto expected = results("naive");
    const int64_t terms[] = {c.c * c.taps(), c.k * c.taps(), c.n * element_count(c.size)};
    for (const std::string& name : engines) {
      const auto got = results(name);
      for (size_t i = 0; i < 3; i++) {
        INFO(name << (tiny ? ", tiny" : ", with odd numbers") << ", result " << i);
        CHECK(like(got[i], expected[i], tiny, static_cast<double>(terms[i])));
      }
    }
  }
}

// Enough of them that engines which take numbers apart compute strips of a tile again, or all tiles.
TEST_CASE("conv: images of tiny numbers, of infinities and of NaN are as with multiply-adds", "[conv]") {
  ConvCase c = tiled_convs().front();
  c.n = 2;
  Rng rng(13);
  const std::vector<float> of_x = reals(element_count(c.x_shape()), rng),
                           of_y = reals(element_count(c.y_shape()), rng);
  const Tensor w = device_tensor(c.w_shape(), reals(element_count(c.w_shape()), rng)),
               usual_x = device_tensor(c.x_shape(), of_x), usual_dy = device_tensor(c.y_shape(), of_y);
  const std::vector<std::string> engines = serving_conv_engines(c);
  CHECK(has_matrix_engine(engines));
  for (const char* kind : {"tiny", "an image tiny", "a row infinite", "an image NaN", "NaN"}) {
    const std::string what = kind;
    const auto images = [&](const Shape& shape, std::vector<float> v) {
      const size_t image = v.size() / 2, row = static_cast<size_t>(shape.back());
      for (size_t i = 0; i < v.size(); i++) {
        if (what == "tiny" || (what == "an image tiny" && i < image)) v[i] *= 0x1p-128f;
        if (what == "NaN" || (what == "an image NaN" && i < image)) v[i] = NAN;
        if (what == "a row infinite" && i >= 2 * row && i < 3 * row) v[i] = INFINITY;
      }
      return device_tensor(shape, v);
    };
    const Tensor x = images(c.x_shape(), of_x), dy = images(c.y_shape(), of_y);
    const auto results = [&](const std::string& by) {
      const Tensor y(context(), c.y_shape()), dx(context(), c.x_shape()), dw(context(), c.w_shape()),
          dw_of_dy(context(), c.w_shape());
      conv(stream(), x, w, {}, c.params, y, engine(by));
      conv_backward_data(stream(), dy, w, c.params, dx, engine(by));
      conv_backward_filter(stream(), x, usual_dy, c.params, dw, engine(by));
      std::vector<std::vector<float>> r = {host_values(y), host_values(dx), host_values(dw)};
      if (what.find("tiny") != std::string::npos) {  // others meet the padding's zeros in some engines
        conv_backward_filter(stream(), usual_x, dy, c.params, dw_of_dy, engine(by));
        r.push_back(host_values(dw_of_dy));
      }
      return r;
    };
    const auto expected = results("naive");
    for (const std::string& name : engines) {
      const auto got = results(name);
      for (size_t side = 0; side < expected.size(); side++) {
        float most = 0;  // finite
        for (float v : expected[side])
          if (std::isfinite(v)) most = std::max(most, std::abs(v));
        size_t other = 0;
        for (size_t i = 0; i < got[side].size(); i++) {
          const float u = got[side][i], v = expected[side][i];
          const bool small = std::abs(v) < 0x1p-100f;  // what an image of tiny numbers gives
          const double bound = small ? 1e-4 * 0x1p-124 : 1e-5 * double{most};
          other += std::isnan(v)   ? !std::isnan(u)
                   : std::isinf(v) ? u != v
                                   : !(std::abs(double{u} - v) <= bound);
        }
        INFO(name << ", " << kind << ", result " << side);
        CHECK(other == 0);
      }
    }
  }
}

// In other engines they meet the padding's zeros.
TEST_CASE("conv: infinite weights and gradients beside padding are as with multiply-adds", "[conv]") {
  if (context().device().probes().matrix != MatrixEngine::nv_wgmma)
    return note_skipped("the device has no nv_wgmma");
  ConvCase c = tiled_convs().front();
  c.n = 2;
  Rng rng(14);
  std::vector<float> x = reals(element_count(c.x_shape()), rng), w = reals(element_count(c.w_shape()), rng),
                     dy = reals(element_count(c.y_shape()), rng);
  w[0] = dy[0] = INFINITY, w[w.size() - 1] = -INFINITY, dy[dy.size() - 1] = NAN;
  const Tensor tx = device_tensor(c.x_shape(), x), tw = device_tensor(c.w_shape(), w),
               tdy = device_tensor(c.y_shape(), dy);
  const auto results = [&](const std::string& by) { return results_of(c, tx, tw, tdy, tdy, by); };
  const auto expected = results("naive"), got = results("nv_wgmma");
  for (size_t side = 0; side < 3; side++) {
    INFO("result " << side);
    CHECK(conv_differences(got[side], expected[side]) == 0);
    const auto finite =
        std::count_if(expected[side].begin(), expected[side].end(), [](float v) { return std::isfinite(v); });
    CHECK((finite > 0 && static_cast<size_t>(finite) < expected[side].size()));
  }
}

// Those are in no list of engines above.
TEST_CASE("conv: depthwise engines pass infinities and NaN on as multiply-adds do", "[conv]") {
  const ConvCase planes{"depthwise", 2, 24, {14, 13}, 24, {3, 3}, {{1}, {1}, {1}, {1}, 24}};
  int served = 0;
  for (const char* name : {"depthwise", "depthwise_cpu", "depthwise_cpu_last"})
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      const ConvCase c = planes.in(layout);
      Rng rng(18);
      const auto placed = [&](const Shape& shape, bool odd) {
        std::vector<float> v = reals(element_count(shape), rng);
        // Inside: beside padding they meet zeros in some engines' sums for weights.
        if (odd)
          v[5 * 13 + 6] = INFINITY, v[10 * 182 + 6 * 13 + 5] = -INFINITY, v[34 * 182 + 7 * 13 + 4] = NAN;
        const Guarded room(shape, strides_in(layout, shape), DType::f32, 16);
        copy(stream(), device_tensor(shape, v), room.tensor());
        return room.tensor();
      };
      const Tensor x = placed(c.x_shape(), true), dy = placed(c.y_shape(), true),
                   usual_dy = placed(c.y_shape(), false), w = device_tensor(c.w_shape(), reals(24 * 9, rng)),
                   y = placed(c.y_shape(), false), dx = placed(c.x_shape(), false);
      const std::string refusal = conv_refusal<Conv>({x, w, y, c.params}, engine(name));
      CHECK((refusal.empty() || refusal.find(" refused:") != std::string::npos));
      if (!refusal.empty()) continue;
      served++;
      INFO(name << ", layout " << static_cast<int>(layout));
      const auto results = [&](const std::string& by) {
        const Tensor dw(context(), c.w_shape());
        conv(stream(), x, w, {}, c.params, y, engine(by));
        conv_backward_data(stream(), dy, w, c.params, dx, engine(by));
        conv_backward_filter(stream(), x, usual_dy, c.params, dw, engine(by));
        return std::vector<std::vector<float>>{host_values(y), host_values(dx), host_values(dw)};
      };
      const auto expected = results("naive"), got = results(name);
      for (size_t side = 0; side < 3; side++) {
        INFO("result " << side);
        CHECK(conv_differences(got[side], expected[side]) == 0);
      }
    }
  CHECK(served >= 2);
}
