// The insides of Context and Stream.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <dlprim/context.hpp>
#include <dlprim/stream.hpp>

#include "core/binary_cache.hpp"
#include "core/constants.hpp"
#include "core/device_probe.hpp"
#include "core/index_check.hpp"
#include "core/kept.hpp"
#include "core/log.hpp"
#include "core/memory.hpp"
#include "core/plan_cache.hpp"
#include "core/program_cache.hpp"
#include "core/tune/tuning.hpp"

namespace dlprim::detail {

struct ContextState {
  ContextState(const Device& device_, const cl::Context& context_, const ContextConfig& config)
      : device(device_),
        context(context_),
        log(config.log_level, config.log),
        own_disk(BinaryCache::configured(config)),
        disk(own_disk ? *own_disk : BinaryCache::user()),
        allocator(context_, config.memory_limit.value_or(device_.facts().global_memory),
                  device_.facts().max_allocation, {config.allocate, config.free}, log,
                  [this] { return give_back_one(); }),
        programs(context_, device_, {}, disk, log, config.build_processes),
        plans([this] { return programs.crowded(); }),
        tuning(device.facts(), UserDatabase::configured(config, disk.directory(), log), shipped_tuning()) {}

  /// Gives up something that is kept for later and can be made again: the least recently used recording of a
  /// model, then the least recently used constant that was prepared, at last all plans of calls, which hold
  /// programs. False if there is nothing.
  bool give_back_one();
  /// The same of everything, and the pool's unused buffers.
  void give_back_all();

  Device device;
  cl::Context context;
  Log log;
  std::unique_ptr<BinaryCache> own_disk;
  BinaryCache& disk;
  KeptPieces pieces;
  /// Shared with plans, which may end after the context.
  const std::shared_ptr<ConstantStore> constants = std::make_shared<ConstantStore>();
  Allocator allocator;
  ProgramCache programs;
  PlanCache plans;
  Tuning tuning;
  std::atomic<bool> checks_indices{index_checks_asked()};
};

/// Kernels launched by one operator's run, to be reported once the device is done with them.
struct OperatorRecord {
  std::string text;
  double flops = 0, bytes = 0;
  std::vector<std::pair<std::string, cl::Event>> kernels;
};

struct PlanInfo;

/// Host memory that a transfer still reads.
struct Staging {
  std::vector<char> bytes;
  cl::Event done;
};

struct StreamState {
  StreamState(const Context& context_, const cl::CommandQueue& queue_, bool logs_, bool measures_)
      : context(context_), queue(std::make_shared<QueueState>()), logs(logs_), measures(measures_) {
    queue->queue = queue_;
    queue->waits_for_flushed = driver_limits(context.device()).waits_for_flushed;
  }
  ~StreamState();

  Context context;
  std::shared_ptr<QueueState> queue;
  bool owns_queue = false;              ///< the library made it
  bool logs;                            ///< the log wants operators
  bool measures;                        ///< the queue measures device time
  bool profiled = false;                ///< a Profile wants operators
  std::vector<OperatorRecord> records;  ///< not reported yet; the last one may still be open
  int open_operators = 0;               ///< depth of operators that call operators
  std::vector<Staging> staging;
  IndexChecks index_checks;
  cl_int failure = CL_SUCCESS;  ///< of the first command that was seen to fail; finish() throws it

  /// Operators are put down with their kernels.
  bool notes() const { return logs || profiled; }
  /// Whether the command is done or has failed.
  bool ended(const cl::Event& command);
  /// Reports the operators whose kernels have ended; all of them if `everything`. A Profile's stay.
  void report(bool everything);
  /// Reports them all to the log, if there is one, and lets them go.
  void report_all();
  /// Frees the host memory of transfers that have ended.
  void release_staging();
};

/// Puts the kernels launched while it lives under one line of the log. Operators inside operators join the
/// outermost one.
class OperatorScope {
 public:
  /// `text` is "op=gemm engine=cpu m=64 ..."; it is only read when the log asks.
  OperatorScope(const Stream& stream, const std::string& text, double flops, double bytes);
  /// A plan's run: its text with its workspace.
  OperatorScope(const Stream& stream, const PlanInfo& info);
  ~OperatorScope();
  OperatorScope(const OperatorScope&) = delete;
  OperatorScope& operator=(const OperatorScope&) = delete;

 private:
  StreamState* state_ = nullptr;
};

}  // namespace dlprim::detail
