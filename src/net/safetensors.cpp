// Reading and writing safetensors files on the host. A file is somebody else's data: every length, offset and
// name in it is checked before it is used.
#include <dlprim/safetensors.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "core/check.hpp"
#include "net/new_file.hpp"
#include "net/safetensors_write.hpp"

namespace dlprim {
namespace {

using detail::cat;
using detail::require;
using Json = nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMostHeader = 100'000'000;  // the format's own bound

struct TypeName {
  const char* name;
  DType dtype;
};
constexpr TypeName kTypes[] = {{"F32", DType::f32},      {"F16", DType::f16}, {"BF16", DType::bf16},
                               {"F64", DType::f64},      {"I8", DType::i8},   {"U8", DType::u8},
                               {"I16", DType::i16},      {"I32", DType::i32}, {"I64", DType::i64},
                               {"BOOL", DType::boolean}, {"U16", DType::u16}, {"U32", DType::u32},
                               {"U64", DType::u64}};

const char* name_in_file(DType dtype) {
  for (const TypeName& type : kTypes)
    if (type.dtype == dtype) return type.name;
  return "?";
}

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw ValidationError("path", cat("'", path, "' is no valid safetensors file: ", reason));
}

[[noreturn]] void io_error(const char* what, const std::string& path, int code) {
  throw Error(cat("cannot ", what, " '", path, "': ", code ? std::strerror(code) : "input/output error"));
}

/// Parses the header. The library would keep the last of two equal keys, and build any depth of nesting in
/// memory: both are refused on the way.
Json parse_header(const std::string& path, const std::string& text) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    constexpr int kDeepest = 3;  // file, tensor, its list of sizes
    if (depth > kDeepest) refuse(path, "the header is nested too deeply");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      refuse(path, cat("the header names '", parsed.get<std::string>(), "' twice"));
    return true;
  };
  Json header;
  try {
    header = Json::parse(text, check);
  } catch (const Json::exception& error) {
    refuse(path, cat("the header is not JSON: ", error.what()));
  }
  if (!header.is_object()) refuse(path, "the header is not a JSON object");
  return header;
}

/// A list of non-negative integers below 2^63.
std::vector<int64_t> numbers_of(const std::string& path, const std::string& name, const Json& entry,
                                const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) refuse(path, cat("'", name, "' has no list '", key, "'"));
  std::vector<int64_t> numbers;
  for (const Json& number : *found) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
      refuse(path, cat("'", name, "' has ", number.dump(-1, ' ', false, Json::error_handler_t::replace),
                       " in '", key, "'"));
    numbers.push_back(static_cast<int64_t>(number.get<uint64_t>()));
  }
  return numbers;
}

/// Dtypes of the format that dlprim has not, and the bits of a number.
struct StoredType {
  const char* name;
  int bits;
};
constexpr StoredType kStored[] = {{"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6},
                                  {"F8_E4M3", 8},     {"F8_E5M2", 8},     {"F8_E8M0", 8},
                                  {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"C64", 64}};

std::string text_of(const std::vector<int64_t>& sizes) {
  std::string text;
  for (int64_t size : sizes) text += cat(text.empty() ? "" : ", ", size);
  return "[" + text + "]";
}

/// The product, -1 if it is beyond what a tensor may have.
__int128 product(const std::vector<int64_t>& sizes) {
  __int128 count = 1;
  for (int64_t size : sizes) {
    if (size == 0) return 0;
    if (count >= 0) count *= size;
    if (count > INT64_MAX / 8) count = -1;
  }
  return count;
}

/// Of an entry that dlprim has: `known`. Others become bytes; how many there must be is known of some.
SafetensorsReader::Entry entry_of(const std::string& path, const std::string& name, const Json& json,
                                  bool& known) {
  SafetensorsReader::Entry entry;
  entry.name = name;
  if (!json.is_object()) refuse(path, cat("'", name, "' is not a JSON object"));
  const auto dtype = json.find("dtype");
  if (dtype == json.end() || !dtype->is_string()) refuse(path, cat("'", name, "' has no text 'dtype'"));
  entry.type = dtype->get<std::string>();
  entry.sizes = numbers_of(path, name, json, "shape");
  const std::string sizes = text_of(entry.sizes);
  const std::vector<int64_t> offsets = numbers_of(path, name, json, "data_offsets");
  if (offsets.size() != 2) refuse(path, cat("'", name, "' has ", offsets.size(), " data_offsets, must be 2"));
  entry.begin = static_cast<uint64_t>(offsets[0]);
  entry.end = static_cast<uint64_t>(offsets[1]);

  const auto type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& t) { return entry.type == t.name; });
  const auto stored = std::find_if(std::begin(kStored), std::end(kStored),
                                   [&](const auto& t) { return entry.type == t.name; });
  const __int128 count = product(entry.sizes);
  if (count < 0) refuse(path, cat("'", name, "' has shape ", sizes, ": too large"));
  const bool of_ours = type != std::end(kTypes), sized = of_ours || stored != std::end(kStored);
  const __int128 bits = count * (of_ours ? static_cast<int>(size_of(type->dtype)) * 8
                                 : sized ? stored->bits
                                         : 0);
  const __int128 bytes = static_cast<__int128>(entry.end) - static_cast<__int128>(entry.begin);
  if (bytes < 0 || (sized && bits != bytes * 8))
    refuse(path, cat("'", name, "' spans bytes ", entry.begin, " to ", entry.end, ", but ", entry.type, sizes,
                     " is another size"));
  known = of_ours && entry.sizes.size() <= static_cast<size_t>(kMaxRank);
  entry.dtype = known ? type->dtype : DType::u8;
  entry.shape = known ? Shape(entry.sizes) : Shape{static_cast<int64_t>(bytes)};
  return entry;
}

