// Engines that are switched off for a device, since they gave wrong results there: `dlprim doctor` finds them
// and keeps a record, which later processes obey when they choose engines. docs/doctor.md.
#pragma once

#include <string>
#include <vector>

#include <dlprim/device.hpp>
#include <dlprim/export.hpp>

namespace dlprim {

/// One entry of the record. No text holds a tab or a line break.
struct EngineOff {
  std::string op, engine;  ///< as the log has them: "gemm", "fma"
  std::string reason;      ///< what was wrong, and when that was seen
};

/// The entries for the device with its present driver, from the file engines-off.tsv in the user's folder of
/// compiled programs ($DLPRIM_CACHE_DIR). Empty if there is no such folder or file.
DLPRIM_API std::vector<EngineOff> engines_off(const Device& device);

/// Puts the entry into the record, in place of one of that operator and engine. Plans that are there already,
/// and other processes that run, do not see it. Throws ValidationError (an empty text, or one with a tab or
/// line break), and Error if the record cannot be kept.
DLPRIM_API void switch_engine_off(const Device& device, const EngineOff& entry);

/// Takes all entries for the device, whatever its driver's version was, out of the record. Throws Error.
DLPRIM_API void switch_engines_on(const Device& device);

/// While it lives, plans that the calling thread makes use all engines: to examine those that are off.
class DLPRIM_API AllEnginesOn {
 public:
  AllEnginesOn() noexcept;
  ~AllEnginesOn();
  AllEnginesOn(const AllEnginesOn&) = delete;
  AllEnginesOn& operator=(const AllEnginesOn&) = delete;

 private:
  const bool before_;
};

}  // namespace dlprim
