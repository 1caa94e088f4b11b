// How plans and calls take options and a workspace: as much of it as they say, whatever it holds, and no
// other; the same results with it as without.
#include "cases/planned.hpp"
#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

/// Inputs of small whole numbers, 0 and 1 where they are integers, so that they are indices, too.
Tensors inputs_of(const PlannedOperator& op) {
  Rng rng(7);
  Tensors tensors;
  for (const Operand& o : op.operands) {
    if (o.written) {
      tensors.emplace_back();
      continue;
    }
    std::vector<float> values = integers(element_count(o.shape), rng);
    if (!is_floating(o.dtype))
      for (float& v : values) v = v > 0;
    tensors.push_back(device_tensor(o.shape, values, o.dtype));
  }
  return tensors;
}

/// New outputs, poisoned and guarded.
std::vector<Guarded> add_outputs(const PlannedOperator& op, Tensors& tensors) {
  std::vector<Guarded> outputs;
  for (size_t i = 0; i < tensors.size(); i++) {
    if (!op.operands[i].written) continue;
    outputs.emplace_back(op.operands[i].shape, op.operands[i].dtype);
    tensors[i] = outputs.back().tensor();
  }
  return outputs;
}

using Bytes = std::vector<std::vector<unsigned char>>;

/// What `run` writes with the tensors that it is given.
template <class Run>
Bytes results_of(const PlannedOperator& op, Tensors tensors, const Run& run) {
  const std::vector<Guarded> outputs = add_outputs(op, tensors);
  run(tensors);
  Bytes results;
  for (const Guarded& output : outputs) {
    results.push_back(host_bytes(output.tensor()));
    CHECK(output.intact());
  }
  return results;
}

/// The options with no more workspace than `space` has.
Options within(Options options, const Tensor& space) {
  options.workspace_limit = static_cast<size_t>(space.bytes());
  return options;
}

/// Bytes that are NaN as every floating dtype, and -1 as every integer.
Guarded poisoned(int64_t bytes) {
  const Guarded workspace({bytes}, DType::u8);
  write(stream(), workspace.tensor(), std::vector<uint8_t>(static_cast<size_t>(bytes), 0xff));
  return workspace;
}

}  // namespace

TEST_CASE("plans and calls take as much workspace as they say, whatever it holds", "[workspaces][small]") {
  for (const PlannedOperator& op : planned_operators()) {
    if (!is_selected(op.name)) continue;
    INFO(again(op.name));
    const Options options = engine(op.engine);
    const Tensors inputs = inputs_of(op);
    int64_t bytes = 0;
    std::string request;
    const Bytes expected = results_of(op, inputs, [&](const Tensors& t) {
      const auto made = op.make(t, options);
      bytes = static_cast<int64_t>(made.plan->workspace_size());
      request = made.plan->request();
      CHECK((op.engine == "auto" || made.plan->engine() == op.engine));
      made.run(stream(), {});
    });
    const Guarded space = poisoned(bytes), again_space = poisoned(bytes);
    CHECK(results_of(op, inputs, [&](const Tensors& t) {
            op.make(t, options).run(stream(), space.tensor());
          }) == expected);
    CHECK(results_of(op, inputs, [&](const Tensors& t) {
            op.call(stream(), t, engine(request), again_space.tensor());
          }) == expected);
    CHECK((space.intact() && again_space.intact()));
    CHECK(results_of(op, inputs, [&](const Tensors& t) { op.call(stream(), t, options, {}); }) == expected);
  }
}

TEST_CASE("plans and calls refuse a workspace that is too small", "[workspaces][small]") {
  int refused = 0;
  for (const PlannedOperator& op : planned_operators()) {
    if (!is_selected(op.name)) continue;
    INFO(again(op.name));
    Tensors tensors = inputs_of(op);
    const std::vector<Guarded> outputs = add_outputs(op, tensors);
    const auto made = op.make(tensors, engine(op.engine));
    const auto bytes = static_cast<int64_t>(made.plan->workspace_size());
    if (bytes == 0) continue;
    const Tensor small(stream(), {bytes - 1}, DType::u8);
    const std::string by_plan = error_of<ValidationError>([&] { made.run(stream(), small); });
    CHECK(by_plan.find("workspace: ") == 0);
    // A call serves if its engine can do with less, and a plan within that limit says that it takes less.
    const Options limited = engine(made.plan->request());
    size_t least = made.plan->workspace_size();
    const std::string refusal = error_of<ValidationError>(
        [&] { least = op.make(tensors, within(limited, small)).plan->workspace_size(); });
    const std::string by_call =
        error_of<ValidationError>([&] { op.call(stream(), tensors, limited, small); });
    CAPTURE(by_call);
    CHECK(by_call == refusal);
    if (least >= made.plan->workspace_size()) {
      CHECK(by_call.find("workspace") != std::string::npos);
      refused++;
    }
  }
  CHECK(refused >= 15);
}

TEST_CASE("plans refuse a workspace in memory of their tensors, or of another context",
          "[workspaces][small]") {
  const Context other(context().device());
  for (const PlannedOperator& op : planned_operators()) {
    if (!is_selected(op.name)) continue;
    INFO(again(op.name));
    Tensors tensors = inputs_of(op);
    const std::vector<Guarded> outputs = add_outputs(op, tensors);
    const auto made = op.make(tensors, engine(op.engine));
    const auto bytes = static_cast<int64_t>(made.plan->workspace_size());
    for (const Tensor& t : tensors) {
      const std::string shared = error_of<ValidationError>([&] { made.run(stream(), t); });
      CAPTURE(shared);
      CHECK(shared.find("workspace") != std::string::npos);
    }
    const std::string foreign = error_of<ValidationError>(
        [&] { made.run(stream(), Tensor(other, {std::max<int64_t>(bytes, 1)}, DType::u8)); });
    CHECK(foreign == "workspace: belongs to another context");
  }
}
