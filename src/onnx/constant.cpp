// Numbers of tensors, little-endian as in the file. The file says how many there are in two ways, by the
// shape and by the data: they must agree before memory is taken.
#include "onnx/constant.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/text.hpp"
#include "onnx/narrow.hpp"

namespace dlprim::onnx {
namespace {

using detail::cat;

enum class List : uint8_t { floats, doubles, int32s, int64s, uint64s };

/// The types that dlprim has. `list`: where their numbers stand if they are not raw.
struct Stored {
  ElementType type;
  DType dtype;
  List list;
};
constexpr Stored kStored[] = {
    {ElementType::f32, DType::f32, List::floats},   {ElementType::f16, DType::f16, List::int32s},
    {ElementType::bf16, DType::bf16, List::int32s}, {ElementType::f64, DType::f64, List::doubles},
    {ElementType::i8, DType::i8, List::int32s},     {ElementType::u8, DType::u8, List::int32s},
    {ElementType::i16, DType::i16, List::int32s},   {ElementType::i32, DType::i32, List::int32s},
    {ElementType::i64, DType::i64, List::int64s},   {ElementType::boolean, DType::boolean, List::int32s},
    {ElementType::u16, DType::u16, List::int32s},   {ElementType::u32, DType::u32, List::uint64s},
    {ElementType::u64, DType::u64, List::uint64s}};

const Stored* find_stored(ElementType type) noexcept {
  const auto* const found = std::find_if(std::begin(kStored), std::end(kStored),
                                         [&](const Stored& stored) { return stored.type == type; });
  return found == std::end(kStored) ? nullptr : found;
}

[[noreturn]] void refuse(const TensorMessage& tensor, const std::string& reason) {
  throw ValidationError("tensor", cat("'", tensor.name, "' of type ", name_of(tensor.type), ": ", reason));
}

struct Size {
  Shape shape;
  int64_t count = 0, bytes = 0;
};

/// `tensor` is the one that is named if `dims` are refused.
Size size_of_dims(const TensorMessage& tensor, const std::vector<int64_t>& dims, DType dtype) {
  if (dims.size() > kMaxRank) refuse(tensor, cat("has ", dims.size(), " dimensions, must be at most 8"));
  Size size{Shape(dims), 0, 0};
  try {
    size.count = element_count(size.shape);
  } catch (const ValidationError& error) {
    refuse(tensor, error.what());
  }
  size.bytes = size.count * static_cast<int64_t>(size_of(dtype));  // fits, as element_count says
  return size;
}

template <class T>
void append_bytes(const T* values, size_t count, std::vector<unsigned char>& data) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(values);
  data.insert(data.end(), bytes, bytes + count * sizeof(T));
}

/// Numbers that the file has as 32 bits, as those of a smaller type, from `low` to `high`.
template <class T>
void append_narrowed(const TensorMessage& tensor, T low, T high, std::vector<unsigned char>& data) {
  data.reserve(tensor.int32_data.size() * sizeof(T));
  for (int32_t value : tensor.int32_data) {
    if (value < static_cast<int32_t>(low) || value > static_cast<int32_t>(high))
      refuse(tensor, cat("has the value ", value, ", which is not from ", int{low}, " to ", int{high}));
    const T narrow = static_cast<T>(value);
    append_bytes(&narrow, 1, data);
  }
}
template <class T>
void append_narrowed(const TensorMessage& tensor, std::vector<unsigned char>& data) {
  append_narrowed<T>(tensor, std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), data);
}

void append_int32s(const TensorMessage& tensor, DType dtype, std::vector<unsigned char>& data) {
  switch (dtype) {
    case DType::i8:
      return append_narrowed<int8_t>(tensor, data);
    case DType::u8:
      return append_narrowed<uint8_t>(tensor, data);
    case DType::i16:
      return append_narrowed<int16_t>(tensor, data);
    case DType::u16:
    case DType::f16:
    case DType::bf16:  // the bits
      return append_narrowed<uint16_t>(tensor, data);
    case DType::boolean:
      return append_narrowed<uint8_t>(tensor, 0, 1, data);
    default:
      return append_bytes(tensor.int32_data.data(), tensor.int32_data.size(), data);
  }
}

