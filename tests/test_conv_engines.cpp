// Convolution's engines and plans: which serves what, workspaces, constants.
#include <algorithm>
#include <map>
#include <sstream>

#include <dlprim/copy.hpp>

#include "cases/conv.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

TEST_CASE("conv: engines by name", "[conv][small]") {
  const TensorDesc x({2, 8, 8, 8}), w({4, 8, 3, 3}), y({2, 4, 6, 6});
  const ConvDesc desc{x, w, y, {}};
  CHECK_THAT(refusal([&] { Conv(context(), desc, engine("magic")); }),
             contains("conv has no engine 'magic'"));
  for (const std::string& name : serving_conv_engines({"", 2, 8, {8, 8}, 4, {3, 3}})) {
    const std::string alone = name.substr(0, name.find(':'));
    CHECK(Conv(context(), desc, engine(name)).engine() == alone);
    CHECK(ConvBackwardData(context(), backward_data_of(desc), engine(name)).engine() == alone);
    CHECK(ConvBackwardFilter(context(), backward_filter_of(desc), engine(name)).engine() == alone);
  }
  const Conv plan(context(), desc);
  CHECK_THAT(plan.explain(), contains("op=conv engine=") &&
                                 contains(" n=2 c=8 size=1x8x8 k=4 window=1x3x3 result=1x6x6 stride=1x1x1") &&
                                 contains(plan.engine() + ": chosen"));
}

TEST_CASE("conv: an ordinary problem goes to the engine of the device's kind", "[conv][small]") {
  const DeviceKind kind = context().device().kind();
  if (kind != DeviceKind::cpu && kind != DeviceKind::gpu)
    return note_skipped("the device is no CPU and no GPU");
  const MatrixEngine matrix = context().device().probes().matrix;
  const std::string expected = kind == DeviceKind::cpu        ? "cpu"
                               : matrix == MatrixEngine::none ? "fma"
                                                              : name_of(matrix);
  // Small ones are predicted to take less time by `fma` than on matrix hardware.
  const int64_t n = matrix == MatrixEngine::none ? 2 : 64, c = matrix == MatrixEngine::none ? 16 : 128;
  const ConvDesc desc{{{n, c, 14, 14}}, {{2 * c, c, 5, 5}}, {{n, 2 * c, 10, 10}}, {}};
  Options strict;  // Winograd's tiles of such windows are not
  strict.math = MathMode::strict;
  CHECK(Conv(context(), desc, strict).engine() == expected);
  CHECK(ConvBackwardData(context(), backward_data_of(desc), strict).engine() == expected);
  CHECK(ConvBackwardFilter(context(), backward_filter_of(desc), strict).engine() == expected);
}

TEST_CASE("conv: Winograd's tiles serve large layers where products are nv_wgmma's", "[conv][small]") {
  if (context().device().probes().matrix != MatrixEngine::nv_wgmma)
    return note_skipped("the device has no nv_wgmma");
  const auto desc_of = [](int64_t n, Layout layout = Layout::nhwc) {
    const Shape shape{n, 256, 28, 28};
    const TensorDesc pixels{shape, strides_in(layout, shape), DType::f32, true};
    ConvDesc desc{pixels, {{256, 256, 3, 3}}, pixels, {}};
    desc.params.pad_begin = desc.params.pad_end = {1};
    return desc;
  };
  Options strict, tf32;
  strict.math = MathMode::strict, tf32.math = MathMode::tf32;
  CHECK(Conv(context(), desc_of(64)).request() == "winograd:m=4");
  CHECK(ConvBackwardData(context(), backward_data_of(desc_of(64))).request() == "winograd:m=4");
  CHECK(ConvBackwardFilter(context(), backward_filter_of(desc_of(64))).request() == "winograd:m=4");
  CHECK(Conv(context(), desc_of(64), tf32).engine() == "nv_wgmma");
  CHECK(Conv(context(), desc_of(64), strict).request() != "winograd:m=4");
  CHECK(Conv(context(), desc_of(1)).engine() != "winograd");
  CHECK(Conv(context(), desc_of(64, Layout::nchw)).engine() != "winograd");
}

