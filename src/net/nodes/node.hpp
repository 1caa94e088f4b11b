// What a kind of node is: how its outputs' dtypes and shapes follow from its inputs, and what it calls of the
// library. A kind has no state. The kinds of a family are a list in its file; nodes/list.cpp joins them.
//
// A value lies on the host, on the device, or on both: sizes and axes are computed where they are read. A
// kind asks for what it needs (`x`, `integers`), and NodeStep brings it there.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <dlprim/net_graph.hpp>
#include <dlprim/net_host.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/random_state.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

#include "core/check.hpp"
#include "core/plan_cache.hpp"

namespace dlprim::detail {

/// A value while a graph runs. At least one of `host` and `tensor` is there once its node has run.
struct Slot {
  DType dtype = DType::f32;
  Shape shape;
  std::shared_ptr<const HostTensor> host;
  Tensor tensor;
  bool constant = false;    ///< the same in each run of the model
  bool read_back = false;   ///< it follows from elements that were read from the device
  bool held = false;        ///< an input that stays where it is: recordings read it there
  bool of_shapes = false;   ///< on the host; it follows from constants and from shapes of inputs alone
  bool open_shape = false;  ///< its shape follows from elements that are none of these
  int feed = -1;            ///< it has the elements of this input of the model, in their order; -1: of none
};

class NodeStep;
struct RunScope;

struct NodeKind {
  const char* name;
  int fewest, most;  ///< inputs
  /// Says what the outputs are: step.output(). Null where that depends on elements: `run` says it then.
  void (*infer)(NodeStep& step);
  /// Computes the outputs on the device.
  void (*run)(NodeStep& step);
  /// Computes them on the host instead, from inputs that all lie there. Null, or false: it cannot.
  bool (*on_host)(NodeStep& step) = nullptr;
};

/// One node, in one run.
class NodeStep {
 public:
  /// Results of concatenations whose inputs are computed there, by value.
  using Places = std::map<int64_t, Tensor>;

  /// `inputs`: null where one is left out. `places`: of the graph's run.
  NodeStep(const NetGraph::Node& node_, const RunScope& scope_, std::vector<Slot*> inputs, Places& places);

  const NetGraph::Node& node;
  const RunScope& scope;  ///< for kinds that run bodies
  const Stream& stream;
  const Options& options;

  // Inputs.
  int input_count() const { return static_cast<int>(inputs_.size()); }
  /// The input is there.
  bool has(int k) const { return k < input_count() && inputs_[static_cast<size_t>(k)] != nullptr; }
  Slot& in(int k) const;
  DType dtype(int k) const { return in(k).dtype; }
  /// One of the inputs that are there is.
  bool any_floating() const;
  const Shape& shape(int k) const { return in(k).shape; }
  int rank(int k) const { return shape(k).size(); }
  /// On the device; an undefined one if the input is left out.
  const Tensor& x(int k);
  /// The same, row-major; and any tensor, itself if it is.
  Tensor dense(int k) { return dense(x(k)); }
  Tensor dense(const Tensor& tensor) const;
  /// The tensor's elements in their order in another shape: a view if there is one, otherwise a copy.
  Tensor reshaped(const Tensor& tensor, const Shape& shape) const;
  bool constant(int k) const { return in(k).constant; }
  /// On the host. Waits for the device if the input was computed there.
  const HostTensor& host(int k);
  /// Elements were asked for that inputs of the same shapes need not have.
  bool looked() const { return looked_; }
  /// The elements of an input of whole numbers, or of any.
  std::vector<int64_t> integers(int k);
  std::vector<double> numbers(int k);

  // Attributes; the standard value where the node has none of that name.
  bool has(const char* name) const { return node.attributes.count(name) != 0; }
  int64_t integer(const char* name, int64_t standard) const;
  double number(const char* name, double standard) const;
  bool flag(const char* name, bool standard = false) const { return integer(name, standard) != 0; }
  std::string text(const char* name, const std::string& standard = {}) const;
  std::vector<int64_t> integers(const char* name) const;
  std::vector<double> numbers(const char* name) const;
  std::vector<std::string> texts(const char* name) const;
  Dims dims(const char* name) const { return Dims(integers(name)); }
  /// The attribute `name`, one axis, from 0 on; of `rank` axes.
  int axis(const char* name, int64_t standard, int rank) const;

