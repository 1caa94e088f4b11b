// The data, the references and the lists behind gemm.hpp.
#include "cases/gemm.hpp"

#include <algorithm>
#include <limits>
#include <sstream>

#include "cases/conv.hpp"

namespace dlprim::test {

double GemmCase::flops() const {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

int64_t GemmCase::bias_size() const {
  return bias == GemmDesc::Bias::none ? 0 : bias == GemmDesc::Bias::row ? n : m;
}

std::string GemmCase::text() const {
  static constexpr const char* kBias[] = {"none", "row", "column"};
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
  out << " alpha=" << alpha << " beta=" << beta << " bias=" << kBias[static_cast<int>(bias)]
      << " activation=" << name_of(activation);
  return out.str();
}

GemmData integer_data(const GemmCase& x, uint64_t seed) {
  Rng rng(seed);
  return {integers(x.m * x.k, rng), integers(x.k * x.n, rng), integers(x.m * x.n, rng, 9),
          integers(x.bias_size(), rng, 9)};
}

GemmData real_data(const GemmCase& x, uint64_t seed) {
  Rng rng(seed);
  return {reals(x.m * x.k, rng), reals(x.k * x.n, rng), reals(x.m * x.n, rng), reals(x.bias_size(), rng)};
}

Tensor matrix(int64_t rows, int64_t columns, const MatrixLayout& layout, const std::vector<float>& values) {
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
  return device_tensor({size}, memory).as_strided({rows, columns}, strides, size == 0 ? 0 : layout.offset);
}

Tensor bias_tensor(const GemmCase& x, const std::vector<float>& values) {
  switch (x.bias) {
    case GemmDesc::Bias::none:
      return {};
    case GemmDesc::Bias::row:
      return device_tensor({x.n}, values);
    case GemmDesc::Bias::column:
      return device_tensor({x.m, 1}, values);
  }
  return {};
}

std::vector<double> gemm_reference(const GemmCase& x, const GemmData& data) {
  std::vector<double> result(static_cast<size_t>(x.m * x.n), 0.0);
  for (int64_t i = 0; i < x.m; i++) {
    double* row = result.data() + i * x.n;
    for (int64_t l = 0; l < x.k && x.alpha != 0; l++) {
      const double a = data.a[static_cast<size_t>(i * x.k + l)];
      const float* b = data.b.data() + l * x.n;
      for (int64_t j = 0; j < x.n; j++) row[j] += a * b[j];
    }
    for (int64_t j = 0; j < x.n; j++) {
      double v = x.alpha * row[j];
      if (x.beta != 0) v += x.beta * data.c[static_cast<size_t>(i * x.n + j)];
      if (x.bias != GemmDesc::Bias::none)
        v += data.bias[static_cast<size_t>(x.bias == GemmDesc::Bias::row ? j : i)];
      row[j] = activation_reference(x.activation, v);
    }
  }
  return result;
}

std::vector<GemmCase> odd_gemms() {
  static constexpr int64_t kSizes[] = {1, 2, 3, 7, 17, 31, 33, 63, 65, 127, 129, 257};
  constexpr auto kCount = static_cast<int64_t>(std::size(kSizes));
  Rng rng(7);
  const auto any = [&] { return kSizes[rng.integer(0, kCount - 1)]; };
  std::vector<GemmCase> cases;
  for (int place = 0; place < 3; place++)
    for (const int64_t size : kSizes) {
      const auto form = cases.size();
      GemmCase x(any(), any(), any(), form % 2 != 0, form / 2 % 2 != 0);
      (place == 0 ? x.m : place == 1 ? x.n : x.k) = size;
      cases.push_back(x);
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
  static const std::vector<std::string> names = {"cpu", "tile", "naive"};
  return names;
}

Options gemm_engine(const std::string& name) {
  Options options;
  options.engine = name;
  return options;
}

std::string gemm_refusal(const std::string& engine) {
  const std::string text = small_plan(gemm_engine("naive")).explain();
  const std::string mark = engine + ": refused, ";
  const auto at = text.find(mark);
  return at == std::string::npos ? "" : text.substr(at + mark.size(), text.find('\n', at) - at - mark.size());
}

std::string gemm_refusal_by_name(const std::string& engine) {
  try {
    return small_plan(gemm_engine(engine)).engine() == engine ? "" : "another engine was given";
  } catch (const ValidationError& error) {
    return error.what();
  }
}

std::vector<std::string> serving_gemm_engines() {
  std::vector<std::string> names;
  for (const std::string& name : gemm_engines())
    if (gemm_refusal(name).empty()) names.push_back(name);
  return names;
}

}  // namespace dlprim::test