/// The tensors' data must fill the rest of the file: no overlap, no gap, nothing missing, nothing behind.
void check_layout(const std::string& path, const std::vector<SafetensorsReader::Entry>& entries,
                  uint64_t data_bytes) {
  uint64_t at = 0;
  for (const auto& entry : entries) {
    if (entry.begin != at)
      refuse(path, cat("'", entry.name, "' begins at byte ", entry.begin, " of the data, ",
                       entry.begin < at ? "inside" : "a gap behind", " what ends at ", at));
    at = entry.end;
  }
  if (at != data_bytes)
    refuse(path, cat("the header speaks of ", at, " bytes of data, the file has ", data_bytes,
                     at > data_bytes ? ": it was cut off" : ""));
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::string& path) : path_(path) {
  errno = 0;
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(path, code);
  if (std::filesystem::is_directory(status)) io_error("read", path, EISDIR);
  // A pipe would keep the caller waiting.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw ValidationError("path", cat("'", path, "' is no regular file"));
  file_.open(path, std::ios::binary | std::ios::ate);
  if (!file_) io_error("open", path, errno);
  const auto end = static_cast<std::streamoff>(file_.tellg());
  if (end < 0) io_error("read", path, errno);
  const auto size = static_cast<uint64_t>(end);
  if (size < kLengthBytes)
    refuse(path, cat("it has ", size, " bytes, less than the 8 of the header's length"));
  unsigned char raw[kLengthBytes] = {};
  file_.seekg(0);
  if (!file_.read(reinterpret_cast<char*>(raw), kLengthBytes)) io_error("read", path, errno);
  uint64_t length = 0;
  for (int i = 7; i >= 0; i--) length = length << 8 | raw[i];
  if (length > kMostHeader) refuse(path, cat("a header of ", length, " bytes is larger than ", kMostHeader));
  if (length > size - kLengthBytes)
    refuse(path,
           cat("a header of ", length, " bytes does not fit into a file of ", size, ": it was cut off"));
  std::string text(length, '\0');
  if (!file_.read(text.data(), static_cast<std::streamsize>(length))) io_error("read", path, errno);
  if (text.empty() || text[0] != '{') refuse(path, "the header does not begin with '{'");
  const Json header = parse_header(path, text);
  for (const auto& [name, value] : header.items()) {
    if (name != "__metadata__") {
      bool known = false;
      Entry entry = entry_of(path, name, value, known);
      (known ? entries_ : others_).push_back(std::move(entry));
      continue;
    }
    if (!value.is_object()) refuse(path, "'__metadata__' is not a JSON object");
    for (const auto& [key, text_value] : value.items()) {
      if (!text_value.is_string())
        refuse(path, cat("'__metadata__' has something other than text in '", key, "'"));
      metadata_[key] = text_value.get<std::string>();
    }
  }
  const auto before = [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  };
  std::sort(entries_.begin(), entries_.end(), before);
  std::sort(others_.begin(), others_.end(), before);
  std::vector<Entry> all;
  std::merge(entries_.begin(), entries_.end(), others_.begin(), others_.end(), std::back_inserter(all),
             before);
  data_start_ = kLengthBytes + length;
  check_layout(path, all, size - data_start_);
}

std::string SafetensorsReader::why_lacking(const std::string& name) const {
  for (const Entry& entry : others_)
    if (entry.name == name)
      return cat(" (it is ", entry.type, text_of(entry.sizes), ", which dlprim does not have)");
  return "";
}

HostTensor SafetensorsReader::read(const Entry& entry) {
  HostTensor tensor{entry.name, entry.dtype, entry.shape,
                    std::vector<unsigned char>(entry.end - entry.begin)};
  errno = 0;
  file_.clear();
  file_.seekg(static_cast<std::streamoff>(data_start_ + entry.begin));
  file_.read(reinterpret_cast<char*>(tensor.data.data()), static_cast<std::streamsize>(tensor.data.size()));
  if (!file_) io_error("read", path_, errno);
  return tensor;
}

namespace {

std::string header_text(const std::vector<detail::NamedTensor>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto bytes = static_cast<uint64_t>(element_count(tensor->shape)) * size_of(tensor->dtype);
    require(tensor->data.size() == bytes, "tensors", "'", name, "' has ", tensor->data.size(), " bytes, ",
            name_of(tensor->dtype), to_string(tensor->shape), " needs ", bytes);
    require(name != "__metadata__" && !header.contains(name), "tensors", "the name '", name, "' is taken");
    header[name] = {{"dtype", name_in_file(tensor->dtype)},
                    {"shape", std::vector<int64_t>(tensor->shape.begin(), tensor->shape.end())},
                    {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  try {
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins at a multiple of 8
    return text;
  } catch (const Json::exception& error) {
    throw ValidationError("tensors", cat("a name or the metadata is not UTF-8: ", error.what()));
  }
}

}  // namespace

namespace detail {

void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = header_text(tensors, metadata);
  char length[kLengthBytes];
  for (size_t i = 0; i < kLengthBytes; i++) length[i] = static_cast<char>(header.size() >> (8 * i));
  NewFile file(path);
  file.write({length, kLengthBytes});
  file.write(header);
  for (const NamedTensor& t : tensors)
    file.write({reinterpret_cast<const char*>(t.tensor->data.data()), t.tensor->data.size()});
  file.put_in_place();
}

}  // namespace detail

void save_safetensors(const std::string& path, const std::vector<HostTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::vector<detail::NamedTensor> named;
  named.reserve(tensors.size());
  for (const HostTensor& tensor : tensors) named.push_back({tensor.name, &tensor});
  detail::write_safetensors(path, named, metadata);
}

}  // namespace dlprim