  // Outputs.
  int output_count() const { return static_cast<int>(outputs_.size()); }
  /// Whether anybody reads the output.
  bool wanted(int k) const;
  /// What output `k` is.
  void output(int k, DType dtype, const Shape& shape);
  /// Its tensor, new memory when it is first asked for, or the part of a concatenation's result that the pass
  /// "places" has put down.
  const Tensor& y(int k = 0);
  /// The same, with channels last in memory if they are so in `x`, or the node's attribute "channels_last"
  /// says so; of four axes.
  const Tensor& y_as(int k, const Tensor& x);
  /// The tensor in which parts of output `k` were computed, by others; an undefined one if none was.
  Tensor take_place(int k);
  /// Output `k` is this tensor, a view of an input perhaps.
  void set(int k, const Tensor& tensor);
  void set_host(int k, HostTensor tensor);
  void set(int k, Slot slot);
  Slot& out(int k) { return outputs_[static_cast<size_t>(k)]; }

  /// The node's plan for tensors like these, kept with the model. `make` gives a P.
  template <class P, class Make>
  P kept_plan(std::initializer_list<TensorDesc> of, Make make) const {
    const auto plan = find_plan(of);
    if (plan) return *std::static_pointer_cast<const P>(plan);
    auto made = std::make_shared<const P>(make());
    keep_plan(of, made, host_bytes(*made));
    return *made;
  }

  /// New memory.
  Tensor scratch(const Shape& shape, DType dtype) const { return Tensor(stream, shape, dtype); }
  /// Where `count` random numbers come from that are others in each run. Whole blocks of the generator, so
  /// that no two nodes have a word in common, as a uniform and a normal number could.
  RandomState random(int64_t count) const;
  /// start, start + 1, ...: i64, one axis, in new memory.
  Tensor counting(int64_t start, int64_t count) const;

 private:
  const Attribute* find(const char* name) const;
  /// Where output `k` has been put down to go; an undefined tensor if nowhere.
  Tensor place(int k, bool last) const;
  std::shared_ptr<const void> find_plan(std::initializer_list<TensorDesc> of) const;
  void keep_plan(std::initializer_list<TensorDesc> of, std::shared_ptr<const void> plan, size_t bytes) const;

  Places& places_;
  std::vector<Slot*> inputs_;
  std::vector<Slot> outputs_;
  bool looked_ = false;
};

/// Brings a value to the device, or to the host, where it stays, too.
const Tensor& to_device(const Stream& stream, Slot& slot);
const HostTensor& to_host(const Stream& stream, Slot& slot);

/// New memory for a shape of rank 4, with channels last.
Tensor channels_last(const Stream& stream, const Shape& shape, DType dtype);
/// The tensor, of rank 4, has its channels (axis 1) side by side in memory, then columns, rows and images;
/// there may be other channels between columns. And row-major memory would be another.
bool is_channels_last(const Tensor& x);

/// The attribute that says where in a concatenation's result output `k` goes: that value, the axis, where on
/// it, the result's shape.
std::string place_attribute(int k);

/// The node draws numbers, or runs graphs that may.
bool differs_each_time(const NetGraph::Node& node);

/// An axis that may count from the end, from 0 on. Throws ValidationError.
int normal_axis(int64_t axis, int rank);
/// Several, sorted; throws if one stands twice.
std::vector<int> normal_axes(const std::vector<int64_t>& axes, int rank);
/// One dtype that holds both: the wider floating one, else the narrowest integer. Throws ValidationError for
/// u64 and a signed integer: there is none.
DType joined(DType a, DType b);

/// The kind of that name; null if there is none.
const NodeKind* find_kind(const std::string& name);

}  // namespace dlprim::detail