// Elsewhere an engine's refusal ends a check, so that one which refuses all would pass.
TEST_CASE("conv: every engine serves the problems that it is for", "[conv][small]") {
  struct Use {
    const char* engine;
    ConvCase c;
    bool chosen;  ///< of itself on a CPU
  };
  const ConvParams around{{1}, {1}, {1}}, each{{1}, {1}, {1}, {1}, 24};
  const ConvCase plain{"plain", 2, 32, {14, 14}, 32, {3, 3}, around},
      depthwise{"depthwise", 2, 24, {14, 14}, 24, {3, 3}, each},
      pointwise{"pointwise", 2, 32, {14, 14}, 64, {1, 1}};
  const Use uses[] = {{"depthwise_cpu", depthwise, true},
                      {"depthwise_cpu_last", depthwise.in(Layout::nhwc), true},
                      {"depthwise", depthwise, false},
                      {"cpu", plain, true},
                      {"cpu_last", plain.in(Layout::nhwc), false},
                      {"winograd", plain, false},
                      {"winograd_fused", plain, false},
                      {"gemm", pointwise.in(Layout::nhwc), false},
                      {"fma", plain, false},
                      {"naive", plain, false}};
  for (const Use& use : uses) {
    ConvCase c = use.c;
    c.aligned = true;
    const auto desc_of = [&](Layout layout, const Shape& shape) {
      return TensorDesc{shape, strides_in(layout, shape), DType::f32, true};
    };
    const ConvDesc desc{desc_of(c.x_layout, c.x_shape()), desc_of(c.w_layout, c.w_shape()),
                        desc_of(c.y_layout, c.y_shape()), c.params};
    INFO(use.engine);
    CHECK(conv_refusal<Conv>(desc, engine(use.engine)) == "");
    CHECK(conv_refusal<ConvBackwardData>(desc, engine(use.engine)) == "");
    if (std::string(use.engine) != "winograd_fused")
      CHECK(conv_refusal<ConvBackwardFilter>(desc, engine(use.engine)) == "");
    if (!use.chosen || context().device().kind() != DeviceKind::cpu) continue;
    Options strict;
    strict.math = MathMode::strict;
    CHECK(Conv(context(), desc, strict).engine() == use.engine);
    CHECK(ConvBackwardData(context(), backward_data_of(desc), strict).engine() == use.engine);
    CHECK(ConvBackwardFilter(context(), backward_filter_of(desc), strict).engine() == use.engine);
  }
}

TEST_CASE("conv: NVIDIA's matrix engines serve what they are for", "[conv][small]") {
  const MatrixEngine matrix = context().device().probes().matrix;
  if (matrix != MatrixEngine::nv_wgmma && matrix != MatrixEngine::nv_mma)
    return note_skipped("the device has neither nv_wgmma nor nv_mma");
  const ConvCase c{"plain", 2, 32, {14, 14}, 32, {3, 3}, {{1}, {1}, {1}}};
  for (const std::string& name : {std::string(name_of(matrix)), std::string("nv_mma")})
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
      for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
        const auto desc_of = [&](const Shape& shape) {
          return TensorDesc{shape, strides_in(layout, shape), dtype, true};
        };
        const ConvDesc desc{desc_of(c.x_shape()), desc_of(c.w_shape()), desc_of(c.y_shape()), c.params};
        INFO(name << " " << name_of(dtype));
        CHECK(conv_refusal<Conv>(desc, engine(name)) == "");
        CHECK(conv_refusal<ConvBackwardData>(desc, engine(name)) == "");
        CHECK(conv_refusal<ConvBackwardFilter>(desc, engine(name)) == "");
      }
}

namespace {

/// Adds one for each engine that neither refuses nor avoids the problem.
template <class P>
void count_serving(const ConvDesc& desc, std::map<std::string, int>& counts) {
  std::istringstream lines(P(context(), conv_desc_of<P>(desc), engine("naive")).explain());
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line))
    if (line.find(": refused") == std::string::npos && line.find(": avoided") == std::string::npos)
      counts[line.substr(2, line.find(':') - 2)]++;
}

}  // namespace

