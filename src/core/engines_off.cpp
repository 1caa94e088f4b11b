// The record of engines that are switched off, a text file with an entry a line:
//   device identity TAB operator TAB engine TAB reason
// It lies beside compiled programs, but is not among the files that go when these are too many.
#include <dlprim/engines_off.hpp>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>

#include "core/binary_cache.hpp"
#include "core/check.hpp"
#include "core/engine.hpp"
#include "core/regular_file.hpp"

namespace dlprim {

using namespace detail;

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = size_t{1} << 20;
thread_local bool all_on = false;

std::string record_path() {
  const std::string& folder = BinaryCache::user().directory();
  return folder.empty() ? "" : folder + "/engines-off.tsv";
}

using Fields = std::vector<std::string>;

/// The fields of each line that has four.
std::vector<Fields> read_record() {
  std::vector<Fields> lines;
  const std::string path = record_path();
  const std::optional<std::string> text = path.empty() ? std::nullopt : read_regular_file(path, kMostBytes);
  for (size_t begin = 0; text && begin < text->size();) {
    const size_t end = std::min(text->find('\n', begin), text->size());
    Fields fields(1);
    for (size_t i = begin; i < end; i++)
      if ((*text)[i] == '\t')
        fields.emplace_back();
      else
        fields.back() += (*text)[i];
    if (fields.size() == 4) lines.push_back(std::move(fields));
    begin = end + 1;
  }
  return lines;
}

/// A device's identity as a field. Drivers' texts may hold anything.
std::string field_of(std::string text) {
  for (char& c : text)
    if (c == '\t' || c == '\n' || c == '\r') c = ' ';
  return text;
}

/// What this process knows of the record: read once, and again when it writes.
class Record {
 public:
  static Record& get() {
    static Record* record = new Record;  // plans may be made while the process ends
    return *record;
  }
  /// Why the engine is switched off; empty if it is not.
  std::string reason(const Device& device, const char* op, const char* engine) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!read_) lines_ = read_record();
    read_ = true;
    for (const Fields& f : lines_)
      if (f[1] == op && f[2] == engine && f[0] == field_of(device.identity())) return f[3];
    return {};
  }
  void forget() {
    const std::lock_guard<std::mutex> lock(mutex_);
    read_ = false;
  }

 private:
  std::mutex mutex_;
  bool read_ = false;
  std::vector<Fields> lines_;
};

void write_record(const std::vector<Fields>& lines) {
  Record::get().forget();
  const std::string path = record_path();
  if (path.empty())
    throw Error("engines cannot be switched off: there is no folder of compiled programs (DLPRIM_CACHE_DIR)");
  std::error_code code;
  fs::create_directories(fs::path(path).parent_path(), code);
  const std::string temporary = cat(path, ".", getpid(), ".tmp");
  errno = 0;
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  for (const Fields& fields : lines)
    file << fields[0] << '\t' << fields[1] << '\t' << fields[2] << '\t' << fields[3] << '\n';
  file.close();
  const int reason = errno;
  if (file) fs::rename(temporary, path, code);
  if (file && !code) return;
  std::error_code ignored;
  fs::remove(temporary, ignored);
  throw Error(cat("cannot write '", path, "': ", code ? code.message() : std::strerror(reason)));
}

bool is_field(const std::string& text) {
  return !text.empty() && text.find_first_of("\t\r\n") == std::string::npos;
}

}  // namespace

std::vector<EngineOff> engines_off(const Device& device) {
  std::vector<EngineOff> entries;
  const std::string identity = field_of(device.identity());
  for (const Fields& f : read_record())
    if (f[0] == identity) entries.push_back({f[1], f[2], f[3]});
  return entries;
}

void switch_engine_off(const Device& device, const EngineOff& entry) {
  for (const auto& [name, text] :
       {std::pair("op", &entry.op), std::pair("engine", &entry.engine), std::pair("reason", &entry.reason)})
    require(is_field(*text), name, "'", *text, "' must not be empty, nor hold a tab or a line break");
  const std::string identity = field_of(device.identity());
  std::vector<Fields> lines = read_record();
  lines.erase(std::remove_if(lines.begin(), lines.end(),
                             [&](const Fields& f) {
                               return f[0] == identity && f[1] == entry.op && f[2] == entry.engine;
                             }),
              lines.end());
  lines.push_back({identity, entry.op, entry.engine, entry.reason});
  write_record(lines);
}

void switch_engines_on(const Device& device) {
  const DeviceFacts& facts = device.facts();
  // The identity begins with what no update of a driver changes.
  const std::string same = field_of(cat(facts.platform, " | ", facts.vendor, " | ", facts.name, " | "));
  std::vector<Fields> lines = read_record();
  const auto of_device = [&](const Fields& f) { return f[0].rfind(same, 0) == 0; };
  if (std::none_of(lines.begin(), lines.end(), of_device)) return;
  lines.erase(std::remove_if(lines.begin(), lines.end(), of_device), lines.end());
  write_record(lines);
}

AllEnginesOn::AllEnginesOn() noexcept : before_(all_on) {
  all_on = true;
}
AllEnginesOn::~AllEnginesOn() {
  all_on = before_;
}

namespace detail {

std::string switched_off(const Device& device, const char* op, const char* engine) {
  const std::string reason = all_on ? "" : Record::get().reason(device, op, engine);
  return reason.empty() ? "" : "is switched off for this device: " + reason;
}

}  // namespace detail
}  // namespace dlprim
