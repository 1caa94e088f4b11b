// Elements of host tensors, of every dtype.
#include <dlprim/net_host.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include <dlprim/copy.hpp>

#include "core/check.hpp"

namespace dlprim {

using detail::require;

namespace {

/// Calls f with each element of a host tensor, as it is.
template <class T, class F>
void each(const HostTensor& tensor, F f) {
  for (size_t at = 0; at < tensor.data.size(); at += sizeof(T)) {
    T element;
    std::memcpy(&element, tensor.data.data() + at, sizeof(T));
    f(element);
  }
}

/// A number beyond what T holds becomes T's nearest, NaN becomes 0: the language leaves both open.
template <class T, class E>
T converted(E element) {
  if constexpr (std::is_floating_point_v<E> && std::is_integral_v<T>) {
    if (std::isnan(element)) return 0;
    if (element >= static_cast<E>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    if (element <= static_cast<E>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  }
  return static_cast<T>(element);
}

template <class R>
std::vector<R> elements_as(const HostTensor& tensor) {
  std::vector<R> out;
  out.reserve(tensor.data.size() / size_of(tensor.dtype));
  const auto add = [&](auto element) { out.push_back(converted<R>(element)); };
  switch (tensor.dtype) {
    case DType::f32:
      each<float>(tensor, add);
      break;
    case DType::f16:
      each<half_t>(tensor, [&](half_t e) { add(to_float(e)); });
      break;
    case DType::bf16:
      each<bfloat16_t>(tensor, [&](bfloat16_t e) { add(to_float(e)); });
      break;
    case DType::f64:
      each<double>(tensor, add);
      break;
    case DType::i8:
      each<int8_t>(tensor, add);
      break;
    case DType::u8:
    case DType::boolean:
      each<uint8_t>(tensor, add);
      break;
    case DType::i16:
      each<int16_t>(tensor, add);
      break;
    case DType::i32:
      each<int32_t>(tensor, add);
      break;
    case DType::i64:
      each<int64_t>(tensor, add);
      break;
    case DType::u16:
      each<uint16_t>(tensor, add);
      break;
    case DType::u32:
      each<uint32_t>(tensor, add);
      break;
    case DType::u64:
      each<uint64_t>(tensor, add);
      break;
  }
  return out;
}

template <class T, class E>
void put(HostTensor& tensor, const std::vector<E>& elements) {
  tensor.data.resize(elements.size() * sizeof(T));
  for (size_t i = 0; i < elements.size(); i++) {
    T element;
    if constexpr (std::is_same_v<T, half_t>)
      element = to_half(static_cast<float>(elements[i]));
    else if constexpr (std::is_same_v<T, bfloat16_t>)
      element = to_bfloat16(static_cast<float>(elements[i]));
    else if constexpr (std::is_same_v<T, bool>)
      element = elements[i] != 0;
    else
      element = converted<T>(elements[i]);
    std::memcpy(tensor.data.data() + i * sizeof(T), &element, sizeof(T));
  }
}

template <class E>
HostTensor made_of(DType dtype, const Shape& shape, const std::vector<E>& elements) {
  require(element_count(shape) == static_cast<int64_t>(elements.size()), "shape", shape, " has not ",
          elements.size(), " elements");
  HostTensor tensor{{}, dtype, shape, {}};
  switch (dtype) {
    case DType::f32:
      put<float>(tensor, elements);
      break;
    case DType::f16:
      put<half_t>(tensor, elements);
      break;
    case DType::bf16:
      put<bfloat16_t>(tensor, elements);
      break;
    case DType::f64:
      put<double>(tensor, elements);
      break;
    case DType::i8:
      put<int8_t>(tensor, elements);
      break;
    case DType::u8:
      put<uint8_t>(tensor, elements);
      break;
    case DType::boolean:
      put<bool>(tensor, elements);
      break;
    case DType::i16:
      put<int16_t>(tensor, elements);
      break;
    case DType::i32:
      put<int32_t>(tensor, elements);
      break;
    case DType::i64:
      put<int64_t>(tensor, elements);
      break;
    case DType::u16:
      put<uint16_t>(tensor, elements);
      break;
    case DType::u32:
      put<uint32_t>(tensor, elements);
      break;
    case DType::u64:
      put<uint64_t>(tensor, elements);
      break;
  }
  return tensor;
}

}  // namespace

std::vector<int64_t> integers_of(const HostTensor& tensor) {
  return elements_as<int64_t>(tensor);
}
std::vector<double> numbers_of(const HostTensor& tensor) {
  return elements_as<double>(tensor);
}
HostTensor host_tensor(DType dtype, const Shape& shape, const std::vector<int64_t>& elements) {
  return made_of(dtype, shape, elements);
}
HostTensor host_tensor(DType dtype, const Shape& shape, const std::vector<double>& elements) {
  return made_of(dtype, shape, elements);
}

Tensor to_device(const Stream& stream, const HostTensor& host) {
  const Tensor tensor(stream, host.shape, host.dtype);
  if (tensor.numel() != 0) write(stream, tensor, host.data.data(), static_cast<int64_t>(host.data.size()));
  return tensor;
}

HostTensor to_host(const Stream& stream, const Tensor& tensor, const std::string& name) {
  HostTensor host{name, tensor.dtype(), tensor.shape(), {}};
  host.data.resize(static_cast<size_t>(tensor.bytes()));
  if (!host.data.empty()) read(stream, tensor, host.data.data(), tensor.bytes());
  return host;
}

}  // namespace dlprim