// Where the cases of test_conv.cpp are refused they are not run: fewer than here means that an engine no
// longer serves what it did.
TEST_CASE("conv: the engines of a CPU serve as many cases as they can", "[conv][small]") {
  if (context().device().kind() != DeviceKind::cpu) return note_skipped("the device is no CPU");
  std::map<std::string, int> counts;
  for (const std::vector<ConvCase>* cases : {&odd_convs(), &depthwise_convs()})
    for (const ConvCase& each : *cases)
      for (Layout layout : {Layout::nchw, Layout::nhwc}) {
        const ConvCase c = each.in(layout);
        const auto desc_of = [&](Layout of, const Shape& shape) {
          return TensorDesc{shape, strides_in(of, shape), DType::f32, true};
        };
        const ConvDesc desc{desc_of(c.x_layout, c.x_shape()), desc_of(c.w_layout, c.w_shape()),
                            desc_of(c.y_layout, c.y_shape()), c.params};
        count_serving<Conv>(desc, counts);
        count_serving<ConvBackwardData>(desc, counts);
        count_serving<ConvBackwardFilter>(desc, counts);
      }
  CHECK(counts["cpu"] >= 486);
  CHECK(counts["cpu_last"] >= 183);
  CHECK(counts["depthwise_cpu"] >= 288);
  CHECK(counts["depthwise_cpu_last"] >= 83);  // one channel it leaves to depthwise_cpu
  CHECK(counts["naive"] >= 558);
}

// What an engine refuses every plan tells, of whichever engine it is.
TEST_CASE("conv: no ordinary problem is left to the naive engine", "[conv][small]") {
  const DeviceKind kind = context().device().kind();
  if (kind != DeviceKind::cpu && kind != DeviceKind::gpu)
    return note_skipped("the device is no CPU and no GPU");
  const std::string refused = std::string("\n  ") + (kind == DeviceKind::cpu ? "cpu" : "fma") + ": refused";
  for (int rank = 1; rank <= 3; rank++)
    for (bool transposed : {false, true})
      for (DType dtype : {DType::f32, DType::f16, DType::bf16})
        for (Layout layout : {Layout::nchw, Layout::nhwc}) {
          ConvCase c{"ordinary", 2, 6, Dims::filled(rank, 7), 8, Dims::filled(rank, 3), {{2}, {1}, {1}}};
          c.params.transposed = transposed;
          c.dtype = dtype;
          c = c.in(layout);
          INFO(c.text());
          const auto desc_of = [&](const Shape& shape, DType of) {
            return TensorDesc{shape, strides_in(layout, shape), of, true};
          };
          for (DType result : {dtype, DType::f32}) {
            const TensorDesc x = desc_of(c.x_shape(), dtype), w = desc_of(c.w_shape(), dtype),
                             y = desc_of(c.y_shape(), dtype);
            ConvDesc forward{x, w, desc_of(c.y_shape(), result), c.params};
            forward.bias = forward.scale = forward.residual = forward.preactivation = true;
            const Options naive = engine("naive");
            CHECK_THAT(Conv(context(), forward, naive).explain(), !contains(refused));
            CHECK_THAT(ConvBackwardData(
                           context(), backward_data_of({desc_of(c.x_shape(), result), w, y, c.params}), naive)
                           .explain(),
                       !contains(refused));
            CHECK_THAT(
                ConvBackwardFilter(context(),
                                   backward_filter_of({x, desc_of(c.w_shape(), result), y, c.params}), naive)
                    .explain(),
                !contains(refused));
          }
        }
}

