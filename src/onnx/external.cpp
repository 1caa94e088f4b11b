// Other readers had holes here that let a model read any file: "..", "a/../..", absolute names, links, links
// among the parents, hard links, sums of offset and length that overflow. tests/test_onnx_external.cpp
// tries each.
#include "onnx/external.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/text.hpp"

namespace dlprim::onnx {
namespace {

using detail::cat;
namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& tensor, const std::string& reason) {
  throw ValidationError("external_data", cat("tensor '", tensor, "': ", reason));
}

struct Place {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;  ///< none: what the tensor needs
};

uint64_t number_of(const std::string& tensor, const Entry& entry) {
  uint64_t value = 0;
  const char* const end = entry.value.data() + entry.value.size();
  const auto [stopped, error] = std::from_chars(entry.value.data(), end, value);
  if (error != std::errc() || stopped != end)
    refuse(tensor, cat(entry.key, " '", entry.value, "' is no number below 2^64"));
  return value;
}

Place place_of(const TensorMessage& tensor) {
  Place place;
  std::vector<std::string> seen;
  for (const Entry& entry : tensor.external) {
    const bool is_location = entry.key == "location", is_offset = entry.key == "offset";
    if (!is_location && !is_offset && entry.key != "length") continue;  // "checksum", and what is yet to come
    if (std::find(seen.begin(), seen.end(), entry.key) != seen.end())
      refuse(tensor.name, cat("names '", entry.key, "' twice"));
    seen.push_back(entry.key);
    if (is_location)
      place.location = entry.value;
    else if (is_offset)
      place.offset = number_of(tensor.name, entry);
    else
      place.length = number_of(tensor.name, entry);
  }
  return place;
}

/// Checks the location as a text, before anything is asked of the file system.
void check_location(const std::string& tensor, const std::string& location) {
  if (location.empty()) refuse(tensor, "has no location");
  if (location.find('\0') != std::string::npos) refuse(tensor, "its location has a zero byte in it");
  const fs::path path(location);
  if (path.is_absolute() || path.has_root_path())
    refuse(tensor, cat("location '", location, "' must be relative"));
  for (const fs::path& part : path)
    if (part == "..") refuse(tensor, cat("location '", location, "' must not have '..' in it"));
}

bool lies_in(const fs::path& folder, const fs::path& file) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
}

}  // namespace

ExternalFiles::ExternalFiles(const std::string& model_path) {
  std::error_code code;
  const fs::path model = fs::absolute(model_path, code);
  const fs::path real = code ? fs::path() : fs::canonical(model, code);
  const fs::path folder = code ? fs::path() : fs::canonical(model.parent_path(), code);
  if (code) throw Error(cat("cannot find '", model_path, "': ", code.message()));
  folders_.push_back(folder);
  if (real.parent_path() != folder) folders_.push_back(real.parent_path());
}

std::string_view ExternalFiles::file_at(const std::string& tensor, const std::string& location) {
  if (folders_.empty())
    refuse(tensor, cat("its data is in the file '", location, "', but the model was not read from a folder"));
  std::error_code code;
  fs::path file;
  for (const fs::path& folder : folders_) {
    file = fs::canonical(folder / location, code);
    if (code != std::errc::no_such_file_or_directory) break;
  }
  if (code)
    refuse(tensor, cat("location '", location, "' in '", folders_[0].string(), "': ", code.message()));
  if (std::none_of(folders_.begin(), folders_.end(), [&](const auto& f) { return lies_in(f, file); }))
    refuse(tensor, cat("location '", location, "' leads to '", file.string(),
                       "', out of the model's folder '", folders_[0].string(), "'"));
  const auto known = files_.find(file.string());
  if (known != files_.end()) return known->second.bytes();
  return files_.emplace(file.string(), MappedFile(file.string(), MappedFile::Names::one))
      .first->second.bytes();
}

std::string_view ExternalFiles::bytes(const TensorMessage& tensor, uint64_t expected_bytes) {
  const Place place = place_of(tensor);
  check_location(tensor.name, place.location);
  const uint64_t length = place.length.value_or(expected_bytes);
  if (length != expected_bytes)
    refuse(tensor.name, cat("length ", length, " must be ", expected_bytes, ", as its type and shape say"));
  if (length == 0) return {};  // writers may leave out the file, or leave it empty
  const std::string_view file = file_at(tensor.name, place.location);
  if (place.offset > file.size() || length > file.size() - place.offset)
    refuse(tensor.name, cat("bytes ", place.offset, " and the ", length, " from there on are not in '",
                            place.location, "', which has ", file.size()));
  return file.substr(static_cast<size_t>(place.offset), static_cast<size_t>(length));
}

}  // namespace dlprim::onnx
