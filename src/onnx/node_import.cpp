// NodeImport: a node's inputs and attributes, read and counted.
#include "core/check.hpp"
#include "onnx/importer.hpp"

namespace dlprim::onnx {

using detail::cat;
using detail::require;

NodeImport::NodeImport(GraphImport& graph, const NodeMessage& message_, int64_t opset_)
    : message(message_),
      opset(opset_),
      graph_(graph),
      read_inputs_(message_.inputs.size()),
      made_(message_.outputs.size()) {}

std::string NodeImport::place() const {
  const std::string domain = message.domain.empty() ? "" : message.domain + ".";
  return cat("node '", message.name, "' (", domain, message.op_type, ", opset ", opset, ")");
}

void NodeImport::refuse(const std::string& why) const {
  std::string inputs;
  for (const std::string& input : message.inputs) inputs += (inputs.empty() ? "'" : ", '") + input + "'";
  throw ValidationError("path", cat(place(), " with inputs ", inputs.empty() ? "none" : inputs, " ", why));
}

bool NodeImport::has(int k) const {
  if (k >= input_count() || message.inputs[static_cast<size_t>(k)].empty()) return false;
  const auto& values = graph_.names().values;
  const auto known = values.find(message.inputs[static_cast<size_t>(k)]);
  return known == values.end() || known->second != NetGraph::kNone;  // left out where a function is called
}

NodeImport::Typed NodeImport::typed_in(int k) {
  if (k < input_count()) read_inputs_[static_cast<size_t>(k)] = true;
  if (!has(k)) return {NetGraph::kNone, nullptr};
  const int value = graph_.value(message.inputs[static_cast<size_t>(k)]);
  if (graph_.sequence(value)) refuse(cat("does not take its input ", k, ", a sequence"));
  return {value, graph_.narrow(value)};
}

int NodeImport::in(int k) {
  const auto [value, type] = typed_in(k);
  if (!type) return value;
  if (!message.domain.empty() || !only_moves(message.op_type))
    refuse(cat("does not take its input ", k, " as ", onnx::name_of(type->type),
               ": casts, quantisation and what moves numbers do"));
  moved_ = type;
  return value;
}

const std::vector<int>& NodeImport::sequence_in(int k) {
  if (k < input_count()) read_inputs_[static_cast<size_t>(k)] = true;
  const std::vector<int>* const members =
      has(k) ? graph_.sequence(graph_.value(message.inputs[static_cast<size_t>(k)])) : nullptr;
  if (!members) refuse(cat("has an input ", k, " that is no sequence made in this graph"));
  return *members;
}

std::vector<int> NodeImport::all_inputs() {
  std::vector<int> inputs;
  for (int k = 0; k < input_count(); k++) inputs.push_back(in(k));
  return inputs;
}

const HostTensor* NodeImport::constant_in(int k) {
  if (!has(k)) return nullptr;
  const auto& constants = graph_.graph().constants;
  const auto found = constants.find(in(k));
  return found == constants.end() ? nullptr : found->second.get();
}

const std::vector<DimensionMessage>* NodeImport::declared_shape(int k) const {
  const auto& types = graph_.names().types;
  const auto found = has(k) ? types.find(message.inputs[static_cast<size_t>(k)]) : types.end();
  const bool known = found != types.end() && found->second->has_shape;
  return known ? &found->second->shape : nullptr;
}

const AttributeMessage* NodeImport::find(const char* name) {
  for (const AttributeMessage& attribute : message.attributes) {
    if (attribute.name != name) continue;
    read_attributes_.insert(name);
    if (attribute.reference.empty()) return &attribute;
    const auto& given = graph_.names().attributes;
    const auto found = given.find(attribute.reference);
    return found == given.end() ? nullptr : found->second;  // not given to the function: not there
  }
  return nullptr;
}

namespace {

void require_type(const AttributeMessage& attribute, AttributeMessage::Type type, const char* name) {
  require(attribute.type == type, "path", "attribute '", attribute.name, "' must be ", name);
}

}  // namespace

bool NodeImport::has(const char* name) {
  return find(name) != nullptr;
}

int64_t NodeImport::integer(const char* name, int64_t standard) {
  const AttributeMessage* attribute = find(name);
  if (!attribute) return standard;
  require_type(*attribute, AttributeMessage::Type::integer, "an integer");
  return attribute->integer;
}

double NodeImport::number(const char* name, double standard) {
  const AttributeMessage* attribute = find(name);
  if (!attribute) return standard;
  require_type(*attribute, AttributeMessage::Type::number, "a number");
  return attribute->number;
}

std::string NodeImport::text(const char* name, const std::string& standard) {
  const AttributeMessage* attribute = find(name);
  if (!attribute) return standard;
  require_type(*attribute, AttributeMessage::Type::string, "text");
  return attribute->string;
}

std::vector<int64_t> NodeImport::integers(const char* name) {
  const AttributeMessage* attribute = find(name);
  if (!attribute) return {};
  require_type(*attribute, AttributeMessage::Type::integers, "a list of integers");
  return attribute->integers;
}

std::vector<double> NodeImport::numbers(const char* name) {
  const AttributeMessage* attribute = find(name);
  if (!attribute) return {};
  require_type(*attribute, AttributeMessage::Type::numbers, "a list of numbers");
  return {attribute->numbers.begin(), attribute->numbers.end()};
}

std::vector<std::string> NodeImport::texts(const char* name) {
  const AttributeMessage* attribute = find(name);
  if (!attribute) return {};
  require_type(*attribute, AttributeMessage::Type::strings, "a list of texts");
  return attribute->strings;
}

const TensorMessage* NodeImport::tensor(const char* name) {
  const AttributeMessage* attribute = find(name);
  if (!attribute) return nullptr;
  require_type(*attribute, AttributeMessage::Type::tensor, "a tensor");
  return &attribute->tensors.at(0);
}

const SparseTensorMessage* NodeImport::sparse_tensor(const char* name) {
  const AttributeMessage* attribute = find(name);
  if (!attribute) return nullptr;
  require_type(*attribute, AttributeMessage::Type::sparse_tensor, "a sparse tensor");
  return &attribute->sparse_tensors.at(0);
}

std::string NodeImport::dtype(const char* name, ElementType standard) {
  const auto type = static_cast<ElementType>(integer(name, static_cast<int64_t>(standard)));
  const std::optional<DType> dtype = dtype_of(type);
  require(dtype.has_value(), "path", "attribute '", name, "' is ", onnx::name_of(type),
          ", which dlprim does not have");
  return dlprim::name_of(*dtype);
}

const Narrow* NodeImport::narrow(const char* name) {
  return find_narrow(static_cast<ElementType>(integer(name, 0)));
}

std::shared_ptr<const NetGraph> NodeImport::body(const char* name, std::vector<int>& captured) {
  const AttributeMessage* attribute = find(name);
  require(attribute != nullptr, "path", "attribute '", name, "' is missing");
  require_type(*attribute, AttributeMessage::Type::graph, "a graph");
  return graph_.body(attribute->graphs.at(0), captured);
}

int NodeImport::emit(const std::string& kind, std::vector<int> inputs, Attributes attributes) {
  return graph_.graph().add(kind, std::move(inputs), std::move(attributes));
}

std::vector<int> NodeImport::emit_many(const std::string& kind, std::vector<int> inputs, size_t outputs,
                                       Attributes attributes) {
  return graph_.graph().add_many(kind, std::move(inputs), outputs, std::move(attributes));
}

int NodeImport::apply(const char* function, std::vector<int> inputs, std::vector<double> parameters) {
  Attributes attributes{{"function", function}};
  if (!parameters.empty()) attributes.emplace("parameters", std::move(parameters));
  return emit("elementwise", std::move(inputs), std::move(attributes));
}

int NodeImport::constant(const std::vector<int64_t>& elements) {
  HostTensor tensor{{}, DType::i64, {static_cast<int64_t>(elements.size())}, {}};
  const auto* bytes = reinterpret_cast<const unsigned char*>(elements.data());
  tensor.data.assign(bytes, bytes + elements.size() * sizeof(int64_t));
  return constant(std::move(tensor));
}

int NodeImport::constant_of(const TensorMessage& tensor) {
  const int value = constant(onnx::constant_of(tensor, graph_.file().files));
  graph_.set_narrow(value, find_narrow(tensor.type));
  return value;
}

int NodeImport::constant_of(const SparseTensorMessage& tensor) {
  return constant(onnx::constant_of(tensor, graph_.file().files));
}

bool NodeImport::wants(int k) const {
  return k < output_count() && !message.outputs[static_cast<size_t>(k)].empty();
}

void NodeImport::result(int value, int k) {
  if (k < output_count()) made_[static_cast<size_t>(k)] = true;
  if (!wants(k)) return;
  const std::string& name = message.outputs[static_cast<size_t>(k)];
  graph_.define(name, value);
  if (moved_) graph_.set_narrow(value, moved_);
  std::string& own = graph_.graph().values[static_cast<size_t>(value)].name;
  if (own.empty()) own = name;
}

void NodeImport::result(const Typed& typed) {
  graph_.set_narrow(typed.value, typed.narrow);
  result(typed.value);
}

void NodeImport::result_sequence(std::vector<int> members) {
  result(graph_.add_sequence(std::move(members)));
}

void NodeImport::results(const std::vector<int>& values) {
  NetGraph::Node& made = last();
  for (size_t k = 0; k < values.size(); k++) {
    if (wants(static_cast<int>(k)))
      result(values[k], static_cast<int>(k));
    else
      made.outputs[k] = NetGraph::kNone;
  }
}

void NodeImport::finish() {
  for (const AttributeMessage& attribute : message.attributes)
    require(read_attributes_.count(attribute.name) != 0, "path", "attribute '", attribute.name,
            "' is not supported");
  for (int k = 0; k < input_count(); k++)
    require(!has(k) || read_inputs_[static_cast<size_t>(k)], "path", "input ", k, ", '",
            message.inputs[static_cast<size_t>(k)], "', is not supported");
  for (int k = 0; k < output_count(); k++)
    require(!wants(k) || made_[static_cast<size_t>(k)], "path", "output ", k, ", '",
            message.outputs[static_cast<size_t>(k)], "', is not supported");
}

}  // namespace dlprim::onnx
