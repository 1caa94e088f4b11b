// Names, graphs, functions and files: the importer without its operators.
#include "onnx/importer.hpp"

#include <dlprim/onnx.hpp>

#include <filesystem>

#include "core/check.hpp"
#include "onnx/file.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {

using detail::cat;
using detail::require;

namespace {

constexpr int kDeepest = 32;             // graphs and functions in one another
constexpr int64_t kMostNodes = 1 << 18;  // functions written out

/// What an error says, without our own argument's name in front.
std::string reason_of(const ValidationError& error) {
  const std::string what = error.what(), own = "path: ";
  return what.rfind(own, 0) == 0 ? what.substr(own.size()) : what;
}

std::optional<std::vector<Dimension>> shape_of(const TypeMessage& type) {
  if (!type.has_shape) return std::nullopt;
  std::vector<Dimension> shape;
  for (const DimensionMessage& d : type.shape)
    shape.emplace_back(d.size, d.symbol == "?" ? "" : d.symbol);  // some exporters' word for any size
  return shape;
}

int64_t version_of(const std::vector<OpsetMessage>& opsets, const std::string& domain) {
  for (const OpsetMessage& opset : opsets)
    if (opset.domain == domain || (domain.empty() && opset.domain == "ai.onnx")) return opset.version;
  return domain.empty() ? 1 : 0;
}

const FunctionMessage* find_function(const ModelMessage& model, const NodeMessage& node) {
  for (const FunctionMessage& f : model.functions)
    if (f.name == node.op_type && f.domain == node.domain && f.overload == node.overload) return &f;
  return nullptr;
}

}  // namespace

int GraphImport::find(const std::string& name) {
  Names& names = *names_;
  if (const auto found = names.values.find(name); found != names.values.end()) return found->second;
  if (const auto pending = names.initializers.find(name); pending != names.initializers.end()) {
    HostTensor tensor = constant_of(*pending->second, file_.files);
    tensor.name = name;
    const int value = graph_.add_constant(std::move(tensor));
    set_narrow(value, find_narrow(pending->second->type));
    define(name, value);
    return value;
  }
  if (const auto pending = names.sparse_initializers.find(name); pending != names.sparse_initializers.end()) {
    HostTensor tensor = constant_of(*pending->second, file_.files);
    tensor.name = name;
    const int value = graph_.add_constant(std::move(tensor));
    define(name, value);
    return value;
  }
  if (!outer_ || names.is_function) return NetGraph::kNone;
  const int outside = outer_->find(name);
  if (outside == NetGraph::kNone) return NetGraph::kNone;
  require(!outer_->sequence(outside), "path", "'", name, "' is a sequence: bodies take none");
  const auto [place, is_new] = captures_.emplace(outside, 0);
  if (is_new) {
    place->second = graph_.add_value(name);
    set_narrow(place->second, outer_->narrow(outside));
    const auto& constants = outer_->graph_.constants;
    if (const auto constant = constants.find(outside); constant != constants.end())
      graph_.constants.emplace(place->second, constant->second);  // shared: it is put on a device once
    else
      captured_.push_back(outside);
  }
  return place->second;
}

int GraphImport::value(const std::string& name) {
  const int value = find(name);
  require(value != NetGraph::kNone, "path", "'", name,
          "' is read before any node, input or initializer gives it");
  return value;
}

void GraphImport::define(const std::string& name, int value) {
  require(names_->values.emplace(name, value).second, "path", "'", name, "' is given twice");
}

const std::vector<int>* GraphImport::sequence(int value) const {
  const auto found = sequences_.find(value);
  return found == sequences_.end() ? nullptr : &found->second;
}

int GraphImport::add_sequence(std::vector<int> members) {
  const int value = graph_.add_value();
  sequences_.emplace(value, std::move(members));
  return value;
}

const Narrow* GraphImport::narrow(int value) const {
  const auto found = narrow_.find(value);
  return found == narrow_.end() ? nullptr : found->second;
}

void GraphImport::set_narrow(int value, const Narrow* type) {
  if (type) narrow_[value] = type;
}

