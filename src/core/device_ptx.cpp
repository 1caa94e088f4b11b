#include "core/device_ptx.hpp"

#include <algorithm>

#include "core/program_binary.hpp"

namespace dlprim::detail {
namespace {

constexpr const char kCover[] = "//@";
constexpr const char kEntry[] = "//@entry ";
constexpr const char kTarget[] = ".target sm_90";

/// Moves what stands behind kEntry in a kernel's body to before that body, where directives belong.
void move_directives(std::string& ptx) {
  for (size_t at; (at = ptx.find(kEntry)) != std::string::npos;) {
    const size_t end = std::min(ptx.find('\n', at), ptx.size()), entry = ptx.rfind(".entry", at);
    const std::string directive = ptx.substr(at + sizeof kEntry - 1, end - at - (sizeof kEntry - 1));
    ptx.erase(at, end - at);
    const size_t body = entry == std::string::npos ? std::string::npos : ptx.find('{', entry);
    if (body != std::string::npos) ptx.insert(body, directive + "\n");
  }
}

/// Empty if the text is not PTX for sm_90.
std::string uncovered(std::string ptx) {
  const size_t target = ptx.find(kTarget);
  if (target == std::string::npos) return "";
  ptx.insert(target + sizeof kTarget - 1, "a");
  move_directives(ptx);
  std::string result;
  result.reserve(ptx.size());
  size_t from = 0;
  for (size_t at; (at = ptx.find(kCover, from)) != std::string::npos; from = at + sizeof kCover - 1)
    result.append(ptx, from, at - from);
  return result.append(ptx, from, std::string::npos);
}

}  // namespace

bool has_covered_ptx(const std::string& source) {
  return source.find(kCover) != std::string::npos;
}

cl::Program uncover_ptx(const cl::Context& context, cl_device_id device, const cl::Program& program,
                        const std::string& name) {
  const std::string ptx = uncovered(program_binary(program));
  if (ptx.empty()) throw BuildError(name, "sm_90a", "the driver's binary is not PTX for sm_90");
  std::string log;
  cl::Program result = program_from_binary(context, device, ptx, "", &log);
  if (!result()) throw BuildError(name, "sm_90a", log);
  return result;
}

}  // namespace dlprim::detail