TEST_CASE("conv: problems beyond 32 bits go to the engine that counts in 64", "[conv][small]") {
  const Strides far{int64_t{1} << 32, 64, 8, 1};
  const TensorDesc near({2, 8, 8, 8}), w({8, 8, 3, 3});
  const TensorDesc x(near.shape, far, DType::f32, true), y({2, 8, 6, 6}, far, DType::f32, true);
  const std::vector<std::string> engines = serving_conv_engines({"", 2, 8, {8, 8}, 8, {3, 3}});
  CHECK(has_matrix_engine(engines));
  for (const ConvDesc& desc : {ConvDesc{x, w, {{2, 8, 6, 6}}, {}}, ConvDesc{near, w, y, {}}}) {
    CHECK(Conv(context(), desc).engine() == "naive");
    CHECK(ConvBackwardData(context(), backward_data_of(desc)).engine() == "naive");
    CHECK(ConvBackwardFilter(context(), backward_filter_of(desc)).engine() == "naive");
    for (const std::string& name : engines)
      if (name != "naive")
        CHECK_THAT(refusal([&] { Conv(context(), desc, engine(name)); }),
                   contains(name + " refused") && contains("extent 429496") && contains("32 bits"));
  }
  // More pixels than an int counts, in memory that is hardly any: all rows are the same one.
  const TensorDesc flat({1 << 16, 1, 1 << 16, 1}, {0, 0, 0, 0}, DType::f32, true);
  const ConvDesc wide{flat, {{1, 1, 1, 1}}, {{1 << 16, 1, 1 << 16, 1}}, {}};
  CHECK(ConvBackwardFilter(context(), backward_filter_of(wide)).engine() == "naive");
}

TEST_CASE("conv: workspace", "[conv][small]") {
  const ConvCase c = tiled_convs().front();
  Rng rng(2);
  const Tensor x = device_tensor(c.x_shape(), integers(element_count(c.x_shape()), rng)),
               dy = device_tensor(c.y_shape(), integers(element_count(c.y_shape()), rng));
  const Guarded dw(c.w_shape()), other(c.w_shape());
  const ConvDesc desc{x, dw.tensor(), dy, c.params};
  const ConvBackwardFilter plan(context(), backward_filter_of(desc));
  const auto size = static_cast<int64_t>(plan.workspace_size());
  plan.run(stream(), x, dy, {}, dw.tensor());
  if (size > 0) {
    const Guarded room({size}, DType::u8, 64);
    plan.run(stream(), x, dy, {}, dw.tensor(), room.tensor());
    CHECK(room.intact());
    CHECK(dw.intact());
    plan.run(stream(), x, dy, {}, other.tensor());
    CHECK(host_bytes(dw.tensor()) == host_bytes(other.tensor()));
    const Tensor small(context(), {size - 1}, DType::u8);
    CHECK_THAT(refusal([&] { plan.run(stream(), x, dy, {}, dw.tensor(), small); }), contains("workspace: "));
    const Tensor big(context(), {size + dw.tensor().bytes()}, DType::u8);
    const Tensor inside = big.slice(0, 0, dw.tensor().bytes()).reinterpret(DType::f32).reshape(c.w_shape());
    CHECK_THAT(refusal([&] { plan.run(stream(), x, dy, {}, inside, big); }),
               contains("workspace: shares memory"));
  }
  Options none;
  none.workspace_limit = 0;
  const ConvBackwardFilter frugal(context(), backward_filter_of(desc), none);
  CHECK(frugal.workspace_size() == 0);
  frugal.run(stream(), x, dy, {}, other.tensor());
  CHECK(host_values(other.tensor()) == host_values(dw.tensor()));
}

TEST_CASE("conv: another image size compiles nothing", "[conv]") {
  const ConvCase c{"", 1, 8, {9, 9}, 16, {3, 3}, {}, Layout::nhwc, Layout::nhwc};
  for (const std::string& name : serving_conv_engines(c)) {
    INFO(name);
    const auto tensor = [&](const Shape& shape) {
      const Tensor room(context(), {element_count(shape)});
      return room.as_strided(shape, strides_in(name == "cpu_last" ? Layout::nhwc : Layout::nchw, shape));
    };
    const auto run = [&](int64_t n, int64_t size) {
      const Tensor x = tensor({n, 8, size, size}), w(context(), {16, 8, 3, 3}),
                   y = tensor({n, 16, size - 2, size - 2});
      conv(stream(), x, w, {}, {}, y, engine(name));
      conv_backward_data(stream(), y, w, {}, x, engine(name));
      conv_backward_filter(stream(), x, y, {}, w, engine(name));
      stream().finish();
      const ProgramStats stats = context().program_stats();
      return stats.built + stats.from_disk;
    };
    uint64_t before = run(2, 20);
    // Fragments are loaded by 16 bytes where planes lie so: another form.
    if (name.find("nv_fragment") == 0 || name.find("amd_") == 0 || name.find("intel_") == 0)
      before = run(2, 21);
    CHECK(run(2, 21) == before);
    CHECK(run(2, 19) == before);
    CHECK(run(2, 24) == before);
  }
}

