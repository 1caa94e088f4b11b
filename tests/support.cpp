#include "support.hpp"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>

#include "child.hpp"
#include "mutation.hpp"

namespace dlprim::test {

[[maybe_unused]] static const bool poisoned = poison_memory();

// Both are never destroyed: some OpenCL simulators cannot release objects after main has returned.

Context& context() {
  static Context& instance = *new Context([] {
    const char* selector = std::getenv("DLPRIM_TEST_DEVICE");
    return Device::find(selector ? selector : "");
  }());
  return instance;
}

Stream& stream() {
  start_mutations();
  static Stream& instance = *new Stream(context());
  return instance;
}

uint64_t Rng::next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

int64_t Rng::integer(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
}

double Rng::real(double low, double high) {
  return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53;
}

std::vector<float> integers(int64_t count, Rng& rng, int limit, double density) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values)
    v = rng.real(0, 1) < density ? static_cast<float>(rng.integer(-limit, limit)) : 0.0f;
  return values;
}

std::vector<float> reals(int64_t count, Rng& rng, double low, double high) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = static_cast<float>(rng.real(low, high));
  return values;
}

Tensor device_tensor(const Shape& shape, const std::vector<float>& values, DType dtype) {
  Tensor x(context(), shape, dtype);
  const auto count = static_cast<int64_t>(values.size());
  if (count != x.numel()) throw ValidationError("values", "count does not fit the shape");
  std::vector<unsigned char> bytes(static_cast<size_t>(x.bytes()));
  for (size_t i = 0; i < values.size(); i++) {
    const float v = values[i];
    const auto put = [&](auto value) { std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value); };
    switch (dtype) {
      case DType::f32:
        put(v);
        break;
      case DType::f64:
        put(static_cast<double>(v));
        break;
      case DType::f16:
        put(to_half(v).bits);
        break;
      case DType::bf16:
        put(to_bfloat16(v).bits);
        break;
      case DType::i8:
        put(static_cast<int8_t>(v));
        break;
      case DType::u8:
        put(static_cast<uint8_t>(v));
        break;
      case DType::i16:
        put(static_cast<int16_t>(v));
        break;
      case DType::i32:
        put(static_cast<int32_t>(v));
        break;
      case DType::i64:
        put(static_cast<int64_t>(v));
        break;
      case DType::u16:
        put(static_cast<uint16_t>(v));
        break;
      case DType::u32:
        put(static_cast<uint32_t>(v));
        break;
      case DType::u64:
        put(static_cast<uint64_t>(v));
        break;
      case DType::boolean:
        put(static_cast<uint8_t>(v != 0));
        break;
    }
  }
  const OwnMeans means;
  write(stream(), x, bytes.data(), x.bytes());
  return x;
}

std::vector<unsigned char> host_bytes(const Tensor& x) {
  std::vector<unsigned char> bytes(static_cast<size_t>(x.bytes()));
  read(stream(), x, bytes.data(), x.bytes());
  return bytes;
}

std::vector<float> host_values(const Tensor& x) {
  const std::vector<unsigned char> bytes = host_bytes(x);
  std::vector<float> values(static_cast<size_t>(x.numel()));
  for (size_t i = 0; i < values.size(); i++) {
    const auto get = [&](auto value) {
      std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
      return value;
    };
    switch (x.dtype()) {
      case DType::f32:
        values[i] = get(0.0f);
        break;
      case DType::f64:
        values[i] = static_cast<float>(get(0.0));
        break;
      case DType::f16:
        values[i] = to_float(half_t{get(uint16_t{})});
        break;
      case DType::bf16:
        values[i] = to_float(bfloat16_t{get(uint16_t{})});
        break;
      case DType::i8:
        values[i] = get(int8_t{});
        break;
      case DType::u8:
        values[i] = get(uint8_t{});
        break;
      case DType::i16:
        values[i] = get(int16_t{});
        break;
      case DType::i32:
        values[i] = static_cast<float>(get(int32_t{}));
        break;
      case DType::i64:
        values[i] = static_cast<float>(get(int64_t{}));
        break;
      case DType::u16:
        values[i] = get(uint16_t{});
        break;
      case DType::u32:
        values[i] = static_cast<float>(get(uint32_t{}));
        break;
      case DType::u64:
        values[i] = static_cast<float>(get(uint64_t{}));
        break;
      case DType::boolean:
        values[i] = get(uint8_t{});
        break;
    }
  }
  return values;
}

