// A line for each value, constant and node, so that versions of a model can be compared line by line.
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include <dlprim/net_host.hpp>
#include <dlprim/net_json.hpp>

#include "core/check.hpp"
#include "net/json/model.hpp"
#include "net/json/tree.hpp"
#include "net/new_file.hpp"
#include "net/safetensors_write.hpp"

namespace dlprim {
namespace detail {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostInline = 16;  // whole numbers that stand in the JSON: shapes, axes

std::string text_of(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception& error) {
    throw ValidationError("graph", cat("the text ", in_quotes(text), " is not UTF-8"));
  }
}

/// Members or elements, each on a line of its own.
std::string lines(char open, char close, const std::vector<std::string>& parts, const std::string& indent) {
  std::string text(1, open);
  for (const std::string& part : parts) {
    text += (&part == parts.data() ? "\n  " : ",\n  ") + indent;
    text += part;
  }
  if (!parts.empty()) text += "\n" + indent;
  return text + close;
}

template <class T, class F>
std::string list(const std::vector<T>& elements, F&& text) {
  std::string all = "[";
  for (const T& element : elements) {
    if (&element != elements.data()) all += ", ";
    all += text(element);
  }
  return all + "]";
}

std::string integer_text(int64_t value) {
  return std::to_string(value);
}

/// The shortest text that gives the number back, with a point or an exponent.
template <class T>
std::string number_text(T value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value < 0 ? "\"-inf\"" : "\"inf\"";
  char digits[40];
  char* const end = std::to_chars(std::begin(digits), std::end(digits), value).ptr;
  std::string text(std::begin(digits), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

/// A float as short as it may be when it is read by way of a double.
std::string float_text(double value) {
  const auto narrow = static_cast<float>(value);
  const std::string text = number_text(narrow);
  const bool exact =
      !std::isfinite(narrow) || static_cast<float>(std::strtod(text.c_str(), nullptr)) == narrow;
  return exact ? text : number_text(value);
}

std::string attribute_text(const Attribute& attribute) {
  struct {
    std::string operator()(int64_t v) const { return integer_text(v); }
    std::string operator()(double v) const {
      const std::string text = number_text(v);
      return std::isfinite(v) ? text : "{\"number\": " + text + "}";
    }
    std::string operator()(const std::string& v) const { return text_of(v); }
    std::string operator()(const Attribute::Integers& v) const { return list(v, integer_text); }
    std::string operator()(const Attribute::Numbers& v) const {
      bool plain = !v.empty();
      for (double number : v) plain = plain && std::isfinite(number);
      const std::string text = list(v, number_text<double>);
      return plain ? text : "{\"numbers\": " + text + "}";
    }
    std::string operator()(const Attribute::Strings& v) const {
      return v.empty() ? "{\"strings\": []}" : list(v, text_of);
    }
  } const text;
  return std::visit(text, attribute.value);
}

std::string dimension_text(const Dimension& d) {
  if (d.symbol.empty()) return d.size < 0 ? "null" : integer_text(d.size);
  if (d.size < 0) return text_of(d.symbol);
  return cat("{\"size\": ", d.size, ", \"symbol\": ", text_of(d.symbol), "}");
}

std::string elements_text(const HostTensor& tensor) {
  if (is_floating(tensor.dtype))
    return list(numbers_of(tensor), tensor.dtype == DType::f64 ? number_text<double> : float_text);
  return list(integers_of(tensor), [&](int64_t v) -> std::string {
    if (tensor.dtype == DType::boolean) return v ? "true" : "false";
    return tensor.dtype == DType::u64 ? std::to_string(static_cast<uint64_t>(v)) : integer_text(v);
  });
}

/// Its elements as numbers say all of its bits, and there are few.
bool is_short(const HostTensor& tensor) {
  const int64_t count = element_count(tensor.shape);
  if (is_floating(tensor.dtype)) return count == 1 && !std::isnan(numbers_of(tensor)[0]);
  if (count > kMostInline) return false;
  for (unsigned char byte : tensor.data)
    if (tensor.dtype == DType::boolean && byte > 1) return false;
  return true;
}

/// Names, each given once.
class Names {
 public:
  bool take(const std::string& name) { return taken_.insert(name).second; }
  /// `base`, or that with a number behind it.
  std::string unique(const std::string& base) {
    if (take(base)) return base;
    for (int& count = counts_[base];;)
      if (std::string name = cat(base, '_', ++count + 1); take(name)) return name;
  }

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> counts_;
};

/// What values are called in the file: by their names, or where one has none, or another's, by "%" and
/// what there is. Inputs and outputs come first.
class ValueNames {
 public:
  explicit ValueNames(const NetGraph& graph) : graph_(graph), called_(graph.values.size()) {
    for (const auto* ports : {&graph.inputs, &graph.outputs})
      for (int value : *ports) call_by_name(value);
    for (int value : graph.inputs) call(value, "input");
    for (const auto& [value, constant] : graph.constants) call(value, "constant");
    for (const NetGraph::Node& node : graph.nodes)
      for (size_t k = 0; k < node.outputs.size(); k++)
        if (node.outputs[k] != NetGraph::kNone)
          call(node.outputs[k], k == 0 ? hint_of(node) : cat(hint_of(node), '.', k));
  }

  const std::string& operator[](int value) const { return called_[static_cast<size_t>(value)]; }
  /// In the order in which the values come into being.
  const std::vector<int>& order() const { return order_; }
  std::string text(int value) const { return value == NetGraph::kNone ? "null" : text_of((*this)[value]); }
  std::string texts(const std::vector<int>& values) const {
    return list(values, [this](int value) { return text(value); });
  }

 private:
  static std::string hint_of(const NetGraph::Node& node) {
    if (!node.name.empty()) return node.name;
    const auto function = node.attributes.find("function");
    const auto* name =
        function == node.attributes.end() ? nullptr : std::get_if<std::string>(&function->second.value);
    return name ? *name : node.kind;
  }

  /// False if that does not serve.
  bool call_by_name(int value) {
    const std::string& name = graph_.values[static_cast<size_t>(value)].name;
    std::string& called = called_[static_cast<size_t>(value)];
    if (called.empty() && !name.empty() && name[0] != kUnnamed && names_.take(name)) called = name;
    return !called.empty();
  }

  void call(int value, const std::string& hint) {
    const std::string& name = graph_.values[static_cast<size_t>(value)].name;
    if (!call_by_name(value))
      called_[static_cast<size_t>(value)] = names_.unique(kUnnamed + (name.empty() ? hint : name));
    order_.push_back(value);
  }

  const NetGraph& graph_;
  Names names_;
  std::vector<std::string> called_;
  std::vector<int> order_;
};

class ModelText {
 public:
  /// Without weights that stand in the JSON.
  ModelText(const NetGraph& graph, std::string weights_file) : weights_file_(std::move(weights_file)) {
    tensor_names_.take("__metadata__");
    look_at(graph, 0);
    std::vector<std::string> rest = members(graph, "");
    std::vector<std::string> all = {cat("\"format\": \"", kModelFormat, '"'),
                                    cat("\"version\": ", kModelVersion)};
    if (!tensors_.empty()) all.push_back("\"weights\": " + text_of(weights_file_));
    all.insert(all.end(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
    text_ = lines('{', '}', all, "") + "\n";
  }

  const std::string& text() const { return text_; }
  const std::vector<NamedTensor>& tensors() const { return tensors_; }

 private:
  void look_at(const NetGraph& graph, int depth) {
    require(depth <= kDeepestBody, "graph", "bodies lie more than ", kDeepestBody, " deep in one another");
    nodes_ += static_cast<int64_t>(graph.nodes.size());
    require(nodes_ <= kMostModelNodes, "graph", "there are more than ", kMostModelNodes, " nodes");
    for (const auto& [value, constant] : graph.constants) uses_[constant.get()]++;
    for (const NetGraph::Node& node : graph.nodes)
      for (const auto& body : node.bodies) look_at(*body, depth + 1);
  }

  std::vector<std::string> members(const NetGraph& graph, const std::string& indent) {
    const ValueNames names(graph);
    const std::string inner = indent + "  ";
    std::vector<std::string> all, parts;
    const auto add = [&](const char* name, char open, char close) {
      all.push_back(cat('"', name, "\": ") + lines(open, close, parts, inner));
      parts.clear();
    };
    for (const auto& [key, text] : graph.metadata) parts.push_back(text_of(key) + ": " + text_of(text));
    if (!parts.empty()) add("metadata", '{', '}');
    all.push_back("\"inputs\": " + names.texts(graph.inputs));
    all.push_back("\"outputs\": " + names.texts(graph.outputs));
    for (int value : names.order()) {
      const std::string facts = facts_text(graph.values[static_cast<size_t>(value)], names[value]);
      if (!facts.empty()) parts.push_back(names.text(value) + ": {" + facts + "}");
    }
    if (!parts.empty()) add("values", '{', '}');
    for (const auto& [value, constant] : graph.constants)
      parts.push_back(names.text(value) + ": " + constant_text(*constant, names[value]));
    if (!parts.empty()) add("constants", '{', '}');
    if (!graph.defaults.empty()) all.push_back("\"defaults\": " + names.texts(graph.defaults));
    for (const NetGraph::Node& node : graph.nodes) parts.push_back(node_text(node, names, inner + "  "));
    add("nodes", '[', ']');
    return all;
  }

  static std::string facts_text(const NetGraph::Value& value, const std::string& called) {
    std::string text;
    const auto add = [&](const char* key, const std::string& fact) {
      text += cat(text.empty() ? "" : ", ", '"', key, "\": ", fact);
    };
    if (value.name != called && !value.name.empty()) add("name", text_of(value.name));
    if (value.dtype) add("dtype", cat('"', name_of(*value.dtype), '"'));
    if (value.shape) add("shape", list(*value.shape, dimension_text));
    return text;
  }

  std::string constant_text(const HostTensor& tensor, const std::string& called) {
    const std::vector<int64_t> shape(tensor.shape.begin(), tensor.shape.end());
    const std::string type =
        cat("{\"dtype\": \"", name_of(tensor.dtype), "\", \"shape\": ", list(shape, integer_text));
    require(tensor.data.size() == static_cast<size_t>(element_count(tensor.shape)) * size_of(tensor.dtype),
            "graph", "constant ", in_quotes(called), " has ", tensor.data.size(), " bytes, which is not ",
            name_of(tensor.dtype), tensor.shape);
    if (uses_.at(&tensor) == 1 && is_short(tensor))
      return type + ", \"elements\": " + elements_text(tensor) + "}";
    const auto [found, is_new] = keys_.emplace(&tensor, "");
    if (is_new) {
      found->second = tensor_names_.unique(called);
      tensors_.push_back({found->second, &tensor});
    }
    return type + (found->second == called ? "" : ", \"tensor\": " + text_of(found->second)) + "}";
  }

  std::string node_text(const NetGraph::Node& node, const ValueNames& names, const std::string& indent) {
    std::string text = "{\"kind\": " + text_of(node.kind);
    if (!node.name.empty()) text += ", \"name\": " + text_of(node.name);
    text += ", \"inputs\": " + names.texts(node.inputs) + ", \"outputs\": " + names.texts(node.outputs);
    std::string attributes;
    for (const auto& [name, attribute] : node.attributes)
      attributes += (attributes.empty() ? "" : ", ") + text_of(name) + ": " + attribute_text(attribute);
    if (!attributes.empty()) text += ", \"attributes\": {" + attributes + "}";
    std::vector<std::string> bodies;
    for (const auto& body : node.bodies)
      bodies.push_back(lines('{', '}', members(*body, indent + "  "), indent + "  "));
    if (!bodies.empty()) text += ", \"bodies\": " + lines('[', ']', bodies, indent);
    return text + "}";
  }

  std::string weights_file_, text_;
  int64_t nodes_ = 0;
  std::unordered_map<const HostTensor*, int> uses_;  ///< of values
  std::unordered_map<const HostTensor*, std::string> keys_;
  Names tensor_names_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace
}  // namespace detail

std::vector<std::string> save_json(const std::string& path, const NetGraph& graph) {
  const std::filesystem::path file(path);
  detail::require(file.extension() == detail::kJsonEnding, "path", "'", path, "' must end in .json");
  graph.check();
  std::filesystem::path weights = file;
  weights.replace_extension(detail::kWeightsEnding);
  const detail::ModelText model(graph, weights.filename().string());
  detail::parse_json(path, model.text());  // what is too large to be read is not written
  detail::NewFile json(path);
  json.write(model.text());
  std::vector<std::string> written = {path};
  if (!model.tensors().empty()) {
    detail::write_safetensors(weights.string(), model.tensors(), {});
    written.push_back(weights.string());
  }
  json.put_in_place();
  return written;
}

}  // namespace dlprim
