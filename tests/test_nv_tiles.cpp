// Every tile of the engines on NVIDIA's matrix units, asked for by name: problems of tests choose the
// smallest ones alone. Numbers that parts of f32 cannot hold too, as each tile has code of its own for them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cases/conv.hpp"
#include "cases/gemm.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

/// What an engine is asked for, and what it multiplies.
struct Tile {
  const char* engine;
  DType dtype = DType::f32;
  MathMode math = MathMode::strict;

  Options options() const {
    Options options = dlprim::test::engine(engine);
    options.math = math;
    return options;
  }
  std::string text() const {
    return std::string(engine) + " " + name_of(dtype) + (math == MathMode::tf32 ? " by tf32" : "");
  }
};

bool has(MatrixEngine engine) {
  const MatrixEngine matrix = context().device().probes().matrix;
  return matrix == engine || (engine == MatrixEngine::nv_mma && matrix == MatrixEngine::nv_wgmma);
}

constexpr const char *kSplitGemm[] = {"nv_wgmma:tn=192,stages=3", "nv_wgmma:tn=128,stages=4",
                                      "nv_wgmma:tn=64,stages=5"},
                     *kPlainGemm[] = {"nv_wgmma:tn=256,stages=4", "nv_wgmma:tn=128,stages=5",
                                      "nv_wgmma:tn=64,stages=6"},
                     *kSplitMma[] = {"nv_mma:tm=128,tn=128,wm=4,wn=2,step=128,stages=4",
                                     "nv_mma:tm=128,tn=128,wm=4,wn=2,step=128,stages=2",
                                     "nv_mma:tm=64,tn=64,wm=2,wn=2,step=128,stages=3"},
                     *kPlainMma[] = {"nv_mma:tm=128,tn=256,wm=2,wn=4,step=128,stages=3",
                                     "nv_mma:tm=128,tn=128,wm=2,wn=2,step=128,stages=3",
                                     "nv_mma:tm=64,tn=64,wm=2,wn=2,step=128,stages=3"};

std::vector<Tile> gemm_tiles() {
  std::vector<Tile> tiles;
  for (const auto& [engine, split, plain] : {std::tuple(MatrixEngine::nv_wgmma, kSplitGemm, kPlainGemm),
                                             {MatrixEngine::nv_mma, kSplitMma, kPlainMma}}) {
    if (!has(engine)) continue;
    for (int i = 0; i < 3; i++) {
      tiles.push_back({split[i]});
      tiles.push_back({plain[i], DType::f32, MathMode::tf32});
      tiles.push_back({plain[i], DType::f16});
      tiles.push_back({plain[i], DType::bf16});
    }
  }
  return tiles;
}

enum Direction { forward, backward_data, backward_filter };