std::shared_ptr<const NetGraph> GraphImport::body(const GraphMessage& message, std::vector<int>& captured) {
  require(depth_ + functions_ < kDeepest, "path", "graphs lie more than ", kDeepest, " deep in one another");
  GraphImport inner(file_, this, depth_ + functions_ + 1);
  inner.own_.opsets = names_->opsets;
  inner.own_.attributes = names_->attributes;
  inner.import(message);
  for (int outside : inner.captured_) inner.graph_.inputs.push_back(inner.captures_.at(outside));
  captured.insert(captured.end(), inner.captured_.begin(), inner.captured_.end());
  return std::make_shared<const NetGraph>(std::move(inner.graph_));
}

void GraphImport::import(const GraphMessage& message) {
  if (!own_.opsets) own_.opsets = &file_.model.opsets;
  for (const TensorMessage& tensor : message.initializers)
    require(own_.initializers.emplace(tensor.name, &tensor).second, "path", "initializer '", tensor.name,
            "' stands twice");
  for (const SparseTensorMessage& tensor : message.sparse_initializers)
    own_.sparse_initializers.emplace(tensor.values.name, &tensor);
  for (const auto* list : {&message.inputs, &message.value_infos})
    for (const ValueInfoMessage& value : *list) own_.types.emplace(value.name, &value.type);
  std::vector<const ValueInfoMessage*> defaults;
  for (const ValueInfoMessage& input : message.inputs) {
    // Initializers may be inputs, too, and are so before IR 4: values that hold where nothing is fed.
    if (own_.initializers.count(input.name) || own_.sparse_initializers.count(input.name)) {
      if (!outer_) defaults.push_back(&input);
      continue;
    }
    const int value = graph_.add_value(input.name);
    NetGraph::Value& v = graph_.values.back();
    if (!outer_) {
      require(input.type.kind == TypeMessage::Kind::tensor || input.type.kind == TypeMessage::Kind::none,
              "path", "input '", input.name,
              "' is no tensor: sequences, optionals and maps are not supported");
      if (input.type.kind == TypeMessage::Kind::tensor) {
        const Narrow* const type = find_narrow(input.type.element);
        set_narrow(value, type);
        v.dtype = type ? type->dtype : dtype_of(input.type.element);
        require(v.dtype.has_value(), "path", "input '", input.name, "' is ", name_of(input.type.element),
                ", which dlprim does not have");
        v.shape = shape_of(input.type);
      }
    }
    graph_.inputs.push_back(value);
    define(input.name, value);
  }
  for (const NodeMessage& node : message.nodes) import_node(node);
  for (const ValueInfoMessage& output : message.outputs) {
    // A value may be an output twice, or an input at once: each output is a value of its own.
    const int result = this->value(output.name);
    require(!sequence(result), "path", "output '", output.name,
            "' is a sequence: sequences, optionals and maps are not supported");
    const Narrow* const type = narrow(result);
    if (type && outer_)
      throw ValidationError("path", cat("output '", output.name, "' of a body is ", name_of(type->type),
                                        ", which only graphs themselves give"));
    const int value = graph_.add("identity", {result});
    graph_.add_output(output.name, value);
    NetGraph::Value& v = graph_.values.back();
    if (output.type.kind == TypeMessage::Kind::tensor) {
      require(type == find_narrow(output.type.element), "path", "output '", output.name, "' is declared as ",
              name_of(output.type.element), " and is ", type ? name_of(type->type) : "another type");
      v.dtype = type ? type->dtype : dtype_of(output.type.element);
      v.shape = shape_of(output.type);
    }
  }
  for (const ValueInfoMessage* input : defaults) {
    const int value = this->value(input->name);
    graph_.defaults.push_back(value);
    NetGraph::Value& v = graph_.values[static_cast<size_t>(value)];
    v.dtype = graph_.constants.at(value)->dtype;
    v.shape = shape_of(input->type);
  }
}

