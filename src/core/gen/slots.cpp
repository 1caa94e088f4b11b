// Filling slots, line by line.
#include "core/gen/slots.hpp"

#include <set>
#include <sstream>

#include "core/check.hpp"

namespace dlprim::detail {

std::string fill_slots(const std::string& text, const std::map<std::string, std::string>& slots) {
  std::istringstream in(text);
  std::string out;
  std::set<std::string> used;
  std::string open;  // the region that is being skipped
  for (std::string line; std::getline(in, line);) {
    const size_t start = line.find_first_not_of(' ');
    const bool marker = start != std::string::npos && line.compare(start, 4, "//$ ") == 0;
    const std::string name = marker ? line.substr(start + 4) : "";
    if (marker && name == "END") {
      open.clear();
    } else if (marker) {
      require(open.empty(), "slot", open, " has no END");
      const auto slot = slots.find(name);
      require(slot != slots.end(), "slot", "nothing fills ", name);
      used.insert(name);
      open = name;
      std::istringstream lines(slot->second);
      for (std::string filled; std::getline(lines, filled);) out += std::string(start, ' ') + filled + '\n';
    } else if (open.empty()) {
      out += line + '\n';
    }
  }
  require(open.empty(), "slot", open, " has no END");
  for (const auto& [name, filling] : slots) require(used.count(name) > 0, "slot", "there is no ", name);
  return out;
}

}  // namespace dlprim::detail
