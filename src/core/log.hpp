// The log: silent unless the environment variable DLPRIM_LOG asks. 1: a line per operator and per program
// made; 2: also a line per kernel launch with its device time, and per OpenCL buffer, and what the device's
// compiler remarks on a program.
#pragma once

#include <string>

namespace dlprim::detail {

/// The level asked for, read from the environment once.
int log_level();
/// Writes "dlprim: text" and a line end to stderr in one call. Callers ask log_level() first.
void log_line(const std::string& text);

}  // namespace dlprim::detail
