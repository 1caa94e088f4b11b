// How plans and calls take options and a workspace: as much of it as they say, whatever it holds, and no
// other; the same results with it as without.
#include <algorithm>

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

/// Operands that the operator itself does not take: they make the others.
bool is_helper(const Operand& o) {
  const std::string name = o.name;
  return name == "unused" || name.rfind("old", 0) == 0;
}

/// Bytes that are NaN as every floating dtype, and -1 as every integer.
Guarded poisoned(int64_t bytes) {
  const Guarded workspace({bytes}, DType::u8);
  write(stream(), workspace.tensor(), std::vector<uint8_t>(static_cast<size_t>(bytes), 0xff));
  return workspace;
}

/// Something was written into what poisoned() made.
bool is_used(const Guarded& workspace) {
  const std::vector<unsigned char> bytes = host_bytes(workspace.tensor());
  return std::any_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte != 0xff; });
}

}  // namespace

TEST_CASE("plans and calls take as much workspace as they say, whatever it holds", "[workspaces]") {
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
    CHECK((bytes == 0 || (is_used(space) && is_used(again_space))));
    CHECK(results_of(op, inputs, [&](const Tensors& t) { op.call(stream(), t, options, {}); }) == expected);
  }
}

TEST_CASE("plans and calls refuse a workspace that is too small", "[workspaces]") {
  int with_workspace = 0;
  for (const PlannedOperator& op : planned_operators()) {
    if (!is_selected(op.name)) continue;
    INFO(again(op.name));
    Tensors tensors = inputs_of(op);
    const std::vector<Guarded> outputs = add_outputs(op, tensors);
    const auto made = op.make(tensors, engine(op.engine));
    const auto bytes = static_cast<int64_t>(made.plan->workspace_size());
    if (bytes == 0) continue;
    with_workspace++;
    const Tensor small(stream(), {bytes - 1}, DType::u8);
    const std::string by_plan = error_of<ValidationError>([&] { made.run(stream(), small); });
    CHECK(by_plan.find("workspace: ") == 0);
    // A call does with less, or refuses; reductions make fewer parts.
    const Tensors inputs = inputs_of(op);
    Bytes served;
    const std::string by_call = error_of<ValidationError>([&] {
      served = results_of(
          op, inputs, [&](const Tensors& t) { op.call(stream(), t, engine(made.plan->request()), small); });
    });
    CAPTURE(by_call);
    Options limited = engine(made.plan->request());
    limited.workspace_limit = static_cast<size_t>(bytes - 1);
    if (served.empty())
      CHECK(by_call.find("workspace") != std::string::npos);
    else
      CHECK(served ==
            results_of(op, inputs, [&](const Tensors& t) { op.make(t, limited).run(stream(), {}); }));
  }
  CHECK(with_workspace >= 15);
}

TEST_CASE("plans refuse a workspace in memory of their tensors, or of another context", "[workspaces]") {
  const Context other(context().device());
  for (const PlannedOperator& op : planned_operators()) {
    if (!is_selected(op.name)) continue;
    INFO(again(op.name));
    Tensors tensors = inputs_of(op);
    const std::vector<Guarded> outputs = add_outputs(op, tensors);
    const auto made = op.make(tensors, engine(op.engine));
    const auto bytes = static_cast<int64_t>(made.plan->workspace_size());
    for (size_t i = 0; i < tensors.size(); i++) {
      if (is_helper(op.operands[i])) continue;
      const std::string shared = error_of<ValidationError>([&] { made.run(stream(), tensors[i]); });
      CAPTURE(shared);
      CHECK(shared.find("workspace") != std::string::npos);
    }
    const std::string foreign = error_of<ValidationError>(
        [&] { made.run(stream(), Tensor(other, {std::max<int64_t>(bytes, 1)}, DType::u8)); });
    CHECK(foreign == "workspace: belongs to another context");
  }
}
