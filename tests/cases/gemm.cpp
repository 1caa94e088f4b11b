// The data, the references and the lists behind gemm.hpp.
#include "cases/gemm.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <sstream>

#include <dlprim/copy.hpp>

#include "cases/nn.hpp"

namespace dlprim::test {

double GemmCase::flops() const {
  return 2.0 * static_cast<double>(products()) * static_cast<double>(m) * static_cast<double>(n) *
         static_cast<double>(k);
}

int64_t GemmCase::vector_size(GemmDesc::Vector form) const {
  return form == GemmDesc::Vector::none ? 0 : form == GemmDesc::Vector::row ? n : m;
}

std::string GemmCase::text() const {
  static constexpr const char* kVectors[] = {"none", "row", "column"};
  std::ostringstream out;
  out << "m=" << m << " n=" << n << " k=" << k;
  const auto layout = [&](const char* name, const MatrixLayout& l) {
    out << ' ' << name << '=' << (l.transposed ? 't' : 'n');
    if (l.gap != 0) out << "+gap" << l.gap;
    if (l.offset != 0) out << "+offset" << l.offset;
  };
  layout("a", a);
  layout("b", b);
  layout("c", c);
  out << " alpha=" << alpha << " beta=" << beta << " bias=" << kVectors[static_cast<int>(bias)]
      << " activation=" << name_of(activation);
  if (scale != GemmDesc::Vector::none) out << " scale=" << kVectors[static_cast<int>(scale)];
  out << (residual ? " residual" : "") << (preactivation ? " preactivation" : "");
  if (dtype != DType::f32 || c_dtype != DType::f32)
    out << " dtype=" << name_of(dtype) << " c_dtype=" << name_of(c_dtype);
  if (batch != 0) out << " batch=" << batch << (one_a ? " one_a" : "") << (one_b ? " one_b" : "");
  return out.str();
}

namespace {

int64_t size_a(const GemmCase& x) {
  return (x.one_a ? 1 : x.products()) * x.m * x.k;
}
int64_t size_b(const GemmCase& x) {
  return (x.one_b ? 1 : x.products()) * x.k * x.n;
}

/// Matrices of a batch lie behind each other, all with the layout's gaps.
Tensor operand(const GemmCase& x, int64_t rows, int64_t columns, const MatrixLayout& layout,
               const std::vector<float>& values, bool one) {
  if (x.batch == 0) return matrix(rows, columns, layout, values, x.dtype);
  if (one || x.batch == 1) {
    const Tensor only = matrix(rows, columns, layout, values, x.dtype);
    return only.expand({x.batch, rows, columns});
  }
  // As one matrix whose runs are those of all, in turn.
  std::vector<float> all(values.size());
  const int64_t runs = layout.transposed ? columns : rows, run = layout.transposed ? rows : columns;
  for (int64_t z = 0; z < x.batch; z++)
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < columns; j++) {
        const int64_t r = layout.transposed ? j : i, e = layout.transposed ? i : j;
        all[static_cast<size_t>((z * runs + r) * run + e)] =
            values[static_cast<size_t>((z * rows + i) * columns + j)];
      }
  MatrixLayout plain = layout;
  plain.transposed = false;
  const Tensor tall = matrix(x.batch * runs, run, plain, all, x.dtype);
  const int64_t pitch = run + layout.gap;
  const Strides strides =
      layout.transposed ? Strides{runs * pitch, 1, pitch} : Strides{runs * pitch, pitch, 1};
  return tall.as_strided({x.batch, rows, columns}, strides);
}

}  // namespace

GemmData integer_data(const GemmCase& x, uint64_t seed) {
  Rng rng(seed);
  return {integers(size_a(x), rng),
          integers(size_b(x), rng),
          integers(x.products() * x.m * x.n, rng, 9),
          integers(x.vector_size(x.bias), rng, 9),
          integers(x.vector_size(x.scale), rng, 3),
          integers(x.residual ? x.products() * x.m * x.n : 0, rng, 9)};
}