struct ConvTile {
  Direction direction;
  Tile tile;
};
std::vector<ConvTile> conv_tiles(bool split) {
  std::vector<ConvTile> tiles;
  if (split) {
    for (const Direction direction : {forward, backward_data})
      for (const char* engine : {"nv_wgmma:tn=128,stages=4,groups=2", "nv_wgmma:tn=64,stages=5,groups=3",
                                 "nv_wgmma:tn=64,stages=5,groups=2", "nv_wgmma:tn=16,stages=7,groups=3",
                                 "nv_wgmma:tn=16,stages=10,groups=2"})
        tiles.push_back({direction, {engine}});
    for (const char* engine : {"nv_wgmma:mb=2,nb=3,stages=3", "nv_wgmma:mb=2,nb=2,stages=4",
                               "nv_wgmma:mb=1,nb=4,stages=3", "nv_wgmma:mb=1,nb=6,stages=2"})
      tiles.push_back({backward_filter, {engine}});
    return tiles;
  }
  for (const auto& [dtype, math] : {std::pair(DType::bf16, MathMode::strict),
                                    {DType::f16, MathMode::strict},
                                    {DType::f32, MathMode::tf32}}) {
    for (const char* engine : {"nv_wgmma:tn=256,stages=4,groups=2", "nv_wgmma:tn=128,stages=5,groups=3",
                               "nv_wgmma:tn=128,stages=6,groups=2", "nv_wgmma:tn=64,stages=6,groups=3",
                               "nv_wgmma:tn=64,stages=8,groups=2"})
      for (const Direction direction : {forward, backward_data})
        tiles.push_back({direction, {engine, dtype, math}});
    tiles.push_back({forward, {"nv_wgmma:tn=32,stages=8,groups=2", dtype, math}});
    tiles.push_back({forward, {"nv_wgmma:tn=96,stages=7,groups=2", dtype, math}});
    if (math == MathMode::tf32)
      for (const char* engine : {"nv_wgmma:tn=8,stages=8,groups=2", "nv_wgmma:tn=24,stages=8,groups=3",
                                 "nv_wgmma:tn=144,stages=5,groups=3", "nv_wgmma:tn=200,stages=4,groups=2"})
        for (const Direction direction : {forward, backward_data})
          tiles.push_back({direction, {engine, dtype, math}});
    if (math != MathMode::tf32)
      for (const char* engine : {"nv_wgmma:mb=2,nb=4,stages=4", "nv_wgmma:mb=2,nb=3,stages=5",
                                 "nv_wgmma:mb=2,nb=2,stages=6", "nv_wgmma:mb=1,nb=4,stages=5"})
        tiles.push_back({backward_filter, {engine, dtype, math}});
    else
      for (const char* engine :
           {"nv_wgmma:mb=2,nb=6,stages=4", "nv_wgmma:mb=2,nb=4,stages=5", "nv_wgmma:mb=2,nb=2,stages=8",
            "nv_wgmma:mb=1,nb=8,stages=4", "nv_wgmma:mb=1,nb=6,stages=5", "nv_wgmma:mb=1,nb=4,stages=6"})
        tiles.push_back({backward_filter, {engine, dtype, math}});
  }
  return tiles;
}

/// x, w and dy, and the result of a direction.
struct ConvOperands {
  const ConvCase& c;
  Tensor x, w, dy;

  std::vector<float> result(Direction direction, const Options& options) const {
    const Guarded r(direction == forward         ? c.y_shape()
                    : direction == backward_data ? c.x_shape()
                                                 : c.w_shape(),
                    DType::f32);
    if (direction == forward) conv(stream(), x, w, {}, c.params, r.tensor(), options);
    if (direction == backward_data) conv_backward_data(stream(), dy, w, c.params, r.tensor(), options);
    if (direction == backward_filter) conv_backward_filter(stream(), x, dy, c.params, r.tensor(), options);
    CHECK(r.intact());
    return host_values(r.tensor());
  }
};

}  // namespace

TEST_CASE("gemm: every tile of nv_wgmma and nv_mma is exact", "[gemm]") {
  if (!has(MatrixEngine::nv_mma)) return note_skipped("the device has neither nv_wgmma nor nv_mma");
  for (const Tile& tile : gemm_tiles())
    for (const bool a : {false, true})
      for (const bool b : {false, true}) {
        GemmCase x(270, 410, 133, a, b);
        x.dtype = x.c_dtype = tile.dtype;
        INFO(tile.text() << " " << x.text());
        const GemmData data = integer_data(x);
        const GemmResult result = run_gemm(x, data, tile.options());
        CHECK(result.values == rounded(gemm_reference(x, data), x.c_dtype));
        CHECK((result.intact && result.repeats));
      }
}

TEST_CASE("gemm: odd sizes by tf32 are exact", "[gemm]") {
  if (!has(MatrixEngine::nv_mma)) return note_skipped("the device has neither nv_wgmma nor nv_mma");
  for (const char* engine : {"nv_wgmma", "nv_mma"}) {
    if (engine == std::string("nv_wgmma") && !has(MatrixEngine::nv_wgmma)) continue;
    size_t served = 0, all = 0;
    for (const auto& cases : {odd_gemms(DType::f32), tiled_gemms()})
      for (const GemmCase& x : cases) {
        INFO(engine << " by tf32, " << x.text());
        const GemmData data = integer_data(x);
        all++;
        try {
          const GemmResult result = run_gemm(x, data, Tile{engine, DType::f32, MathMode::tf32}.options());
          CHECK(result.values == rounded(gemm_reference(x, data), x.c_dtype));
          CHECK((result.intact && result.repeats));
          served++;
        } catch (const ValidationError& error) {
          CHECK(std::string(error.what()).find(" refused:") != std::string::npos);
        }
      }
    CHECK(2 * served >= all);
  }
}

