#include "core/gen/slots.hpp"

#include <set>
#include <sstream>

#include "core/check.hpp"

namespace dlprim::detail {

std::string fill_slots(const std::string& text, const std::map<std::string, std::string>& slots) {
  std::istringstream in(text);
  std::string out;
  std::set<std::string> used;
  bool skipping = false;
  for (std::string line; std::getline(in, line);) {
    const size_t start = line.find_first_not_of(' ');
    const bool marker = start != std::string::npos && line.compare(start, 4, "//$ ") == 0;
    const std::string name = marker ? line.substr(start + 4) : "";
    if (marker && name == "END") {
      skipping = false;
    } else if (marker) {
      const auto slot = slots.find(name);
      require(slot != slots.end(), "slot", "nothing fills ", name);
      used.insert(name);
      skipping = true;
      std::istringstream lines(slot->second);
      for (std::string filled; std::getline(lines, filled);) out += std::string(start, ' ') + filled + '\n';
    } else if (!skipping) {
      out += line + '\n';
    }
  }
  for (const auto& [name, filling] : slots) require(used.count(name) > 0, "slot", "there is no ", name);
  return out;
}

}  // namespace dlprim::detail
