// The text of the kernels in src/kernels, which the build embeds.
#pragma once

#include <string>

namespace dlprim::detail {

/// The text of `name`.cl with its includes resolved. If the environment variable DLPRIM_KERNEL_DIR is set,
/// the file is read from that directory or a folder in it instead. Throws ValidationError for an unknown
/// name.
std::string kernel_source(const std::string& name);

/// A line of texts whose quotients and roots of f32 are to be rounded correctly
/// (DeviceFacts::rounds_quotients).
constexpr const char kRoundedQuotients[] = "#define ROUNDED_QUOTIENTS\n";

}  // namespace dlprim::detail
