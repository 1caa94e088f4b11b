// Indices that models are fed or hold: those out of range are refused by node, tensor and value before
// anything is enqueued, in first runs and replays.
#include <dlprim/profile.hpp>

#include "cases/onnx_node.hpp"

using namespace dlprim;
using namespace dlprim::test;
using onnx_writer::attribute;
using onnx_writer::Message;

namespace {

HostTensor ramp(const Shape& shape) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < element_count(shape); i++) numbers.push_back(static_cast<double>(i));
  return reals(shape, numbers);
}

/// A node, which of its inputs is an index, right ones and wrong ones, and what the error says of the first
/// wrong element.
struct Indexed {
  OnnxNode node;
  size_t index;
  std::vector<int64_t> right, wrong;
  std::string complaint;  ///< element, value and range
};

std::vector<Indexed> indexed() {
  const auto index = [](const Shape& shape, DType dtype = DType::i64) {
    return wholes(shape, std::vector<int64_t>(static_cast<size_t>(element_count(shape)), 0), dtype);
  };
  std::vector<Indexed> list;
  list.push_back({{"Gather", {ramp({5, 2}), index({3})}}, 1, {4, -5, 0}, {4, 5, 0}, "element 1 is 5"});
  list.push_back({{"Gather", {ramp({5, 2}), index({3}, DType::i32)}, {DType::f32}, {attribute("axis", 1)}},
                  1,
                  {1, -2, 0},
                  {0, 0, -3},
                  "element 2 is -3"});
  list.push_back(
      {{"GatherElements", {ramp({3, 2}), index({2, 2})}}, 1, {2, -3, 0, 1}, {0, 3, 0, 0}, "element 1 is 3"});
  list.push_back(
      {{"GatherND", {ramp({3, 4}), index({2, 2})}}, 1, {2, 3, -3, -4}, {2, 3, 3, 2}, "element 2 is 3"});
  list.push_back({{"GatherND", {ramp({2, 3, 4}), index({2, 2})}, {DType::f32}, {attribute("batch_dims", 1)}},
                  1,
                  {2, 3, -3, -4},
                  {2, 3, 0, 4},
                  "element 3 is 4"});
  list.push_back({{"ScatterElements", {ramp({3, 2}), index({1, 2}), ramp({1, 2})}},
                  1,
                  {2, -3},
                  {0, -4},
                  "element 1 is -4"});
  list.push_back(
      {{"ScatterND", {ramp({3, 2}), index({2, 1}), ramp({2, 2})}}, 1, {2, 0}, {0, 7}, "element 1 is 7"});
  list.push_back({{"ReverseSequence", {ramp({4, 2}), index({2})}}, 1, {4, 1}, {1, 5}, "element 1 is 5"});
  list.push_back(
      {{"TensorScatter", {ramp({2, 1, 4, 1}), ramp({2, 1, 2, 1}), index({2})}, {DType::f32}, {}, 24},
       2,
       {2, 0},
       {1, 3},
       "element 1 is 3"});
  list.push_back(
      {{"SoftmaxCrossEntropyLoss", {ramp({3, 4}), index({3})}, {DType::f32}, {attribute("ignore_index", -7)}},
       1,
       {3, 0, -7},
       {0, 1, 4},
       "element 2 is 4"});
  list.push_back({{"RoiAlign", {ramp({2, 1, 4, 4}), ramp({2, 4}), index({2})}, {DType::f32}},
                  2,
                  {1, 0},
                  {0, 2},
                  "element 1 is 2"});
  for (const char* op : {"RNN", "GRU", "LSTM"}) {
    const int64_t gates = op == std::string("LSTM") ? 4 : op == std::string("GRU") ? 3 : 1;
    Indexed layer{
        {op,
         {ramp({3, 2, 1}), ramp({1, gates, 1}), ramp({1, gates, 1}), ramp({0}), index({2}, DType::i32)},
         {DType::f32},
         {attribute("hidden_size", 1)}},
        4,
        {3, 0},
        {1, -1},
        "element 1 is -1"};
    layer.node.absent = {false, false, false, true, false};
    list.push_back(layer);
    layer.wrong = {99, 1}, layer.complaint = "element 0 is 99";
    list.push_back(layer);
  }
  Indexed attention{{"Attention",
                     {ramp({2, 1, 1, 1}), ramp({2, 1, 3, 1}), ramp({2, 1, 3, 1}), ramp({0}), ramp({0}),
                      ramp({0}), index({2})},
                     {DType::f32},
                     {},
                     24},
                    6,
                    {3, 0},
                    {4, 0},
                    "element 0 is 4"};
  attention.node.absent = {false, false, false, true, true, true, false};
  list.push_back(attention);
  return list;
}