void GraphImport::import_node(const NodeMessage& node) {
  require(++file_.nodes <= kMostNodes, "path", "the model has more than ", kMostNodes,
          " nodes, functions written out");
  const std::string domain = node.domain == "ai.onnx" ? "" : node.domain;
  const int64_t opset = version_of(*names_->opsets, domain);
  const OperatorEntry* entry = find_operator(domain, node.op_type, opset);
  // An operator of the opset means what the standard says, whatever the model calls its own functions.
  const bool fixed = entry && node.overload.empty() && is_standard(domain, node.op_type, opset);
  if (const FunctionMessage* function = fixed ? nullptr : find_function(file_.model, node))
    return write_out(node, *function);
  NodeImport import(*this, node, opset);
  if (node.outputs.empty()) import.refuse("has no outputs");
  if (!entry)
    import.refuse(
        "is not supported. docs/onnx.md lists the operators that are; a function of the model's own "
        "that says it in those serves, too");
  const size_t first = graph_.nodes.size();
  import.argument = entry->argument;
  try {
    entry->import(import);
    import.finish();
  } catch (const ValidationError& error) {
    if (std::string(error.what()).find("node '") != std::string::npos) throw;  // says where
    throw ValidationError("path", cat(import.place(), ": ", reason_of(error)));
  }
  for (size_t i = first; i < graph_.nodes.size(); i++)
    if (graph_.nodes[i].name.empty())
      graph_.nodes[i].name = node.name.empty() ? node.outputs.front() : node.name;
}

void GraphImport::write_out(const NodeMessage& node, const FunctionMessage& function) {
  require(depth_ + functions_ < kDeepest, "path", "function '", function.name, "' lies more than ", kDeepest,
          " deep in others");
  require(node.inputs.size() <= function.inputs.size() && node.outputs.size() <= function.outputs.size(),
          "path", "node '", node.name, "' has more inputs or outputs than function '", function.name, "'");
  Names names;
  names.is_function = true;
  names.opsets = function.opsets.empty() ? names_->opsets : &function.opsets;
  for (size_t i = 0; i < function.inputs.size(); i++)
    names.values.emplace(function.inputs[i], i < node.inputs.size() && !node.inputs[i].empty()
                                                 ? value(node.inputs[i])
                                                 : NetGraph::kNone);
  for (const AttributeMessage& standard : function.attribute_defaults)
    names.attributes[standard.name] = &standard;
  for (const AttributeMessage& attribute : node.attributes) {
    const AttributeMessage* given = &attribute;
    if (!attribute.reference.empty()) {
      const auto outside = names_->attributes.find(attribute.reference);
      if (outside == names_->attributes.end()) continue;
      given = outside->second;
    }
    names.attributes[attribute.name] = given;
  }
  Names* const before = names_;
  names_ = &names;
  functions_++;
  for (const NodeMessage& inner : function.nodes) import_node(inner);
  std::vector<int> results;
  for (size_t i = 0; i < node.outputs.size(); i++) results.push_back(value(function.outputs[i]));
  functions_--;
  names_ = before;
  for (size_t i = 0; i < node.outputs.size(); i++)
    if (!node.outputs[i].empty()) define(node.outputs[i], results[i]);
}

namespace {

/// `name` is for messages.
NetGraph import_model(const std::string& name, std::string_view bytes, ExternalFiles& files) {
  const ModelMessage model = parse_model(bytes);
  require(model.has_graph, "path", "'", name, "' holds no graph");
  require(model.ir_version >= 3 && model.ir_version <= 14, "path", "'", name, "' is of IR version ",
          model.ir_version, ", must be 3 to 14");
  const int64_t opset = version_of(model.opsets, "");
  require(opset <= 28, "path", "'", name, "' is of opset ", opset, ", must be 28 at most");
  FileImport shared{model, files};
  GraphImport graph(shared, nullptr, 0);
  graph.import(model.graph);
  for (const Entry& entry : model.metadata) graph.graph().metadata[entry.key] = entry.value;
  return std::move(graph.graph());
}

}  // namespace

NetGraph load_graph(const std::string& path) {
  const MappedFile file(path);
  ExternalFiles files(path);
  try {
    return import_model(path, file.bytes(), files);
  } catch (const ValidationError& error) {
    if (std::string(error.what()).find(path) != std::string::npos) throw;
    throw ValidationError("path", cat("'", path, "': ", reason_of(error)));
  }
}

NetGraph parse_graph(std::string_view bytes) {
  ExternalFiles none;
  return import_model("bytes", bytes, none);
}

Model load(const std::string& path) {
  return Model(load_graph(path));
}

HostTensor load_tensor(const std::string& path) {
  const MappedFile file(path);
  ExternalFiles files(path);
  const TensorMessage message = parse_tensor(file.bytes());
  HostTensor tensor = constant_of(message, files);
  tensor.name = message.name;
  return tensor;
}

}  // namespace dlprim::onnx
