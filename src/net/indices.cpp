#include "net/indices.hpp"

#include <algorithm>
#include <set>

#include <dlprim/recording.hpp>
#include <dlprim/rehearsal.hpp>

#include "core/memory.hpp"
#include "core/rehearsed.hpp"

namespace dlprim::detail {
namespace {

using Range = IndexRule::Range;

/// Indices of an axis, which may count from its end.
Range along(int64_t size) {
  return {-size, size - 1};
}

/// The last axis of input 1 has an index for each of x's axes from `first` on.
IndexRule tuples(const NodeStep& step, int first) {
  IndexRule rule{1, {}};
  const Shape& indices = step.shape(1);
  const int64_t count = indices.size() == 0 ? 0 : indices.back();
  for (int i = first; i < std::min<int64_t>(first + count, step.rank(0)); i++)
    rule.ranges.push_back(along(step.shape(0)[i]));
  return rule;
}

int64_t past_and_own(const NodeStep& step) {
  return (step.has(4) ? step.shape(4)[2] : 0) + step.shape(1)[step.rank(1) == 3 ? 1 : 2];
}

IndexRule cache_rule(const NodeStep& step) {
  const int axis = step.axis("axis", -2, step.rank(0));
  const int64_t most = step.flag("circular") ? INT64_MAX : step.shape(0)[axis] - step.shape(1)[axis];
  return {2, {{0, most}}};
}

IndexRule class_rule(const NodeStep& step) {
  const int64_t classes = step.shape(0)[step.rank(0) > 1 ? 1 : 0];
  IndexRule rule{1, {{0, classes - 1}}};
  rule.takes_negative = !step.has("ignore_index");
  if (!rule.takes_negative) rule.except = step.integer("ignore_index", 0);
  return rule;
}

/// Places in y, which `infer` has said.
IndexRule unpool_rule(NodeStep& step) {
  return {1, {{0, element_count(step.out(0).shape) - 1}}};
}

const std::map<std::string, IndexRule (*)(NodeStep&)>& rules() {
  static const auto* list = new std::map<std::string, IndexRule (*)(NodeStep&)>{
      {"attention",
       [](NodeStep& s) {
         return IndexRule{6, {{0, past_and_own(s)}}};
       }},
      {"class_loss", [](NodeStep& s) { return class_rule(s); }},
      {"gather",
       [](NodeStep& s) {
         return IndexRule{1, {along(s.shape(0)[s.axis("axis", 0, s.rank(0))])}};
       }},
      {"gather_elements",
       [](NodeStep& s) {
         return IndexRule{1, {along(s.shape(0)[s.axis("axis", 0, s.rank(0))])}};
       }},
      {"gather_nd", [](NodeStep& s) { return tuples(s, static_cast<int>(s.integer("batch", 0))); }},
      {"max_unpool", [](NodeStep& s) { return unpool_rule(s); }},
      {"recurrent",
       [](NodeStep& s) {
         return IndexRule{4, {{0, s.shape(0)[s.flag("batch_first") ? 1 : 0]}}};
       }},
      {"reverse_sequence",
       [](NodeStep& s) {
         return IndexRule{1, {{0, s.shape(0)[s.axis("time_axis", 0, s.rank(0))]}}};
       }},
      {"roi_align",
       [](NodeStep& s) {
         return IndexRule{2, {{0, s.shape(0)[0] - 1}}};
       }},
      {"rotary",
       [](NodeStep& s) {
         return IndexRule{3, {along(s.shape(1)[0])}};
       }},
      {"scatter_elements",
       [](NodeStep& s) {
         return IndexRule{1, {along(s.shape(0)[s.axis("axis", 0, s.rank(0))])}};
       }},
      {"scatter_nd", [](NodeStep& s) { return tuples(s, 0); }},
      {"write_at", [](NodeStep& s) { return cache_rule(s); }},
  };
  return *list;
}

std::string allowed(const IndexRule& rule, size_t place) {
  const Range& r = rule.ranges[rule.ranges.size() == 1 ? 0 : place % rule.ranges.size()];
  return r.most < r.least      ? std::string("nothing")
         : r.most == INT64_MAX ? cat(r.least, " or more")
                               : cat(r.least, " to ", r.most);
}

/// The first element that is not allowed; as many as there are if all are.
size_t first_outside(const IndexRule& rule, const std::vector<int64_t>& values) {
  size_t i = 0;
  while (i < values.size() && rule.allows(values[i], i)) i++;
  return i;
}

thread_local FedIndices* current_run = nullptr;

}  // namespace

std::vector<IndexRule> index_rules(NodeStep& step) {
  const auto found = rules().find(step.node.kind);
  if (found == rules().end()) return {};
  static constexpr int kInputs[] = {1, 2, 3, 4, 6};
  if (std::none_of(std::begin(kInputs), std::end(kInputs), [&](int k) { return step.has(k); })) return {};
  IndexRule rule = found->second(step);
  if (!step.has(rule.input) || rule.ranges.empty() || is_floating(step.dtype(rule.input))) return {};
  return {std::move(rule)};
}

FedIndices::FedIndices(const Stream& stream, const NetGraph& graph, const std::vector<Slot>& feeds,
                       KnownIndices& known)
    : stream_(stream), graph_(graph), feeds_(feeds), known_(known), outer_(current_run) {
  for (const Slot& feed : feeds) {
    key_ += cat(name_of(feed.dtype), feed.shape);
    has_setting_ = has_setting_ || (!is_floating(feed.dtype) && element_count(feed.shape) == 1);
  }
  if (Recording::active() || Rehearsal::active()) return;  // the caller's, in which nothing is read
  if (const auto needs = known.by_shapes.find(key_); needs != known.by_shapes.end())
    for (const KnownIndices::Need& need : needs->second) require_allowed(need.feed, need.rule, need.node);
  current_run = this;
}

FedIndices::~FedIndices() {
  if (current_run == this) current_run = outer_;
}

FedIndices* FedIndices::current() noexcept {
  return current_run;
}

const std::vector<int64_t>* FedIndices::values(int feed) {
  const auto kept = read_.find(feed);
  if (kept != read_.end()) return &kept->second;
  if (Recording::active()) return nullptr;  // runs are recorded after one that was checked
  std::optional<RehearsalPause> pause;
  if (Rehearsal::active()) pause.emplace();
  return &(read_[feed] = integers_of(to_host(stream_, feeds_[static_cast<size_t>(feed)].tensor)));
}

void FedIndices::require_allowed(int feed, const IndexRule& rule, const std::string& node) {
  const std::vector<int64_t>* const given = values(feed);
  if (!given) return;
  const size_t at = first_outside(rule, *given);
  if (at == given->size()) return;
  const std::string& name = graph_.values[static_cast<size_t>(graph_.inputs[static_cast<size_t>(feed)])].name;
  throw ValidationError("feeds", cat("'", name, "': element ", at, " is ", (*given)[at], ", ", node,
                                     " takes ", allowed(rule, at)));
}

void FedIndices::check(int feed, const IndexRule& rule, const std::string& node, bool lasting) {
  constexpr size_t kMostShapes = 1024;
  if (lasting && depth_ == 1 && !has_setting_) {
    if (known_.by_shapes.size() >= kMostShapes) known_.by_shapes.clear();
    std::vector<KnownIndices::Need>& needs = known_.by_shapes[key_];
    const bool is_new = std::none_of(needs.begin(), needs.end(), [&](const KnownIndices::Need& need) {
      return need.feed == feed && need.node == node;
    });
    if (is_new) needs.push_back({feed, rule, node});
  }
  try {
    require_allowed(feed, rule, node);
  } catch (const ValidationError& error) {
    failure_ = error;
    throw;
  }
}

FedIndices::Graph::Graph() : run_(current_run) {
  if (!run_) return;
  if (run_->failure_ && !Rehearsal::active()) throw ValidationError(*run_->failure_);
  run_->depth_++;
}
FedIndices::Graph::~Graph() {
  if (run_) run_->depth_--;
}

void check_indices(NodeStep& step, const NetGraph& graph) {
  for (const IndexRule& rule : index_rules(step)) {
    const Slot& slot = step.in(rule.input);
    const std::string node = cat("node '", step.node.name, "' (", step.node.kind, ")");
    if (slot.host) {
      const std::vector<int64_t> values = integers_of(*slot.host);
      const size_t at = first_outside(rule, values);
      const int value = step.node.inputs[static_cast<size_t>(rule.input)];
      const std::string& name = graph.values[static_cast<size_t>(value)].name;
      require(at == values.size(), "inputs", "input ", rule.input, name.empty() ? "" : ", '" + name + "',",
              ": element ", at, " is ", at == values.size() ? 0 : values[at], ", must be ",
              at == values.size() ? "" : allowed(rule, at));
    } else if (FedIndices* const fed = FedIndices::current(); fed && slot.feed >= 0) {
      bool lasting = true;
      for (int k = 0; k < step.input_count(); k++)
        lasting = lasting && (!step.has(k) || (!step.in(k).open_shape && !step.in(k).read_back));
      fed->check(slot.feed, rule, node, lasting);
    }
  }
}

bool hands_on_indices(NodeStep& step) {
  static const auto* kinds =
      new std::set<std::string>{"cast", "flatten", "identity", "reshape", "squeeze", "unsqueeze"};
  if (step.output_count() == 0 || !step.has(0)) return false;
  const DType dtype = step.out(0).dtype;
  return (dtype == DType::i64 || dtype == DType::i32) && kinds->count(step.node.kind) != 0;
}

}  // namespace dlprim::detail
