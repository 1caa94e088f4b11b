// Indices that graphs take from outside: which inputs of nodes are indices, what they may be, and the check
// of those that are known on the host or come as they were fed. Kernels that read by other indices take what
// is out of range as their headers say.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/nodes/node.hpp"

namespace dlprim::detail {

/// What one input of a node may be.
struct IndexRule {
  struct Range {
    int64_t least, most;
  };
  int input;
  std::vector<Range> ranges;        ///< of each place along the last axis, or one for all
  bool takes_negative = false;      ///< any number below 0 is allowed, whatever the range is
  std::optional<int64_t> except{};  ///< a number that is allowed, too

  bool allows(int64_t value, size_t place) const {
    const Range& r = ranges[ranges.size() == 1 ? 0 : place % ranges.size()];
    return (value >= r.least && value <= r.most) || (takes_negative && value < 0) || value == except;
  }
};

/// Of a node whose shapes are known. Of "one_hot" there is none: it says what is out of range.
std::vector<IndexRule> index_rules(NodeStep& step);

/// What runs of a model found to be indices among their feeds, by the shapes of all feeds: with these known,
/// feeds are checked before anything is enqueued.
class KnownIndices {
 public:
  struct Need {
    int feed;
    IndexRule rule;
    std::string node;  ///< for messages
  };
  std::map<std::string, std::vector<Need>> by_shapes;
};

/// The feeds of one run, while it lasts.
class FedIndices {
 public:
  /// Checks what is known of feeds like these. Throws ValidationError.
  FedIndices(const Stream& stream, const NetGraph& graph, const std::vector<Slot>& feeds,
             KnownIndices& known);
  ~FedIndices();
  FedIndices(const FedIndices&) = delete;
  FedIndices& operator=(const FedIndices&) = delete;

  /// Of this thread's run; null if there is none.
  static FedIndices* current() noexcept;

  /// A node takes this feed as indices. Throws ValidationError; in a rehearsal the next Graph throws it
  /// again. `lasting`: outside of bodies the rule is that of all runs with feeds of these shapes.
  void check(int feed, const IndexRule& rule, const std::string& node, bool lasting);
  /// While the nodes of a graph, or of a body in it, run. Throws what check() found in a rehearsal, if this
  /// is none.
  class Graph {
   public:
    Graph();
    ~Graph();
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;

   private:
    FedIndices* const run_;
  };

 private:
  void require_allowed(int feed, const IndexRule& rule, const std::string& node);
  const std::vector<int64_t>* values(int feed);

  const Stream& stream_;
  const NetGraph& graph_;
  const std::vector<Slot>& feeds_;
  KnownIndices& known_;
  std::string key_;
  bool has_setting_ = false;
  std::map<int, std::vector<int64_t>> read_;
  std::optional<ValidationError> failure_;
  int depth_ = 0;  ///< graphs in one another
  FedIndices* const outer_;
};

/// Checks a node's indices that are on the host, or come as they were fed. Throws ValidationError.
void check_indices(NodeStep& step, const NetGraph& graph);
/// Whether the node's first output has its first input's elements in their order.
bool hands_on_indices(NodeStep& step);

}  // namespace dlprim::detail