void append_uint64s(const TensorMessage& tensor, DType dtype, std::vector<unsigned char>& data) {
  if (dtype == DType::u64) return append_bytes(tensor.uint64_data.data(), tensor.uint64_data.size(), data);
  data.reserve(tensor.uint64_data.size() * sizeof(uint32_t));
  for (uint64_t value : tensor.uint64_data) {
    if (value > UINT32_MAX)
      refuse(tensor, cat("has the value ", value, ", which is not from 0 to ", UINT32_MAX));
    const auto narrow = static_cast<uint32_t>(value);
    append_bytes(&narrow, 1, data);
  }
}

/// How many numbers stand in the list of the type, and in all lists.
struct Counts {
  size_t own = 0, all = 0;
};
Counts counts_of(const TensorMessage& tensor, List list) {
  Counts counts;
  const std::pair<size_t, std::optional<List>> lists[] = {
      {tensor.float_data.size(), List::floats},   {tensor.double_data.size(), List::doubles},
      {tensor.int32_data.size(), List::int32s},   {tensor.int64_data.size(), List::int64s},
      {tensor.uint64_data.size(), List::uint64s}, {tensor.string_data.size(), std::nullopt}};
  for (const auto& [count, its_list] : lists) {
    counts.all += count;
    if (its_list == list) counts.own = count;
  }
  return counts;
}

std::vector<unsigned char> data_of_lists(const TensorMessage& tensor, const Stored& stored) {
  std::vector<unsigned char> data;
  switch (stored.list) {
    case List::floats:
      append_bytes(tensor.float_data.data(), tensor.float_data.size(), data);
      break;
    case List::doubles:
      append_bytes(tensor.double_data.data(), tensor.double_data.size(), data);
      break;
    case List::int32s:
      append_int32s(tensor, stored.dtype, data);
      break;
    case List::int64s:
      append_bytes(tensor.int64_data.data(), tensor.int64_data.size(), data);
      break;
    case List::uint64s:
      append_uint64s(tensor, stored.dtype, data);
      break;
  }
  return data;
}

/// The bytes of a tensor that has them as they are, in this file or in another one; none if it has lists.
std::optional<std::string_view> raw_bytes(const TensorMessage& tensor, const Size& size, bool has_lists,
                                          ExternalFiles& files) {
  if (tensor.is_external) {
    if (!tensor.raw_data.empty() || has_lists) refuse(tensor, "has data in the model and in another file");
    return files.bytes(tensor, static_cast<uint64_t>(size.bytes));
  }
  if (!tensor.raw_data.empty() && has_lists) refuse(tensor, "has raw data and a list of numbers");
  if (has_lists) return std::nullopt;
  if (tensor.raw_data.size() != static_cast<uint64_t>(size.bytes))
    refuse(tensor,
           cat("has ", tensor.raw_data.size(), " bytes of data, shape ", size.shape, " needs ", size.bytes));
  return tensor.raw_data;
}