Guarded::Guarded(const Shape& shape, DType dtype, int64_t padding)
    : Guarded(shape, contiguous_strides(shape), dtype, padding) {}

Guarded::Guarded(const Shape& shape, const Strides& strides, DType dtype, int64_t padding) {
  const auto size = static_cast<int64_t>(size_of(dtype));
  int64_t extent = element_count(shape) == 0 ? 0 : 1;
  for (int i = 0; i < shape.size() && extent > 0; i++) extent += (shape[i] - 1) * strides[i];
  whole_ = Tensor(context(), {extent + 2 * padding}, dtype);
  // The canaries are numbers: a NaN to which something is added keeps its bits.
  before_.assign(static_cast<size_t>(whole_.bytes()), 0xab);
  tensor_ = whole_.as_strided(shape, strides, padding);
  inside_.assign(before_.size(), false);
  std::vector<int64_t> index(static_cast<size_t>(shape.size()), 0);
  for (int64_t n = element_count(shape); n > 0; n--) {
    int64_t at = padding;
    for (int i = 0; i < shape.size(); i++) at += index[static_cast<size_t>(i)] * strides[i];
    for (int64_t b = 0; b < size; b++) {
      inside_[static_cast<size_t>(at * size + b)] = true;
      before_[static_cast<size_t>(at * size + b)] = 0xff;  // NaN in every float, large or -1 in integers
    }
    for (int i = shape.size() - 1; i >= 0 && ++index[static_cast<size_t>(i)] == shape[i]; i--)
      index[static_cast<size_t>(i)] = 0;
  }
  write(stream(), whole_, before_.data(), whole_.bytes());
}

bool Guarded::intact() const {
  const OwnMeans means;
  const std::vector<unsigned char> after = host_bytes(whole_);
  for (size_t i = 0; i < after.size(); i++)
    if (!inside_[i] && after[i] != before_[i]) return false;
  return true;
}

bool is_selected(const std::string& text) {
  const char* wanted = std::getenv("DLPRIM_TEST_CASE");
  return !wanted || text.find(wanted) != std::string::npos;
}

std::string again(const std::string& text) {
  return "DLPRIM_TEST_CASE='" + text + "'";
}

Options engine(const std::string& name) {
  Options options;
  options.engine = name;
  return options;
}

std::vector<const char*> engines() {
  if (context().device().kind() == DeviceKind::cpu) return {"cpu", "gpu"};
  return {"gpu"};
}

std::vector<TensorDesc> described(const std::vector<Tensor>& tensors) {
  return {tensors.begin(), tensors.end()};
}

std::optional<TensorDesc> described(const Tensor& tensor) {
  return tensor.defined() ? std::make_optional<TensorDesc>(tensor) : std::nullopt;
}

bool same_bits(const Guarded& a, const Guarded& b) {
  return host_bytes(a.tensor()) == host_bytes(b.tensor());
}

double deviation(const std::vector<float>& a, const std::vector<double>& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (a.size() != b.size()) return kInfinity;
  double worst = 0, largest = 0;
  for (size_t i = 0; i < a.size(); i++) {
    if (std::isfinite(b[i])) largest = std::max(largest, std::abs(b[i]));
    if (std::isnan(b[i]) ? std::isnan(a[i]) : static_cast<double>(a[i]) == b[i]) continue;
    const double error = std::abs(a[i] - b[i]);
    worst = std::max(worst, std::isfinite(error) ? error : kInfinity);
  }
  return largest > 0 ? worst / largest : worst;
}

double numeric_gradient(const std::function<double(const std::vector<double>&)>& f, std::vector<double> x,
                        size_t i, double step) {
  const double middle = x[i];
  x[i] = middle + step;
  const double above = f(x);
  x[i] = middle - step;
  return (above - f(x)) / (2 * step);
}

int64_t setting(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atoll(text) : otherwise;
}

bool in_share(const char* variable, size_t number) {
  const size_t share = static_cast<size_t>(std::max<int64_t>(1, setting(variable, 1)));
  return number % share == 1 % share;
}

std::string source_file(const std::string& path) {
  return built_file("bin/source/" + path);
}

std::string built_file(const std::string& path) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / path).string();
}

}  // namespace dlprim::test
