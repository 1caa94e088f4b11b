#include "npy.hpp"

#include <algorithm>
#include <sstream>

#include "file_bytes.hpp"
#include "output_folder.hpp"

namespace dlprim::cli {
namespace {

struct TypeName {
  const char* text;
  DType dtype;
};
constexpr TypeName kTypes[] = {{"<f4", DType::f32}, {"<f2", DType::f16}, {"<f8", DType::f64},
                               {"|i1", DType::i8},  {"|u1", DType::u8},  {"<i2", DType::i16},
                               {"<i4", DType::i32}, {"<i8", DType::i64}, {"|b1", DType::boolean},
                               {"<u2", DType::u16}, {"<u4", DType::u32}, {"<u8", DType::u64}};

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw ValidationError("path", "'" + name + "' is no array of NumPy's that dlprim reads: " + why);
}

/// What stands behind 'key': in the header, up to the comma, bracket or brace that ends it.
std::string_view header_value(const std::string& name, std::string_view header, const char* key) {
  const size_t at = header.find("'" + std::string(key) + "':");
  if (at == std::string_view::npos) refuse(name, "its header has no '" + std::string(key) + "'");
  std::string_view rest = header.substr(at + std::strlen(key) + 3);
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  const size_t end = !rest.empty() && rest.front() == '(' ? rest.find(')') : rest.find_first_of(",}");
  if (end == std::string_view::npos) refuse(name, "its header ends early");
  return rest.substr(0, end);
}

Shape shape_of(const std::string& name, std::string_view text) {
  if (text.empty() || text.front() != '(') refuse(name, "its shape is no list");
  Shape shape;
  std::istringstream numbers{std::string(text.substr(1))};
  for (int64_t size = 0; numbers >> size;) {
    if (size < 0 || shape.size() == kMaxRank) refuse(name, "its shape is " + std::string(text) + ")");
    shape.push_back(size);
    char comma = 0;
    numbers >> comma;
  }
  return shape;
}

}  // namespace

HostTensor parse_npy(const std::string& name, std::string_view bytes) {
  constexpr std::string_view kMagic("\x93NUMPY", 6);
  if (bytes.size() < 12 || bytes.substr(0, 6) != kMagic) refuse(name, "it does not begin as one");
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  const bool is_long = byte(6) >= 2;
  const size_t start = is_long ? 12 : 10;
  const size_t length = byte(8) | byte(9) << 8 | (is_long ? byte(10) << 16 | byte(11) << 24 : 0);
  if (bytes.size() - start < length) refuse(name, "it ends in its header");
  const std::string_view header = bytes.substr(start, length), data = bytes.substr(start + length);
  std::string_view type = header_value(name, header, "descr");
  type = type.size() >= 2 ? type.substr(1, type.size() - 2) : type;
  const auto known =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeName& t) { return type == t.text; });
  if (known == std::end(kTypes)) refuse(name, "its type is " + std::string(type));
  if (header_value(name, header, "fortran_order") != "False") refuse(name, "it is column-major");
  HostTensor tensor{name, known->dtype, shape_of(name, header_value(name, header, "shape")), {}};
  const auto expected = static_cast<uint64_t>(element_count(tensor.shape)) * size_of(tensor.dtype);
  if (data.size() != expected)
    refuse(name, "it has " + std::to_string(data.size()) + " bytes of data for " + std::to_string(expected));
  tensor.data.assign(data.begin(), data.end());
  return tensor;
}

HostTensor read_npy(const std::string& path) {
  return parse_npy(path, file_bytes(path));
}

void write_npy(const std::string& path, const HostTensor& given) {
  HostTensor tensor = given;
  if (given.dtype == DType::bf16) {
    tensor.dtype = DType::f32;
    tensor.data.clear();
    for (size_t i = 0; i + 1 < given.data.size(); i += 2) {  // the upper half of a float
      const unsigned char element[4] = {0, 0, given.data[i], given.data[i + 1]};
      tensor.data.insert(tensor.data.end(), element, element + 4);
    }
  }
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const TypeName& t) { return t.dtype == tensor.dtype; });
  std::string shape;
  for (int64_t size : tensor.shape) shape += std::to_string(size) + ", ";
  std::string header =
      "{'descr': '" + std::string(type->text) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  write_file(path, bytes);
}

}  // namespace dlprim::cli
