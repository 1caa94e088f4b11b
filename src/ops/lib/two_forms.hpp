// Operators with two forms and no list of engines: one for CPUs, one for all other devices.
#pragma once

#include "core/engine.hpp"

namespace dlprim::detail {

/// Whether it is the form for CPUs: by its name, or with `auto` by the device. Throws ValidationError for
/// names of neither.
inline bool takes_cpu_form(const Context& context, const Options& options, const char* cpu,
                           const char* other) {
  const EngineRequest request(options);
  require(request.automatic() || request.names(cpu) || request.names(other), "engine", "there is no engine '",
          options.engine, "'");
  return request.automatic() ? context.device().kind() == DeviceKind::cpu : request.names(cpu);
}

}  // namespace dlprim::detail