TEST_CASE("conv: windows of one tap are products of tensors as they lie", "[conv][small]") {
  const auto refusals = [](const ConvCase& c) {
    const TensorDesc x{c.x_shape(), strides_in(c.x_layout, c.x_shape()), c.dtype, true},
        w{c.w_shape(), strides_in(c.w_layout, c.w_shape()), c.dtype, true},
        y{c.y_shape(), strides_in(c.y_layout, c.y_shape()), c.dtype, true};
    const ConvDesc desc{x, w, y, c.params};
    const Options gemm = engine("gemm");
    return std::vector<std::string>{conv_refusal<Conv>(desc, gemm),
                                    conv_refusal<ConvBackwardData>(desc, gemm),
                                    conv_refusal<ConvBackwardFilter>(desc, gemm)};
  };
  const std::vector<std::string> none(3);
  for (const ConvCase& c : {ConvCase{"", 1, 6, {5, 4}, 8, {1, 1}}, {"", 3, 6, {1, 1}, 8, {1, 1}}})
    for (Layout x : {Layout::nchw, Layout::nhwc})
      for (Layout y : {Layout::nchw, Layout::nhwc}) {
        ConvCase mixed = c;
        mixed.x_layout = x, mixed.y_layout = y;
        INFO(mixed.text());
        CHECK(refusals(mixed) == none);
      }
  ConvCase several{"", 3, 6, {5, 4}, 8, {1, 1}};
  CHECK(refusals(several.in(Layout::nhwc)) == none);
  // Planes of several images are a batch of products, but no one sum.
  const std::vector<std::string> planes = refusals(several);
  CHECK(planes[0].empty());
  CHECK(planes[1].empty());
  CHECK_THAT(planes[2], contains("do not lie in one run"));
  for (const std::string& refusal : refusals(several.in(Layout::gaps)))
    CHECK_THAT(refusal, contains(" lie "));
  for (const auto& [window, params, reason] :
       {std::tuple(Dims{3, 1}, ConvParams{}, "windows of one tap, these have 3"),
        {Dims{1, 1}, ConvParams{{2}}, "neither stride nor padding, these are 2 and 0"},
        {Dims{1, 1}, ConvParams{{1}, {1}, {0}}, "neither stride nor padding, these are 1 and 1"},
        {Dims{1, 1}, ConvParams{{1}, {0}, {0}, {1}, 2}, "one group, there are 2"}}) {
    ConvCase other = several;
    other.window = window, other.params = params;
    for (const std::string& refusal : refusals(other)) CHECK_THAT(refusal, contains(reason));
  }
}

// 16-bit sums of several blocks of k lie in the workspace: with little of it, of a few images at a time.
TEST_CASE("conv: 16-bit results in little workspace", "[conv][small]") {
  ConvCase c{"deep", 3, 40, {6, 5}, 9, {3, 3}, {{1}, {1}, {1}}};
  c.dtype = DType::bf16;
  Rng rng(4);
  const auto x = integers(element_count(c.x_shape()), rng, 2),
             w = integers(element_count(c.w_shape()), rng, 2),
             residual = integers(element_count(c.y_shape()), rng, 2);
  const Tensor tx = device_tensor(c.x_shape(), x, DType::bf16),
               tw = device_tensor(c.w_shape(), w, DType::bf16);
  ConvExtras with;
  with.residual = device_tensor(c.y_shape(), residual, DType::bf16);
  for (const std::string& name : serving_conv_engines(c)) {
    if (name == "nv_wgmma" || name == "nv_mma") continue;  // what they need holds copies, and no sums
    INFO(name);
    const Guarded much(c.y_shape(), DType::bf16), little(c.y_shape(), DType::bf16);
    ConvDesc desc{tx, tw, much.tensor(), c.params};
    desc.residual = true;
    const Conv plan(context(), desc, engine(name));
    plan.run(stream(), tx, tw, with, much.tensor());
    Options limited = engine(name);
    const auto of_image = sizeof(float) * static_cast<size_t>(element_count(c.y_shape()) / c.n);
    limited.workspace_limit = plan.workspace_size() - std::min(plan.workspace_size(), of_image);
    const Conv frugal(context(), desc, limited);
    CHECK(frugal.workspace_size() <= limited.workspace_limit);
    frugal.run(stream(), tx, tw, with, little.tensor());
    CHECK(host_bytes(much.tensor()) == host_bytes(little.tensor()));
    const std::vector<double> expected = conv_forward_reference(c, x, w, {{}, {}, residual});
    CHECK(host_values(much.tensor()) ==
          host_values(
              device_tensor(c.y_shape(), std::vector<float>(expected.begin(), expected.end()), DType::bf16)));
    CHECK((much.intact() && little.intact()));
  }
}