TEST_CASE("gemm: every tile is right on numbers that parts cannot hold", "[gemm]") {
  if (!has(MatrixEngine::nv_mma)) return note_skipped("the device has neither nv_wgmma nor nv_mma");
  for (const std::string kind :
       {"rows of A tiny", "a row of A tiny", "all tiny", "a row infinite", "all NaN"})
    for (const bool transposed : {false, true}) {
      const GemmCase x(270, 410, 133, transposed, !transposed);
      GemmData data = real_data(x);
      for (int64_t i = 0; i < x.m; i++)
        for (int64_t l = 0; l < x.k; l++) {
          float& v = data.a[static_cast<size_t>(i * x.k + l)];
          if (kind == "all tiny" || (kind == "rows of A tiny" && i % 3 == 0) ||
              (kind == "a row of A tiny" && i == 141))
            v *= 0x1p-128f;
          if (kind == "all NaN") v = std::numeric_limits<float>::quiet_NaN();
          if (kind == "a row infinite" && i == 141 && l == 7) v = INFINITY;
        }
      for (const Tile& tile : gemm_tiles()) {
        if (tile.dtype != DType::f32 || tile.math == MathMode::tf32) continue;
        INFO(tile.text() << " " << x.text() << " " << kind);
        const GemmResult result = run_gemm(x, data, tile.options());
        CHECK(gemm_differences(x, data, result.values) == 0);
        CHECK((result.intact && result.repeats));
      }
    }
}

TEST_CASE("conv: every tile of nv_wgmma is exact", "[conv]") {
  if (!has(MatrixEngine::nv_wgmma)) return note_skipped("the device has no nv_wgmma");
  for (const bool split : {true, false})
    for (const auto& [direction, tile] : conv_tiles(split)) {
      const ConvCase c{"tiles", 3, 40, {13, 11}, 136, {3, 3}, {{1}, {1}, {1}}};
      INFO(tile.text() << ", direction " << direction);
      Rng rng(16);
      const auto x = integers(element_count(c.x_shape()), rng, 2),
                 w = integers(element_count(c.w_shape()), rng, 2),
                 dy = integers(element_count(c.y_shape()), rng, 2);
      const ConvOperands operands{c, device_tensor(c.x_shape(), x, tile.dtype),
                                  device_tensor(c.w_shape(), w, tile.dtype),
                                  device_tensor(c.y_shape(), dy, tile.dtype)};
      CHECK(deviation(operands.result(direction, tile.options()),
                      direction == forward         ? conv_forward_reference(c, x, w)
                      : direction == backward_data ? conv_backward_data_reference(c, dy, w)
                                                   : conv_backward_filter_reference(c, x, dy)) == 0);
    }
}

// A tile that fits the channels stores without looking at each element.
TEST_CASE("conv: as many channels as no power of two is are exact, channels last", "[conv]") {
  if (!has(MatrixEngine::nv_wgmma)) return note_skipped("the device has no nv_wgmma");
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int64_t channels : {24, 96, 144, 192, 320, 600}) {
      const bool window = channels % 16 == 0;
      const ConvCase c{"channels", 2, 40, {15, 17}, channels, {window ? 3 : 1, window ? 3 : 1}};
      INFO(name_of(dtype) << " " << c.text());
      Rng rng(18);
      const auto x = integers(element_count(c.x_shape()), rng, 2),
                 w = integers(element_count(c.w_shape()), rng, 2);
      const auto last = [&](const Shape& shape) { return strides_in(Layout::nhwc, shape); };
      const Guarded of_x(c.x_shape(), last(c.x_shape()), dtype, 0);
      copy(stream(), device_tensor(c.x_shape(), x), of_x.tensor());
      const Tensor of_w = device_tensor(c.w_shape(), w, dtype);
      const std::vector<float> expected = rounded(conv_forward_reference(c, x, w), dtype);
      for (const char* engine : {"nv_wgmma", "auto"}) {
        const MathMode math = dtype == DType::f32 ? MathMode::tf32 : MathMode::standard;
        const Guarded y(c.y_shape(), last(c.y_shape()), dtype, 0);
        conv(stream(), of_x.tensor(), of_w, {}, c.params, y.tensor(), Tile{engine, dtype, math}.options());
        CHECK(same(host_values(y.tensor()), expected));
        CHECK(y.intact());
      }
    }
}

