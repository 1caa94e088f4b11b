// RunKinds: what a model keeps of its kinds of runs in one context, and gives up again: when they are more or
// take more memory than the model may keep, and when the context is short of memory. It runs nothing.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <dlprim/net_model.hpp>
#include <dlprim/recording.hpp>

#include "core/kept.hpp"
#include "core/recorder.hpp"
#include "net/executor.hpp"

namespace dlprim::detail {

/// A kind of run, and what is known of it.
struct RunKind {
  std::string key;
  bool replayable = true;
  bool learned = false;            ///< facts and base are those of its runs
  bool recordable = true;          ///< nothing of `graph` reads back, as far as a rehearsal tells
  bool has_settings = false;       ///< the host decides by settings: their values have kinds of their own
  bool of_settings = false;        ///< it is such a kind: in its runs settings are constant
  int settings = 0;                ///< how many such kinds there were
  std::unique_ptr<NetGraph> base;  ///< the model's graph with its branches taken, if there are some
  std::vector<std::optional<ValueFacts>> facts;  ///< of the values of that, or of the model's graph
  std::unique_ptr<NetGraph> graph;               ///< that rewritten for this kind
  NodeMemory nodes;                              ///< of that graph; before, of what is the kind's alone
  Recording recording;
  uint64_t recorded_at = 0, drawn = 0;  ///< where its random numbers began, and how many there were
  std::vector<Tensor> inputs;           ///< where the recording reads
  std::vector<Tensor> outputs;          ///< where it writes
  std::shared_ptr<const Tensor> room;   ///< that inputs are parts of
  uint64_t used = 0;                    ///< when it last ran, by KeptPieces::now()
  int running = 0;                      ///< runs that are under way: it stays
};

/// Constants that passes made for several kinds, each kept once.
class SharedConstants {
 public:
  /// Puts what is kept already into the graph, in place of constants that are the same but for their address.
  /// Those of `known` graphs are the model's own.
  void share(NetGraph& graph, const NetGraph& known);

 private:
  std::unordered_multimap<size_t, std::weak_ptr<const HostTensor>> kept_;
  std::unordered_map<const HostTensor*, std::weak_ptr<const HostTensor>> addresses_;  ///< of the same
};

class RunKinds : public PieceKeeper {
 public:
  explicit RunKinds(const Context& context_) : context(context_) {}

  /// One thread at a time runs the model here; who is short of memory takes nothing from a model that runs on
  /// another thread.
  std::recursive_mutex mutex;
  const Context context;
  DeviceConstants constants;
  NodeMemory nodes;        ///< of the model's graph
  ReplayMemory memory;     ///< that recordings share
  SharedConstants shared;  ///< of rewritten graphs

  /// The kind of that key, made if there is none. It stays where it is until it is erased.
  RunKind& at(const std::string& key);
  RunKind* last() noexcept { return kinds_.empty() ? nullptr : &kinds_.front(); }
  void erase(RunKind& kind);
  /// Of a kind that was not used lately: it will be learned again.
  void forget(RunKind& kind);
  void forget_all();
  /// What may stay.
  void keep(const Model::Kept& kept);
  /// What was prepared of constants for runs that are not replayed.
  void drop_unheld_constants();
  /// Gives up those that may not stay beside `newest`.
  void trim(const RunKind& newest);

  uint64_t oldest() noexcept override;
  bool drop_oldest() noexcept override;

 private:
  RunKind* least_recent() noexcept;
  uint64_t bytes_beside(const RunKind& newest) const;
  void drop_unused_constants();

  Model::Kept kept_;
  std::list<RunKind> kinds_;  ///< the one used last in front
  std::unordered_map<std::string, std::list<RunKind>::iterator> places_;
};

/// While it lives, the kind stays, and another thread's shortage takes nothing from the model.
class RunningKind {
 public:
  explicit RunningKind(RunKind& kind) : kind_(kind) { kind_.running++; }
  ~RunningKind() { kind_.running--; }
  RunningKind(const RunningKind&) = delete;
  RunningKind& operator=(const RunningKind&) = delete;

 private:
  RunKind& kind_;
};

}  // namespace dlprim::detail