TEST_CASE("conv: plans for other pictures share what is kept of constant weights", "[conv]") {
  const ConvCase base{"shared", 2, 16, {7, 6}, 24, {3, 3}, {{}, {1}, {1}}};
  Rng rng(8);
  const auto weights = integers(element_count(base.w_shape()), rng, 3);
  for (const std::string& name : serving_conv_engines(base.in(Layout::nhwc))) {
    INFO(name);
    const Layout layout = name == "cpu_last" ? Layout::nhwc : Layout::nchw;
    const Tensor w = device_tensor(base.w_shape(), weights);
    bool first = true;
    for (const int height : {7, 8, 12, 5, 21, 7}) {
      ConvCase c = base;
      c.size = {height, 2 * height - 1};
      const auto x = integers(element_count(c.x_shape()), rng, 3);
      const Guarded room(c.x_shape(), strides_in(layout, c.x_shape()), DType::f32),
          y(c.y_shape(), strides_in(layout, c.y_shape()), DType::f32);
      copy(stream(), device_tensor(c.x_shape(), x), room.tensor());
      ConvDesc desc{room.tensor(), w, y.tensor(), c.params};
      desc.constant_w = true;
      const uint64_t before = context().memory_stats().allocated;
      Conv(context(), desc, engine(name)).run(stream(), room.tensor(), w, {}, y.tensor());
      CHECK(deviation(host_values(y.tensor()), conv_forward_reference(c, x, weights)) == 0);
      if (!first) CHECK(context().memory_stats().allocated == before);
      first = false;
    }
  }
}

TEST_CASE("conv: constant weights", "[conv][small]") {
  const ConvCase c{"constant", 2, 6, {7, 6}, 9, {3, 2}, {{2}, {1}, {1}}};
  Rng rng(6);
  const auto x = integers(element_count(c.x_shape()), rng, 3),
             first = integers(element_count(c.w_shape()), rng, 3),
             second = integers(element_count(c.w_shape()), rng, 3);
  for (const std::string& name : serving_conv_engines(c.in(Layout::nhwc))) {
    INFO(name);
    const Layout layout = name == "cpu_last" ? Layout::nhwc : Layout::nchw;
    const Guarded room(c.x_shape(), strides_in(layout, c.x_shape()), DType::f32),
        y(c.y_shape(), strides_in(layout, c.y_shape()), DType::f32);
    const Tensor tx = room.tensor(), w = device_tensor(c.w_shape(), first);
    copy(stream(), device_tensor(c.x_shape(), x), tx);
    ConvDesc desc{tx, w, y.tensor(), c.params};
    desc.constant_w = true;
    const Conv plan(context(), desc, engine(name));
    for (int i = 0; i < 2; i++) {
      plan.run(stream(), tx, w, {}, y.tensor());
      CHECK(deviation(host_values(y.tensor()), conv_forward_reference(c, x, first)) == 0);
    }
    write(stream(), w, second);
    plan.forget_constants();
    plan.run(stream(), tx, w, {}, y.tensor());
    CHECK(deviation(host_values(y.tensor()), conv_forward_reference(c, x, second)) == 0);
  }
}