namespace {

/// How many directions the engine serves; those are exact.
int check_served(const ConvCase& c, const Options& options) {
  INFO(options.engine << (options.math == MathMode::tf32 ? " by tf32, " : ", ") << c.text());
  Rng rng(17);
  const auto x = integers(element_count(c.x_shape()), rng, 2),
             w = integers(element_count(c.w_shape()), rng, 2),
             dy = integers(element_count(c.y_shape()), rng, 2);
  const ConvOperands operands{c, device_tensor(c.x_shape(), x, c.dtype),
                              device_tensor(c.w_shape(), w, c.dtype),
                              device_tensor(c.y_shape(), dy, c.dtype)};
  const ConvDesc desc{operands.x, operands.w, operands.dy, c.params};
  int served = 0;
  const auto check = [&](Direction direction, const std::string& refusal, const auto& reference) {
    INFO("direction " << direction);
    CHECK((refusal.empty() || refusal.find(" refused:") != std::string::npos));
    if (!refusal.empty()) return;
    served++;
    CHECK(deviation(operands.result(direction, options), reference()) == 0);
  };
  check(forward, conv_refusal<Conv>(desc, options), [&] { return conv_forward_reference(c, x, w); });
  check(backward_data, conv_refusal<ConvBackwardData>(desc, options),
        [&] { return conv_backward_data_reference(c, dy, w); });
  check(backward_filter, conv_refusal<ConvBackwardFilter>(desc, options),
        [&] { return conv_backward_filter_reference(c, x, dy); });
  return served;
}

}  // namespace

TEST_CASE("conv: problems of several tiles by tf32 are exact", "[conv]") {
  if (!has(MatrixEngine::nv_mma)) return note_skipped("the device has neither nv_wgmma nor nv_mma");
  for (const char* name : {"nv_wgmma", "nv_mma"}) {
    if (name == std::string("nv_wgmma") && !has(MatrixEngine::nv_wgmma)) continue;
    int served = 0;
    for (const ConvCase& c : tiled_convs())
      if (c.dtype == DType::f32) served += check_served(c, Tile{name, DType::f32, MathMode::tf32}.options());
    CHECK(served >= 20);
  }
}

// The odd cases have few channels: most directions of them are refused.
TEST_CASE("conv: odd cases with eight times the channels are exact by matrix instructions", "[conv]") {
  if (!has(MatrixEngine::nv_mma)) return note_skipped("the device has neither nv_wgmma nor nv_mma");
  const std::string name = name_of(context().device().probes().matrix);
  int served = 0, all = 0;
  for (ConvCase c : odd_convs()) {
    c.c *= 8, c.k *= 8;
    c.dtype = all % 2 ? DType::bf16 : DType::f32;
    served += check_served(c, engine(name));
    all++;
  }
  CHECK(served >= 2 * all);  // of three directions each
}

TEST_CASE("conv: every tile of nv_wgmma is right on numbers that parts cannot hold", "[conv]") {
  if (!has(MatrixEngine::nv_wgmma)) return note_skipped("the device has no nv_wgmma");
  ConvCase c = tiled_convs().front();
  c.n = 2;
  for (const std::string kind : {"an infinity", "infinite ends of the other operand", "denormals", "tiny"})
    for (const auto& [direction, tile] : conv_tiles(true)) {
      INFO(tile.text() << ", direction " << direction << ", " << kind);
      Rng rng(15);
      const auto values = [&](const Shape& shape, bool first) {
        std::vector<float> v = reals(element_count(shape), rng);
        if (kind == "an infinity" && first) v[v.size() / 2] = INFINITY;
        if (kind == "infinite ends of the other operand" && !first)
          v.front() = INFINITY, v.back() = -INFINITY;
        for (float& number : v) {
          if (kind == "denormals" && first) number *= 1e-39f;
          if (kind == "tiny") number *= 1e-22f;
        }
        return device_tensor(shape, v);
      };
      const Tensor x = values(c.x_shape(), direction != backward_data),
                   w = values(c.w_shape(), direction == backward_filter),
                   dy = values(c.y_shape(), direction == backward_data);
      const ConvOperands operands{c, x, w, dy};
      CHECK(conv_differences(operands.result(direction, tile.options()),
                             operands.result(direction, engine("naive"))) == 0);
    }
}
