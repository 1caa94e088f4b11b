// Slots: named regions of a .cl file that a generator replaces. A region starts with a line "//$ NAME" and
// ends with "//$ END"; the text between them is the default, with which the file parses by itself.
#pragma once

#include <map>
#include <string>

namespace dlprim::detail {

/// `text` with every region replaced by slots[NAME], indented as the marker was. Throws ValidationError if a
/// region has no entry or no end, or an entry no region.
std::string fill_slots(const std::string& text, const std::map<std::string, std::string>& slots);

}  // namespace dlprim::detail