GemmData real_data(const GemmCase& x, uint64_t seed) {
  Rng rng(seed);
  return {reals(size_a(x), rng),
          reals(size_b(x), rng),
          reals(x.products() * x.m * x.n, rng),
          reals(x.vector_size(x.bias), rng),
          reals(x.vector_size(x.scale), rng),
          reals(x.residual ? x.products() * x.m * x.n : 0, rng)};
}

Tensor matrix(int64_t rows, int64_t columns, const MatrixLayout& layout, const std::vector<float>& values,
              DType dtype) {
  const int64_t run = layout.transposed ? rows : columns, runs = layout.transposed ? columns : rows;
  const int64_t pitch = run + layout.gap;
  std::vector<float> memory(static_cast<size_t>(layout.offset + runs * pitch),
                            std::numeric_limits<float>::quiet_NaN());
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++)
      memory[static_cast<size_t>(layout.offset + (layout.transposed ? j * pitch + i : i * pitch + j))] =
          values[static_cast<size_t>(i * columns + j)];
  const Strides strides = layout.transposed ? Strides{1, pitch} : Strides{pitch, 1};
  const auto size = static_cast<int64_t>(memory.size());
  return device_tensor({size}, memory, dtype)
      .as_strided({rows, columns}, strides, size == 0 ? 0 : layout.offset);
}

Tensor vector_tensor(const GemmCase& x, GemmDesc::Vector form, const std::vector<float>& values) {
  switch (form) {
    case GemmDesc::Vector::none:
      return {};
    case GemmDesc::Vector::row:
      return device_tensor({x.n}, values, x.c_dtype);
    case GemmDesc::Vector::column:
      return device_tensor({x.m, 1}, values, x.c_dtype);
  }
  return {};
}

Tensor operand_a(const GemmCase& x, const GemmData& data) {
  return operand(x, x.m, x.k, x.a, data.a, x.one_a);
}
Tensor operand_b(const GemmCase& x, const GemmData& data) {
  return operand(x, x.k, x.n, x.b, data.b, x.one_b);
}

std::vector<double> gemm_preactivation(const GemmCase& x, const GemmData& data) {
  std::vector<double> result(static_cast<size_t>(x.products() * x.m * x.n), 0.0);
  for (int64_t i = 0; i < x.products() * x.m; i++) {
    const int64_t z = i / x.m;
    double* row = result.data() + i * x.n;
    const float* a = data.a.data() + (x.one_a ? i % x.m : i) * x.k;
    for (int64_t l = 0; l < x.k && x.alpha != 0; l++) {
      const float* b = data.b.data() + ((x.one_b ? 0 : z) * x.k + l) * x.n;
      for (int64_t j = 0; j < x.n; j++) row[j] += static_cast<double>(a[l]) * b[j];
    }
    for (int64_t j = 0; j < x.n; j++) {
      double v = x.alpha * row[j];
      if (x.scale != GemmDesc::Vector::none)
        v *= data.scale[static_cast<size_t>(x.scale == GemmDesc::Vector::row ? j : i % x.m)];
      if (x.beta != 0) v += x.beta * data.c[static_cast<size_t>(i * x.n + j)];
      if (x.bias != GemmDesc::Vector::none)
        v += data.bias[static_cast<size_t>(x.bias == GemmDesc::Vector::row ? j : i % x.m)];
      if (x.residual) v += data.residual[static_cast<size_t>(i * x.n + j)];
      row[j] = v;
    }
  }
  return result;
}

std::vector<double> gemm_reference(const GemmCase& x, const GemmData& data) {
  std::vector<double> result = gemm_preactivation(x, data);
  for (double& v : result) v = activation_value(x.activation, v);
  return result;
}

std::vector<float> rounded(const std::vector<double>& values, DType dtype) {
  const std::vector<float> floats(values.begin(), values.end());
  if (dtype == DType::f32) return floats;
  return host_values(device_tensor({static_cast<int64_t>(values.size())}, floats, dtype));
}

bool same(const std::vector<float>& x, const std::vector<float>& y) {
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); i++)
    if (!(x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])))) return false;
  return true;
}

