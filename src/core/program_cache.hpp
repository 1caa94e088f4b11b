// ProgramCache: the compiled programs of one context, in memory, over the binary cache on disk.
// Builds run outside the lock; threads that ask for one program while it is being built wait for that build.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <dlprim/context.hpp>
#include <dlprim/opencl.hpp>

#include "core/defines.hpp"

namespace dlprim::detail {

struct Program;

/// A kernel of a program. Copies share it; any number of threads may launch it, since each launch borrows a
/// cl_kernel of its own.
class Kernel {
 public:
  Kernel() = default;
  const std::string& name() const;
  /// Work-items that a group of this kernel may have on this device.
  size_t max_work_group() const;

  struct Shared;
  explicit Kernel(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  Shared& shared() const { return *shared_; }

 private:
  std::shared_ptr<Shared> shared_;
};

struct Kernel::Shared {
  std::shared_ptr<const Program> program;
  std::string name;
  size_t max_work_group = 0;
  unsigned arguments = 0;
  std::mutex mutex;
  std::vector<cl::Kernel> idle;

  cl::Kernel borrow();
  void give_back(cl::Kernel kernel) noexcept;
};

struct Program {
  cl::Program program;
  std::string name;
};

class ProgramCache {
 public:
  ProgramCache(cl::Context context, const Device& device);

  /// The kernel `kernel` of the embedded file `file`.cl compiled with `defines`. Throws BuildError.
  Kernel kernel(const std::string& file, const std::string& kernel, const Defines& defines);
  /// The same of a generated source; `name` stands in messages and the log.
  Kernel generated(const std::string& name, const std::string& source, const std::string& kernel,
                   const Defines& defines = {});
  ProgramStats stats() const;

 private:
  /// A program, or what the compiler said when there is none. Each thread that waits throws an error of its
  /// own.
  struct Outcome {
    std::shared_ptr<const Program> program;
    std::string log;
  };
  using Built = std::shared_future<Outcome>;

  std::shared_ptr<const Program> program(const std::string& name, const std::string& source,
                                         const std::string& options);
  std::shared_ptr<const Program> make(const std::string& name, const std::string& source,
                                      const std::string& options);
  cl::Program build(const std::string& name, const std::string& source, const std::string& options) const;

  cl::Context context_;
  Device device_;
  mutable std::mutex mutex_;
  std::map<std::string, Built> programs_;
  std::map<std::pair<const Program*, std::string>, Kernel> kernels_;
  ProgramStats stats_;
};

}  // namespace dlprim::detail
