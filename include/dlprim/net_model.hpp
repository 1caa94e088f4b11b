// Model: a network that runs. It is made of a NetGraph, or read by an importer (onnx.hpp).
//
//   const Model model = onnx::load("resnet50.onnx");
//   const Model::Tensors y = model.run(stream, {{"input", x}});
//   const std::vector<float> scores = read<float>(stream, y.at("output"));
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/net_graph.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/profile.hpp>
#include <dlprim/recording.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

namespace detail {
class ModelState;
struct FedDefaults;
}  // namespace detail

/// Tensors by the names of a graph's inputs or outputs.
class DLPRIM_API NamedTensors : public std::map<std::string, Tensor> {
 public:
  using map::map;
  /// The tensor of that name. Throws ValidationError that lists the names there are.
  Tensor& at(const std::string& name);
  const Tensor& at(const std::string& name) const;
};

/// Copies share the graph and what was put on devices. One thread at a time may use them.
class DLPRIM_API Model {
 public:
  using Tensors = NamedTensors;
  /// An input or an output.
  struct Port {
    std::string name;
    std::optional<DType> dtype;
    std::optional<std::vector<Dimension>> shape;
  };
  /// Told of each node's outputs, before they go: their names and tensors. Those that stay on the host, as
  /// sizes do, have none.
  using Watch = std::function<void(const NetGraph::Node& node, const Tensors& outputs)>;

  /// How a run goes once it is replayed.
  struct Plan {
    struct Step {
      NetGraph::Node node;
      std::vector<std::pair<std::string, TensorDesc>> outputs;  ///< by name, those on the device
      std::vector<std::string> kernels;                         ///< in the order of their launches
    };
    /// Nodes as passes left them, without those whose outputs are the same in each run.
    std::vector<Step> steps;
    /// False: shapes depend on elements, so each run goes node by node. Then no step tells of its kernels.
    bool replayed = false;
    uint64_t bytes = 0;  ///< of a replay's memory between inputs and outputs
    uint64_t live = 0;   ///< of the tensors in it that live at the same time, at most
  };

  /// What one run takes on the device, node by node.
  struct Trace {
    struct Step {
      NetGraph::Node node;
      std::vector<std::pair<std::string, TensorDesc>> outputs;  ///< by name, those on the device
      std::vector<OperatorTime> operators;                      ///< in the order of their launches
    };
    /// Nodes as in Plan, those of bodies in front of the node that has them.
    std::vector<Step> steps;
    bool replayed = false;  ///< see Plan
  };

  /// `without`: passes that do not rewrite the graph (see graph_passes). `precision`, f32, f16 or bf16: what
  /// products and convolutions of f32 compute in, and what follows them, in runs that can be recorded; inputs
  /// and outputs keep their dtypes, others stay f32. Throws ValidationError: see NetGraph::check(), a pass
  /// that does not exist, another dtype.
  explicit Model(NetGraph graph, std::vector<std::string> without = {}, DType precision = DType::f32);

  /// As passes left it that need nothing of a run.
  const NetGraph& graph() const noexcept;
  /// In the order of the graph, without constants.
  std::vector<Port> inputs() const;
  std::vector<Port> outputs() const;
  /// Constants that a run may be fed, too: see NetGraph::defaults.
  std::vector<Port> defaults() const;

  /// Runs the graph. Feeds of defaults() hold for this run; runs that feed the same ones share what was put
  /// on devices with each other, and nothing with those that do not. The first run with inputs of these
  /// shapes and dtypes runs it node by node; then it is rewritten in fewer kernels, whose results may differ
  /// in the last bits, and its launches are recorded: later runs replay them. Constants go to the stream's
  /// context when they are first needed there, and stay. The host waits for the device only where a shape
  /// depends on a tensor's elements, or a branch on a setting (an input of one whole number or truth value,
  /// whose values have recordings of their own). Throws ValidationError that names the node (feeds that are
  /// missing, unknown or do not fit; shapes that do not fit together), and what operators throw.
  Tensors run(const Stream& stream, const Tensors& feeds, const Options& options = {},
              const Watch& watch = {}) const;

  /// How much is kept of kinds of runs (shapes and options of inputs) for the next run of such a kind. What
  /// is given up is made again, from the second run on, as for a new kind. All goes when the context is short
  /// of memory, the least recently used first, and with Context::empty_cache().
  struct Kept {
    size_t recordings = 256;  ///< the last one always stays
    /// What recordings may take beside the last one: on the device, where they share the memory of a run, and
    /// about 4 KB of the host's for each launch.
    uint64_t bytes = uint64_t{512} << 20;
  };
  /// For each context of its own. Copies of the model share it.
  void keep(const Kept& kept) const;

  /// A run on tensors that stay: an array of launches, without a copy, an allocation or a look-up.
  class DLPRIM_API Bound {
   public:
    /// What a run reads, by name: write into them, or let operators do so. Settings (see run()) are not among
    /// them: they keep the values that they were bound with.
    const Tensors& inputs() const noexcept { return inputs_; }
    /// What it writes. The next run overwrites them.
    const Tensors& outputs() const noexcept { return outputs_; }
    /// Enqueues the launches on the stream that it was bound to. Random numbers are others each time. Throws
    /// DeviceError, OutOfMemory.
    void run() {
      recording_.replay(next_);
      next_ += drawn_;
    }
    int64_t launches() const noexcept { return recording_.launches(); }

   private:
    friend class Model;
    Bound(Recording recording, uint64_t next, uint64_t drawn, Tensors inputs, Tensors outputs);
    Recording recording_;
    uint64_t next_, drawn_;  ///< where the next run's random numbers begin, and how many each has
    Tensors inputs_, outputs_;
  };

  /// Runs the graph as run() does until it is recorded, and gives that recording away, with the tensors that
  /// it reads, which hold what was fed, and writes. None where runs cannot be replayed: see Plan, and while
  /// the stream logs. Throws what run() does.
  std::optional<Bound> bind(const Stream& stream, const Tensors& feeds, const Options& options = {}) const;

  /// Runs the graph as run() does, until it is recorded, and tells what a replay does. Throws what run()
  /// does.
  Plan explain(const Stream& stream, const Tensors& feeds, const Options& options = {}) const;

  /// Runs the graph as explain() does, and once more with device times measured: as a replay, without the
  /// copies of inputs and outputs, or node by node where nothing is replayed. Throws what run() does, and
  /// ValidationError if the stream's queue measures no time: see profiling_stream().
  Trace trace(const Stream& stream, const Tensors& feeds, const Options& options = {}) const;

 private:
  detail::ModelState& state_for(const Tensors& feeds) const;
  std::shared_ptr<detail::ModelState> state_;
  std::shared_ptr<detail::FedDefaults> fed_;  ///< null: the graph has no defaults
};

/// The names of the passes that rewrite a model's graph, in their order: docs/nodes.md says what each does.
DLPRIM_API std::vector<std::string> graph_passes();

}  // namespace dlprim