size_t gemm_differences(const GemmCase& x, const GemmData& data, const std::vector<float>& got) {
  GemmData magnitudes = data;
  for (std::vector<float>* values : {&magnitudes.a, &magnitudes.b})
    for (float& v : *values) v = std::abs(v);
  const std::vector<double> expected = gemm_reference(x, data), magnitude = gemm_reference(x, magnitudes);
  size_t other = 0;
  for (size_t i = 0; i < expected.size(); i++) {
    const double u = got[i], v = expected[i];
    other += std::isnan(v) ? !std::isnan(u)
             : std::isinf(v)
                 ? u != v
                 : !(std::abs(u - v) <= static_cast<double>(x.k + 3) * (0x1p-24 * magnitude[i] + 0x1p-150));
  }
  return other;
}

double relative_error(const std::vector<float>& values, const std::vector<double>& expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); i++) {
    error += (values[i] - expected[i]) * (values[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(error / size);
}

GemmResult run_gemm(const GemmCase& x, const GemmData& data, const Options& options) {
  const Tensor a = operand_a(x, data), b = operand_b(x, data);
  EpilogueTensors with = vector_tensor(x, x.bias, data.bias);
  with.scale = vector_tensor(x, x.scale, data.scale);
  const int64_t pitch = x.n + x.c.gap;
  const Shape shape = x.batch == 0 ? Shape{x.m, x.n} : Shape{x.batch, x.m, x.n};
  const Strides strides = x.batch == 0 ? Strides{pitch, 1} : Strides{x.m * pitch, pitch, 1};
  GemmResult result;
  std::vector<unsigned char> bytes[2];
  for (auto& output : bytes) {
    const Guarded c(shape, strides, x.c_dtype, 64 + x.c.offset);
    const Guarded before(shape, strides, x.c_dtype, 64 + x.c.offset);
    if (x.beta != 0) copy(stream(), device_tensor(shape, data.c, x.c_dtype), c.tensor());
    if (x.preactivation) with.preactivation = before.tensor();
    if (x.residual) {
      with.residual = Guarded(shape, strides, x.c_dtype, 64 + x.c.offset).tensor();
      copy(stream(), device_tensor(shape, data.residual, x.c_dtype), with.residual);
    }
    gemm(stream(), a, b, with, x.params(), c.tensor(), options);
    output = host_bytes(c.tensor());
    result.values = host_values(c.tensor());
    if (x.preactivation) result.preactivation = host_values(before.tensor());
    result.intact = c.intact() && before.intact();
    if (!result.intact) break;
  }
  result.repeats = bytes[0] == bytes[1];
  return result;
}

namespace {

/// C's dtype where it follows from that of A and B.
DType c_dtype_of(DType dtype) {
  return dtype == DType::i8 ? DType::i32 : dtype;
}

/// The sizes around vectors' and tiles' edges.
constexpr int64_t kSizes[] = {1, 2, 3, 7, 17, 31, 33, 63, 65, 127, 129, 257};
constexpr int kSizeCount = 12;
/// All of them while i goes from 0 to 11, in an order of their own for each `step` (one that has no divisor
/// with 12).
int64_t size_at(int i, int step, int first) {
  return kSizes[(i * step + first) % kSizeCount];
}

/// What costs no other kernel: factors, gaps and offsets, in turn.
void vary(GemmCase& x, int i) {
  x.alpha = i % 3 == 1 ? 2.0f : 1.0f;
  x.beta = i % 4 == 1 ? 1.0f : i % 4 == 3 ? -1.0f : 0.0f;
  if (i % 3 != 0) return;
  x.a.gap = 1, x.b.gap = 2, x.c.gap = 3;
  x.a.offset = 3, x.b.offset = 1, x.c.offset = 2;
}

}  // namespace

std::vector<GemmCase> odd_gemms(DType dtype) {
  std::vector<GemmCase> cases;
  for (int form = 0; form < 4; form++) {
    const auto add = [&](int64_t m, int64_t n, int64_t k) -> GemmCase& {
      GemmCase& x = cases.emplace_back(m, n, k, form % 2 != 0, form / 2 != 0);
      x.dtype = dtype;
      x.c_dtype = c_dtype_of(dtype);
      return x;
    };
    const int turn = 3 * form + static_cast<int>(dtype);
    for (int i = 0; i < kSizeCount; i++)
      vary(add(size_at(i, 1, 0), size_at(i, 5, turn), size_at(i, 7, 2 * turn)), i + form);
    // Not aligned, so that they too run the kernel of the others.
    for (const int64_t none : {0, 1, 2, 3}) {
      GemmCase& x = add(none == 0 ? 0 : 33, none == 1 ? 0 : 17, none == 2 ? 0 : 31);
      vary(x, 0);
      x.alpha = none == 3 ? 0.0f : 1.0f;
      x.beta = 2;
    }
  }
  return cases;
}

std::vector<GemmCase> odd_vector_gemms(DType dtype) {
  std::vector<GemmCase> cases;
  for (const bool column : {false, true})
    for (const bool transposed : {false, true}) {
      // In f32 each of the four, in other types each order of the matrix from one side.
      if (dtype != DType::f32 && transposed == column) continue;
      for (int i = 0; i < kSizeCount; i++) {
        const int64_t size = size_at(i, 1, 0), k = size_at(i, 5, static_cast<int>(dtype));
        GemmCase x(column ? size : 1, column ? 1 : size, k, column && transposed, !column && transposed);
        x.dtype = dtype;
        x.c_dtype = c_dtype_of(dtype);
        if (dtype == DType::f32 && i % 3 == 0) vary(x, i);
        cases.push_back(x);
      }
    }
  return cases;
}

std::vector<GemmCase> tiled_gemms() {
  std::vector<GemmCase> cases;
  for (const bool a : {false, true})
    for (const bool b : {false, true}) {
      cases.emplace_back(256, 256, 40, a, b);
      cases.emplace_back(250, 260, 19, a, b);
      cases.emplace_back(64, 64, 600, a, b);
      cases.emplace_back(37, 300, 513, a, b);
      cases.emplace_back(301, 20, 261, a, b);
    }
  return cases;
}

std::vector<GemmCase> typed_gemms() {
  static constexpr std::pair<DType, DType> kTypes[] = {{DType::f32, DType::f32},  {DType::f16, DType::f16},
                                                       {DType::f16, DType::f32},  {DType::bf16, DType::bf16},
                                                       {DType::bf16, DType::f32}, {DType::f64, DType::f64},
                                                       {DType::i8, DType::i32}};
  std::vector<GemmCase> cases;
  for (const auto& [dtype, c_dtype] : kTypes) {
    const auto form = static_cast<int>(cases.size());  // the types take turns in the transpositions
    GemmCase x(70, 133, 45, form % 2 != 0, form / 2 % 2 != 0);
    x.dtype = dtype;
    x.c_dtype = c_dtype;
    cases.push_back(x);  // nothing aligned
    x.m = 72, x.n = 136, x.k = 64;
    x.alpha = 2;
    x.beta = -1;
    x.bias = form % 2 != 0 ? GemmDesc::Vector::row : GemmDesc::Vector::column;
    x.activation = Activation::relu;
    x.batch = 3;
    cases.push_back(x);  // everything aligned
    x.one_a = form % 2 != 0;
    x.one_b = !x.one_a;
    x.a.gap = x.b.gap = x.c.gap = 1;
    cases.push_back(x);
  }
  return cases;
}

std::vector<GemmCase> epilogue_gemms() {
  using Vector = GemmDesc::Vector;
  std::vector<GemmCase> cases;
  const GemmCase plain(37, 70, 40, false, true);
  for (const Vector scale : {Vector::row, Vector::column}) cases.emplace_back(plain).scale = scale;
  cases.emplace_back(plain).residual = true;
  cases.emplace_back(plain).preactivation = true;
  for (const GemmCase& typed : typed_gemms()) {
    if (!typed.one_a && !typed.one_b) continue;  // one of each type
    GemmCase x = typed;
    const bool odd = cases.size() % 2 != 0;
    x.k = 24;
    x.scale = odd ? Vector::row : Vector::column;
    x.bias = odd ? Vector::column : Vector::row;
    x.alpha = 1, x.beta = 1;
    x.activation = Activation::relu;
    x.residual = x.preactivation = true;
    cases.push_back(x);
  }
  for (const bool column : {false, true}) {  // through the engine for vectors
    GemmCase x = cases.back();
    x.dtype = x.c_dtype = DType::f32;
    (column ? x.n : x.m) = 1;
    cases.push_back(x);
  }
  return cases;
}

std::vector<GemmCase> vector_gemms() {
  std::vector<GemmCase> cases;
  for (int form = 0; form < 8; form++)
    for (const bool column : {false, true}) {
      GemmCase x(column ? 133 : 1, column ? 1 : 133, 300, form % 2 != 0, form / 2 % 2 != 0);
      x.dtype = form < 4 ? DType::f32 : form == 4 ? DType::f64 : form == 5 ? DType::bf16 : DType::f16;
      x.c_dtype = form == 6 ? DType::f32 : x.dtype;
      if (form % 3 == 1) {
        x.alpha = 2;
        x.beta = -1;
        x.bias = column ? GemmDesc::Vector::column : GemmDesc::Vector::row;
        x.activation = Activation::relu;
        x.batch = 3;
        x.one_b = column;
      } else if (form % 3 == 2) {
        x.bias = column ? GemmDesc::Vector::row : GemmDesc::Vector::column;
        x.a.gap = x.b.gap = x.c.gap = x.a.offset = x.c.offset = 1;
      }
      cases.push_back(x);
    }
  cases.emplace_back(1, 1, 1000);
  cases.emplace_back(1, 40, 0);
  return cases;
}

std::vector<GemmCase> bench_gemms() {
  std::vector<GemmCase> cases;
  for (const int64_t size : {256, 512, 1024, 2048, 4096}) cases.emplace_back(size, size, size);
  cases.emplace_back(1024, 1024, 1024, false, true);
  cases.emplace_back(1024, 1024, 1024, true, false);
  cases.emplace_back(1024, 1024, 1024, true, true);
  cases.emplace_back(1000, 1000, 1000);
  cases.emplace_back(64, 4096, 9216, false, true);  // a linear layer of AlexNet: forward,
  cases.emplace_back(64, 9216, 4096);               // backward data,
  cases.emplace_back(4096, 9216, 64, true, false);  // backward weights
  cases.emplace_back(64, 10, 512, false, true);     // a classifier's last layer
  cases.emplace_back(1, 4096, 4096, false, true);   // a matrix times a vector
  return cases;
}

namespace {

Gemm small_plan(const Options& options) {
  return Gemm(context(), {TensorDesc({4, 4}), TensorDesc({4, 4}), TensorDesc({4, 4})}, options);
}

}  // namespace

const std::vector<std::string>& gemm_engines() {
  static const std::vector<std::string> names = [] {
    const char* asked = std::getenv("DLPRIM_TEST_ENGINES");
    if (asked == nullptr)
      asked =
          "gemv nv_wgmma nv_mma split_k nv_fragment amd_mfma amd_wmma intel_dpas cpu "
          "fma_shuffle fma_direct fma naive";
    std::istringstream in(asked);
    return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
  }();
  return names;
}

Options gemm_engine(const std::string& name) {
  Options options;
  options.engine = name;
  return options;
}

std::string gemm_refusal(const std::string& engine) {
  const std::string text = small_plan(gemm_engine("naive")).explain();
  for (const char* verdict : {": refused, ", ": avoided, "}) {
    const std::string mark = "  " + engine + verdict;  // "fma" ends other names
    const auto at = text.find(mark);
    if (at != std::string::npos) return text.substr(at + mark.size(), text.find('\n', at) - at - mark.size());
  }
  return "";
}

std::string gemm_refusal_by_name(const std::string& engine) {
  try {
    return small_plan(gemm_engine(engine)).engine() == engine.substr(0, engine.find(':'))
               ? ""
               : "another engine was given";
  } catch (const ValidationError& error) {
    return error.what();
  }
}

std::vector<std::string> serving_gemm_engines() {
  std::vector<std::string> names;
  for (const std::string& name : gemm_engines())
    if (gemm_refusal_by_name(name).empty()) names.push_back(name);
  return names;
}

}  // namespace dlprim::test
