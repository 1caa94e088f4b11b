// The errors that dlprim throws. All but IndexError are thrown before anything is enqueued: after a throw the
// context still works and no tensor has changed.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include <dlprim/export.hpp>

namespace dlprim {

/// The base of all errors thrown by dlprim.
class DLPRIM_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what) : std::runtime_error(what) {}
};

/// An argument is not acceptable. The text names the argument, the check that failed and the values.
class DLPRIM_API ValidationError : public Error {
 public:
  ValidationError(const std::string& argument, const std::string& reason)
      : Error(argument + ": " + reason), argument_(argument) {}
  /// The name of the argument that was refused, as the function's declaration spells it.
  const std::string& argument() const noexcept { return argument_; }

 private:
  std::string argument_;
};

/// An index tensor had an element that is out of range: thrown by a wait, where Context::check_indices()
/// asked for the search. The text names operator, argument, element and value. What was computed from it is
/// as without the search: zeros were read, nothing was written there.
class DLPRIM_API IndexError : public Error {
 public:
  explicit IndexError(const std::string& what) : Error(what) {}
};

/// A kernel did not build on the device.
class DLPRIM_API BuildError : public Error {
 public:
  BuildError(const std::string& program, const std::string& options, const std::string& log)
      : Error("program '" + program + "' did not build with options '" + options + "':\n" + log),
        program_(program),
        options_(options),
        log_(log) {}
  const std::string& program() const noexcept { return program_; }
  const std::string& options() const noexcept { return options_; }
  /// What the device's compiler said.
  const std::string& log() const noexcept { return log_; }

 private:
  std::string program_, options_, log_;
};

/// An OpenCL call failed.
class DLPRIM_API DeviceError : public Error {
 public:
  DeviceError(const std::string& call, int code);
  const std::string& call() const noexcept { return call_; }
  /// The OpenCL error code, for example -5.
  int code() const noexcept { return code_; }

 private:
  std::string call_;
  int code_;
};

/// The device, or the context's memory limit, has no room for an allocation.
class DLPRIM_API OutOfMemory : public Error {
 public:
  OutOfMemory(uint64_t asked, uint64_t held, uint64_t limit)
      : OutOfMemory("asked for " + std::to_string(asked) + " bytes while holding " + std::to_string(held) +
                        " of at most " + std::to_string(limit),
                    asked, held, limit) {}
  OutOfMemory(const std::string& reason, uint64_t asked, uint64_t held, uint64_t limit)
      : Error("out of device memory: " + reason), asked_(asked), held_(held), limit_(limit) {}
  uint64_t asked() const noexcept { return asked_; }  ///< bytes of the allocation that failed; 0: not known
  uint64_t held() const noexcept { return held_; }    ///< bytes the context held at that moment
  uint64_t limit() const noexcept { return limit_; }  ///< bytes the context may hold at most

 private:
  uint64_t asked_, held_, limit_;
};

/// The name of an OpenCL error code: -5 gives "CL_OUT_OF_RESOURCES".
DLPRIM_API const char* opencl_error_name(int code) noexcept;

}  // namespace dlprim