/// A tensor of a type that no dtype has. Its lists hold a byte of packed numbers in each number.
HostTensor narrow_constant_of(const TensorMessage& tensor, const Narrow& narrow, ExternalFiles& files) {
  Size size = size_of_dims(tensor, tensor.dims, narrow.dtype);
  size.bytes = packed_bytes(narrow, size.count);
  const Counts counts = counts_of(tensor, List::int32s);
  if (counts.own != counts.all) refuse(tensor, "has numbers in a list of another type");
  std::vector<unsigned char> bytes;
  if (const auto raw = raw_bytes(tensor, size, counts.all > 0, files))
    append_bytes(raw->data(), raw->size(), bytes);
  else
    append_narrowed<uint8_t>(tensor, bytes);
  if (bytes.size() != static_cast<uint64_t>(size.bytes))
    refuse(tensor, cat("has ", bytes.size(), " bytes of data, shape ", size.shape, " needs ", size.bytes));
  const std::string_view packed(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {tensor.name, narrow.dtype, size.shape, unpacked(narrow, packed, size.count)};
}

/// The position of each value in row-major order, checked.
std::vector<int64_t> positions_of(const SparseTensorMessage& sparse, const Size& dense, int64_t count,
                                  ExternalFiles& files) {
  const TensorMessage& named = sparse.values;
  if (sparse.indices.type != ElementType::i64)
    refuse(named, cat("has indices of type ", name_of(sparse.indices.type), ", must be int64"));
  const HostTensor indices = constant_of(sparse.indices, files);
  const int rank = dense.shape.size();
  const bool is_list = indices.shape == Shape{count};
  if (!is_list && indices.shape != Shape{count, rank})
    refuse(named, cat("has indices of shape ", indices.shape, ", must be ", Shape{count}, " or ",
                      Shape{count, rank}));
  const int width = is_list ? 1 : rank;
  std::vector<int64_t> positions(static_cast<size_t>(count));
  const unsigned char* next = indices.data.data();
  for (int64_t& position : positions)
    for (int i = 0; i < width; i++, next += sizeof(int64_t)) {
      int64_t index = 0;
      std::memcpy(&index, next, sizeof(index));
      const int64_t size = is_list ? dense.count : dense.shape[i];
      if (index < 0 || index >= size)
        refuse(named,
               cat("has index ", index, ", which is not from 0 to ", size - 1, " in shape ", dense.shape));
      position = position * size + index;
    }
  std::vector<int64_t> sorted = positions;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) refuse(named, "has one index twice");
  return positions;
}

}  // namespace

std::optional<DType> dtype_of(ElementType type) noexcept {
  const Stored* const stored = find_stored(type);
  return stored ? std::optional<DType>(stored->dtype) : std::nullopt;
}

HostTensor constant_of(const TensorMessage& tensor, ExternalFiles& files) {
  if (const Narrow* const narrow = find_narrow(tensor.type))
    return narrow_constant_of(tensor, *narrow, files);
  const Stored* const stored = find_stored(tensor.type);
  if (!stored) refuse(tensor, "dlprim does not have this type");
  const Size size = size_of_dims(tensor, tensor.dims, stored->dtype);
  const Counts counts = counts_of(tensor, stored->list);
  if (counts.own != counts.all) refuse(tensor, "has numbers in a list of another type");
  HostTensor made{tensor.name, stored->dtype, size.shape, {}};
  if (const auto raw = raw_bytes(tensor, size, counts.all > 0, files)) {
    append_bytes(raw->data(), raw->size(), made.data);
  } else {
    if (counts.own != static_cast<uint64_t>(size.count))
      refuse(tensor, cat("has ", counts.own, " numbers, shape ", size.shape, " needs ", size.count));
    made.data = data_of_lists(tensor, *stored);
  }
  const auto is_bool = [](unsigned char byte) { return byte <= 1; };
  if (stored->dtype == DType::boolean && !std::all_of(made.data.begin(), made.data.end(), is_bool))
    refuse(tensor, "has a byte that is neither 0 nor 1");
  return made;
}

HostTensor constant_of(const SparseTensorMessage& sparse, ExternalFiles& files) {
  const HostTensor values = constant_of(sparse.values, files);
  if (values.shape.size() != 1)
    refuse(sparse.values, cat("has sparse values of shape ", values.shape, ", must be of one dimension"));
  const Size dense = size_of_dims(sparse.values, sparse.dims, values.dtype);
  if (dense.bytes > kMostDenseBytes)
    refuse(sparse.values,
           cat("takes ", dense.bytes, " bytes as a dense tensor, must be at most ", kMostDenseBytes));
  const std::vector<int64_t> positions = positions_of(sparse, dense, values.shape[0], files);
  HostTensor made{values.name, values.dtype, dense.shape,
                  std::vector<unsigned char>(static_cast<size_t>(dense.bytes))};
  const size_t width = size_of(values.dtype);
  for (size_t i = 0; i < positions.size(); i++)
    std::memcpy(made.data.data() + static_cast<size_t>(positions[i]) * width, values.data.data() + i * width,
                width);
  return made;
}

}  // namespace dlprim::onnx