std::string refusal(const Model& model, const Model::Tensors& feeds) {
  return error_of<ValidationError>([&] { model.run(stream(), feeds); });
}

}  // namespace

TEST_CASE("indices out of range are refused, fed or held", "[small]") {
  for (const Indexed& c : indexed()) {
    INFO(c.node.op << ' ' << c.complaint);
    OnnxNode node = c.node;
    const auto set = [&](const std::vector<int64_t>& values) {
      HostTensor& t = node.inputs[c.index];
      t = wholes(t.shape, values, t.dtype);
    };
    const std::string name = "'i" + std::to_string(c.index) + "'";
    // Fed: wrong at once; right; wrong in the run that would be recorded, and in place of a replay.
    const Model made(onnx::parse_graph(node.bytes()));
    std::vector<HostTensor> first;
    for (int run = 0; run < 4; run++) {
      set(c.wrong);
      CHECK_THAT(refusal(made, node.feeds()),
                 Catch::Contains(name) && Catch::Contains(c.complaint) && Catch::Contains("node 'o0'"));
      set(c.right);
      const HostTensor y = to_host(stream(), made.run(stream(), node.feeds()).at("o0"));
      first.push_back(y);
      CHECK(y.data == first[0].data);
    }
    // Held by the model.
    node.constant.assign(c.index + 1, false);
    node.constant[c.index] = true;
    set(c.wrong);
    const Model held(onnx::parse_graph(node.bytes()));
    for (int run = 0; run < 2; run++)
      CHECK_THAT(refusal(held, node.feeds()), Catch::Contains(name) && Catch::Contains(c.complaint));
    set(c.right);
    const Model right(onnx::parse_graph(node.bytes()));
    CHECK(to_host(stream(), right.run(stream(), node.feeds()).at("o0")).data == first[0].data);
  }
}

TEST_CASE("a refused feed enqueues nothing and changes nothing", "[small]") {
  using namespace onnx_writer;
  Graph g;  // a product in front of the embedding, whose ids go through a cast and a reshape
  g.inputs = {value("x", ElementType::f32, {2, 2}), value("ids", ElementType::i32, {4})};
  g.outputs = {value("y", ElementType::f32, {2, 2, 3}), value("z", ElementType::f32, {2, 2})};
  g.initializers = {tensor("table", ElementType::f32, {5, 3}, raw_bytes(std::vector<float>(15, 1))),
                    tensor("shape", ElementType::i64, {2}, raw_bytes<int64_t>({2, 2}))};
  g.nodes = {node("MatMul", {"x", "x"}, {"z"}), node("Cast", {"ids"}, {"wide"}, {attribute("to", 7)}),
             node("Reshape", {"wide", "shape"}, {"rows"}), node("Gather", {"table", "rows"}, {"y"})};
  const Model made(onnx::parse_graph(model(graph(g)).bytes()));
  const auto fed = [&](const std::vector<int64_t>& ids) {
    return Model::Tensors{{"x", device_tensor({2, 2}, {1, 2, 3, 4})},
                          {"ids", to_device(stream(), wholes({4}, ids, DType::i32))}};
  };
  const Stream measured = profiling_stream(context());
  for (int run = 0; run < 3; run++) {
    const Model::Tensors wrong = fed({0, 1, 2, 77});
    const std::string text = refusal(made, wrong);
    CHECK_THAT(text, Catch::Contains("'ids': element 3 is 77") && Catch::Contains("-5 to 4"));
    const Model::Tensors y = made.run(stream(), fed({0, 1, 2, -5}));
    // With shapes that were seen before, node by node too.
    Profile profile(measured);
    CHECK(error_of<ValidationError>([&] { made.run(measured, wrong); }) == text);
    CHECK(profile.take().empty());
    CHECK(host_values(y.at("z")) == std::vector<float>{7, 10, 15, 22});
    CHECK(host_values(y.at("y")) == std::vector<float>(12, 1));
  }
  CHECK_THAT(error_of<ValidationError>([&] {
               made.bind(stream(), fed({5, 0, 0, 0}));
             }),
             Catch::Contains("element 0 is 5"));
}

TEST_CASE("OneHot says itself what is out of range", "[small]") {
  OnnxNode node{"OneHot", {wholes({3}, {1, 9, -1}), wholes({1}, {2}), reals({2}, {0, 1})}, {DType::f32}};
  node.constant = {false, true, true};
  CHECK(node.numbers() == std::vector<double>{0, 1, 0, 0, 0, 1});
}
