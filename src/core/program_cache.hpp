// ProgramCache: the compiled programs of one context, in memory, over the binary cache on disk.
// Builds run outside the lock; threads that ask for one program while it is being built wait for that build.
// In a Rehearsal builds are begun in the background, and nobody waits.
// The least recently used programs go when there are too many. One that a plan still holds is found again.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <dlprim/context.hpp>
#include <dlprim/opencl.hpp>

#include "core/binary_cache.hpp"
#include "core/build_pool.hpp"
#include "core/build_process.hpp"
#include "core/defines.hpp"
#include "core/log.hpp"

namespace dlprim::detail {

struct Program;

/// The source of a program, and what names it.
struct ProgramText {
  std::string name, options;
  std::string key;  ///< the options, a line end, the source

  std::string source() const { return key.substr(options.size() + 1); }
};

/// A kernel that a rehearsal asked for, where the driver compiles kernels when they are launched.
struct RehearsedKernel {
  ProgramText program;
  std::string kernel;
};

/// A kernel of a program; of a rehearsal an empty one, which cannot be launched. Copies share it; any number
/// of threads may launch it, since each launch borrows a cl_kernel of its own.
class Kernel {
 public:
  Kernel() = default;
  const std::string& name() const;
  /// Work-items that a group of this kernel may have on this device; of an empty kernel, any number.
  int64_t max_work_group() const;

  struct Shared;
  explicit Kernel(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  Shared& shared() const { return *shared_; }
  const std::shared_ptr<Shared>& handle() const { return shared_; }
  explicit Kernel(std::shared_ptr<const RehearsedKernel> rehearsed) : rehearsed_(std::move(rehearsed)) {}
  /// Null unless a launch in a rehearsal is to be told to the cache.
  const RehearsedKernel* rehearsed() const { return rehearsed_.get(); }

 private:
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<const RehearsedKernel> rehearsed_;
};

struct Kernel::Shared {
  std::shared_ptr<const Program> program;
  std::string name;
  int64_t max_work_group = 0;
  unsigned arguments = 0;
  std::mutex mutex;
  std::vector<cl::Kernel> idle;

  cl::Kernel borrow();
  void give_back(cl::Kernel kernel) noexcept;
};

struct Program {
  cl::Program program;
  std::string name;
  uint64_t bytes = 0;  ///< of its text and binary
};

/// What is kept of programs. Drivers take more than these bytes: PoCL 1.7 MB for a pointwise kernel whose
/// text and binary are 0.25 MB.
struct ProgramLimits {
  size_t count = 512;
  uint64_t bytes = uint64_t{256} << 20;  ///< of texts and binaries
};

class ProgramCache {
 public:
  /// `disk` outlives the cache. `processes`: see build_processes().
  ProgramCache(cl::Context context, const Device& device, const ProgramLimits& limits, BinaryCache& disk,
               Log log, std::optional<int> processes = {});

  /// The kernel `kernel` of the embedded file `file`.cl compiled with `defines`. Throws BuildError.
  Kernel kernel(const std::string& file, const std::string& kernel, const Defines& defines);
  /// The same of a generated source; `name` stands in messages and the log.
  Kernel generated(const std::string& name, const std::string& source, const std::string& kernel,
                   const Defines& defines = {});
  /// The same of a source that `make_source()` makes, if no kernel of this `form` is in memory. `form` is
  /// bytes that name all that the source and the kernel depend on.
  Kernel generated(const std::string& name, const std::string& form,
                   const std::function<std::string()>& make_source, const std::string& kernel);
  /// A kernel is launched in a rehearsal: has its program built in the background, and `launch`, a
  /// BuildRequest's, made.
  void prefetch(const RehearsedKernel& kernel, const std::string& launch);
  ProgramStats stats() const;
  /// True if more programs are in memory than the limits say, since plans hold those that went here.
  bool crowded() const;

 private:
  /// A program, or what the compiler said when there is none: each thread that waits throws an error of its
  /// own. Or neither, if the build was dropped: who waits builds it.
  struct Outcome {
    std::shared_ptr<const Program> program;
    std::string log;
    bool dropped = false;
  };
  using Built = std::shared_future<Outcome>;

  struct Job {
    BuildPool* pool;
    BuildPool::Ticket ticket;
  };
  struct Entry {
    Built built;                           ///< not valid once the program went; whoever holds it still does
    std::weak_ptr<const Program> program;  ///< null while it is being built
    std::optional<Job> job;                ///< that builds or loads it in the background
    std::map<std::string, Kernel> kernels;
    std::list<const std::string*>::iterator age;
  };
  using Entries = std::map<std::string, Entry>;
  /// A kernel by its form. While the kernel lives, so does its program's entry.
  struct Form {
    std::weak_ptr<Kernel::Shared> kernel;
    Entry* entry = nullptr;
  };
  /// A program to be: `promise` is there for the one who has to build it, `job` if one was to.
  struct Claim {
    Built built;
    std::shared_ptr<std::promise<Outcome>> promise;
    std::optional<Job> job;
  };

  Kernel kernel_of(const std::string& name, const std::string& source, const std::string& kernel,
                   const Defines& defines, const std::string& form);
  /// Empty if it is not in memory.
  Kernel find_form(const std::string& form);
  /// The empty kernel that a rehearsal gets.
  Kernel rehearsed(const ProgramText& text, const std::string& kernel);
  std::shared_ptr<const Program> program(const ProgramText& text);
  Claim claim(const std::string& key);
  /// Has what was claimed built in the background, unless who needs it before that has begun builds it.
  void submit(const std::shared_ptr<std::promise<Outcome>>& promise, const ProgramText& text,
              const std::string& launch);
  /// Takes a claim back: who asks later makes another.
  void disclaim(const std::string& key);
  /// Builds what was claimed. Whatever goes wrong is the promise's. `process`, if it is not null, is asked to
  /// compile it first.
  void fulfil(std::promise<Outcome>& promise, const ProgramText& text, const std::string& launch,
              BuildProcess* process);
  /// The entry of a program that is kept or held; null if there is none. Under the lock, as those below.
  Entry* find(const std::string& key);
  Entry& insert(const std::string& key, Built built);
  void erase(const std::string& key);
  /// Lets the least recently used go, down to the limits, and forgets those that nobody holds any more.
  void trim();
  ProgramStats held() const;
  std::shared_ptr<const Program> make(const ProgramText& text, const std::string& launch,
                                      BuildProcess* process);
  BuildRequest request_for(const ProgramText& text, const std::string& launch) const;
  std::string disk_key(const ProgramText& text) const;
  /// Whether binaries are kept on disk, by us.
  bool keeps() const { return disk_.keeps() && !driver_keeps_; }
  /// True if an earlier process has had the driver compile and keep the program.
  bool driver_has(const std::string& disk_key) const;

  cl::Context context_;
  Device device_;
  BinaryCache& disk_;
  Log log_;
  mutable std::mutex mutex_;
  ProgramLimits limits_;
  Entries programs_;
  std::unordered_map<std::string, Form> forms_;
  std::unordered_set<size_t> launches_;  ///< hashes of those that rehearsals have had made
  std::list<const std::string*> ages_;   ///< of those that are kept, newest first
  ProgramStats stats_;
  const bool driver_keeps_;  ///< programs on disk; of ours there are only empty marks of those
  const int processes_;      ///< that compile what is asked for in the background; 0: its threads do
  std::atomic<bool> warmed_{false};
  /// The last members: their jobs use the others until they end. What is on disk needs no process.
  BuildPool background_, loading_;
};

}  // namespace dlprim::detail
