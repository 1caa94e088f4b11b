// A model is somebody else's data: every name, number and reference is checked before it is used, and every
// refusal says where it stands.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>

#include <dlprim/net_host.hpp>
#include <dlprim/net_json.hpp>

#include "core/check.hpp"
#include "core/regular_file.hpp"
#include "net/json/model.hpp"
#include "net/json/tree.hpp"
#include "net/nodes/node.hpp"

namespace dlprim {
namespace detail {
namespace {

namespace fs = std::filesystem;
using List = JsonValue::List;
using Members = JsonValue::Members;

constexpr DType kDTypes[] = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8,
                             DType::u8,  DType::i16, DType::i32,  DType::i64, DType::boolean,
                             DType::u16, DType::u32, DType::u64};

/// Where something stands: nodes[3].inputs[0]. Made into text only when it is refused.
class Place {
 public:
  explicit Place(const std::string& file) : file_(&file) {}
  Place(const Place& in, std::string_view name) : file_(in.file_), in_(&in), name_(name) {}
  Place(const Place& in, size_t index) : file_(in.file_), in_(&in), index_(index), is_element_(true) {}

  std::string text() const {
    if (!in_) return "";
    const std::string before = in_->text();
    if (is_element_) return cat(before, '[', index_, ']');
    const std::string_view name = name_.substr(0, 200);
    return before.empty() ? std::string(name) : cat(before, '.', name);
  }
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    const std::string place = text();
    throw ValidationError("path", cat('\'', *file_, "': ", place, place.empty() ? "" : ": ", parts...));
  }
  template <class... Parts>
  void require(bool ok, const Parts&... parts) const {
    if (!ok) refuse(parts...);
  }

 private:
  const std::string* file_;
  const Place* in_ = nullptr;
  std::string_view name_;
  size_t index_ = 0;
  bool is_element_ = false;
};

const Members& object_at(const Place& place, const JsonValue& value) {
  const auto* members = value.as<Members>();
  place.require(members != nullptr, described(value), " must be an object");
  return *members;
}
const List& list_at(const Place& place, const JsonValue& value) {
  const auto* list = value.as<List>();
  place.require(list != nullptr, described(value), " must be a list");
  return *list;
}
const std::string& text_at(const Place& place, const JsonValue& value) {
  const auto* text = value.as<std::string>();
  place.require(text != nullptr, described(value), " must be a text");
  return *text;
}
int64_t integer_at(const Place& place, const JsonValue& value) {
  if (const auto* negative = value.as<int64_t>()) return *negative;
  const auto* number = value.as<uint64_t>();
  place.require(number != nullptr, described(value), " must be an integer");
  place.require(*number <= uint64_t{INT64_MAX}, *number, " is larger than ", INT64_MAX);
  return static_cast<int64_t>(*number);
}
int64_t size_at(const Place& place, const JsonValue& value) {
  const int64_t size = integer_at(place, value);
  place.require(size >= 0, size, " is no size");
  return size;
}
bool is_number(const JsonValue& value) {
  return value.as<double>() || value.as<int64_t>() || value.as<uint64_t>();
}
double number_at(const Place& place, const JsonValue& value) {
  if (const auto* number = value.as<double>()) return *number;
  if (const auto* negative = value.as<int64_t>()) return static_cast<double>(*negative);
  if (const auto* whole = value.as<uint64_t>()) return static_cast<double>(*whole);
  if (const auto* text = value.as<std::string>()) {
    if (*text == "inf") return std::numeric_limits<double>::infinity();
    if (*text == "-inf") return -std::numeric_limits<double>::infinity();
    if (*text == "nan") return std::numeric_limits<double>::quiet_NaN();
  }
  place.refuse(described(value), R"( must be a number, "inf", "-inf" or "nan")");
}
DType dtype_at(const Place& place, const JsonValue& value) {
  const std::string& name = text_at(place, value);
  std::string names;
  for (DType dtype : kDTypes) {
    if (name == name_of(dtype)) return dtype;
    names += (names.empty() ? "" : ", ") + std::string(name_of(dtype));
  }
  place.refuse(in_quotes(name), " is no dtype; there are ", names);
}
template <class T, class F>
std::vector<T> elements_of(const Place& place, const List& list, F&& element_at) {
  std::vector<T> elements;
  elements.reserve(list.size());
  for (const JsonValue& element : list)
    elements.push_back(element_at(Place(place, elements.size()), element));
  return elements;
}
template <class T, class F>
std::vector<T> elements_at(const Place& place, const JsonValue& value, F&& element_at) {
  return elements_of<T>(place, list_at(place, value), std::forward<F>(element_at));
}

/// An object of which all members are known.
class Fields {
 public:
  Fields(const Place& place, const JsonValue& value, const std::vector<const char*>& known)
      : place_(place), members_(object_at(place, value)) {
    for (const auto& [name, member] : members_) {
      const auto same = [&of = name](const char* key) { return of == key; };
      if (std::any_of(known.begin(), known.end(), same)) continue;
      std::string names;
      for (const char* key : known) names += (names.empty() ? "" : ", ") + std::string(key);
      place.refuse("unknown key ", in_quotes(name), "; there are ", names);
    }
  }

  const JsonValue* find(const char* key) const {
    for (const auto& [name, member] : members_)
      if (name == key) return &member;
    return nullptr;
  }
  const JsonValue& at(const char* key) const {
    const JsonValue* member = find(key);
    place_.require(member != nullptr, "lacks '", key, "'");
    return *member;
  }

 private:
  const Place& place_;
  const Members& members_;
};

Attribute list_attribute(const Place& place, const List& list) {
  bool integers = true, numbers = true, texts = true;
  for (const JsonValue& element : list) {
    integers = integers && is_number(element) && !element.as<double>();
    numbers = numbers && is_number(element);
    texts = texts && element.as<std::string>();
  }
  place.require(integers || numbers || texts, "a list must be of integers, of numbers or of texts");
  if (integers) return elements_of<int64_t>(place, list, integer_at);
  if (numbers) return elements_of<double>(place, list, number_at);
  return elements_of<std::string>(place, list, text_at);
}

/// {"number": "inf"}, {"numbers": [0.5, "nan"]}, {"strings": []}
Attribute tagged_attribute(const Place& place, const JsonValue& value) {
  const Fields fields(place, value, {"number", "numbers", "strings"});
  place.require(object_at(place, value).size() == 1, "must be one of number, numbers, strings");
  if (const JsonValue* number = fields.find("number")) return number_at(Place(place, "number"), *number);
  if (const JsonValue* numbers = fields.find("numbers"))
    return elements_at<double>(Place(place, "numbers"), *numbers, number_at);
  return elements_at<std::string>(Place(place, "strings"), fields.at("strings"), text_at);
}

Attribute attribute_at(const Place& place, const JsonValue& value) {
  if (const auto* truth = value.as<bool>()) return *truth;
  if (const auto* number = value.as<double>()) return *number;
  if (const auto* text = value.as<std::string>()) return *text;
  if (const auto* list = value.as<List>()) return list_attribute(place, *list);
  if (value.as<Members>()) return tagged_attribute(place, value);
  return integer_at(place, value);
}

Dimension dimension_at(const Place& place, const JsonValue& value) {
  const auto symbol_at = [](const Place& at, const JsonValue& symbol) {
    const std::string& text = text_at(at, symbol);
    at.require(!text.empty(), "a symbol must not be empty; null is any size");
    return text;
  };
  if (value.as<std::nullptr_t>()) return {};
  if (value.as<std::string>()) return {-1, symbol_at(place, value)};
  if (!value.as<Members>()) return {size_at(place, value)};
  const Fields fields(place, value, {"size", "symbol"});
  return {size_at(Place(place, "size"), fields.at("size")),
          symbol_at(Place(place, "symbol"), fields.at("symbol"))};
}

Shape shape_at(const Place& place, const JsonValue& value) {
  const auto sizes = elements_at<int64_t>(place, value, size_at);
  place.require(sizes.size() <= kMaxRank, "rank ", sizes.size(), " is more than ", kMaxRank);
  const Shape shape(sizes);
  try {
    element_count(shape);
  } catch (const ValidationError&) {
    place.refuse(to_string(shape), " is too large");
  }
  return shape;
}

/// An element of a tensor of whole numbers; u64 has those above INT64_MAX as negative ones.
int64_t whole_at(const Place& place, const JsonValue& value, DType dtype) {
  if (dtype == DType::boolean) {
    const auto* truth = value.as<bool>();
    place.require(truth != nullptr, described(value), " must be true or false");
    return *truth;
  }
  const auto* large = value.as<uint64_t>();
  if (dtype == DType::u64 && large) return static_cast<int64_t>(*large);
  const int64_t number = integer_at(place, value);
  const int bits = static_cast<int>(8 * size_of(dtype)) - (is_signed_integer(dtype) ? 1 : 0);
  const int64_t most = bits >= 63 ? INT64_MAX : (int64_t{1} << bits) - 1;
  place.require(number <= most && number >= (is_signed_integer(dtype) ? -most - 1 : 0), name_of(dtype),
                " does not hold ", number);
  return number;
}

HostTensor tensor_of(const Place& place, const JsonValue& value, DType dtype, const Shape& shape) {
  const auto count = static_cast<size_t>(element_count(shape));
  const size_t given = list_at(place, value).size();
  place.require(given == count, "there are ", given, " elements, ", name_of(dtype), to_string(shape), " has ",
                count);
  if (!is_floating(dtype))
    return host_tensor(dtype, shape,
                       elements_at<int64_t>(place, value, [&](const Place& at, const JsonValue& element) {
                         return whole_at(at, element, dtype);
                       }));
  const auto numbers = elements_at<double>(place, value, number_at);
  HostTensor tensor = host_tensor(dtype, shape, numbers);
  const std::vector<double> held = numbers_of(tensor);
  for (size_t i = 0; i < count; i++)
    Place(place, i).require(std::isfinite(held[i]) || !std::isfinite(numbers[i]), name_of(dtype),
                            " does not hold ", numbers[i]);
  return tensor;
}

/// The file beside the model. It must really lie there, or where the model really lies: model hubs keep files
/// as links into a folder of their own.
std::string weights_path(const Place& place, const std::string& model, const std::string& name) {
  const bool is_name = !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
                       name.find('\0') == std::string::npos;
  place.require(is_name, in_quotes(name), " must be the name of a file in the model's folder, without '/'");
  std::error_code code;
  const fs::path path = fs::absolute(model, code);
  const fs::path folders[] = {path.parent_path(), fs::canonical(path, code).parent_path()};
  for (const fs::path& folder : folders) {
    const fs::path file = fs::canonical(folder / name, code);
    if (code == std::errc::no_such_file_or_directory) continue;
    place.require(!code, in_quotes(name), ": ", code.message());
    for (const fs::path& other : folders)
      if (fs::canonical(other, code) == file.parent_path()) return file.string();
    place.refuse(in_quotes(name), " leads to '", file.string(), "', out of the model's folder");
  }
  place.refuse("there is no file ", in_quotes(name), " beside the model");
}

/// The tensors of the file of weights, each read when it is first asked for.
class Weights {
 public:
  explicit Weights(const std::string& path) : reader_(path) {
    for (const auto& entry : reader_.entries()) entries_.emplace(entry.name, &entry);
  }

  std::shared_ptr<const HostTensor> tensor(const Place& place, const std::string& key, DType dtype,
                                           const Shape& shape, const std::string& name) {
    const auto found = entries_.find(key);
    place.require(found != entries_.end(), "the weights have no tensor ", in_quotes(key),
                  reader_.why_lacking(key));
    const SafetensorsReader::Entry& entry = *found->second;
    place.require(entry.dtype == dtype && entry.shape == shape, "the weights have ", in_quotes(key), " as ",
                  name_of(entry.dtype), to_string(entry.shape), ", the model as ", name_of(dtype),
                  to_string(shape));
    auto& kept = read_[key];
    if (!kept) {
      HostTensor tensor = reader_.read(entry);
      tensor.name = name;
      kept = std::make_shared<const HostTensor>(std::move(tensor));
    }
    return kept;
  }

 private:
  SafetensorsReader reader_;
  std::map<std::string, const SafetensorsReader::Entry*> entries_;
  std::map<std::string, std::shared_ptr<const HostTensor>> read_;
};

/// What the graphs of one file share.
struct File {
  std::unique_ptr<Weights> weights;  ///< null: there are none
  int64_t nodes = 0;
};

class GraphReader {
 public:
  GraphReader(File& file, const Place& place, int depth) : file_(file), place_(place), depth_(depth) {}

  /// `fields` has no member but a graph's, and those that the caller has looked at.
  NetGraph read(const Fields& fields) {
    if (const JsonValue* metadata = fields.find("metadata")) read_metadata(*metadata);
    const Place inputs(place_, "inputs"), outputs(place_, "outputs"), nodes(place_, "nodes");
    graph_.inputs =
        elements_at<int>(inputs, fields.at("inputs"),
                         [this](const Place& at, const JsonValue& v) { return define(at, text_at(at, v)); });
    if (const JsonValue* constants = fields.find("constants")) read_constants(*constants);
    nodes_ = &list_at(nodes, fields.at("nodes"));
    if (const JsonValue* defaults = fields.find("defaults"))
      graph_.defaults =
          elements_at<int>(Place(place_, "defaults"), *defaults, [this](const Place& at, const JsonValue& v) {
            const int value = find(at, v);
            at.require(graph_.constants.count(value) != 0, "is no constant");
            return value;
          });
    for (size_t i = 0; i < nodes_->size(); i++) read_node(Place(nodes, i), (*nodes_)[i]);
    graph_.outputs = elements_at<int>(outputs, fields.at("outputs"),
                                      [this](const Place& at, const JsonValue& v) { return find(at, v); });
    if (const JsonValue* values = fields.find("values")) read_values(*values);
    return std::move(graph_);
  }

  static std::vector<const char*> keys() {
    return {"metadata", "inputs", "outputs", "values", "constants", "defaults", "nodes"};
  }

 private:
  void read_metadata(const JsonValue& value) {
    const Place place(place_, "metadata");
    for (const auto& [key, text] : object_at(place, value))
      graph_.metadata[key] = text_at(Place(place, key), text);
  }

  /// A new value, which is called so in the file.
  int define(const Place& place, const std::string& called) {
    place.require(!called.empty(), "a value's name must not be empty");
    const int value = graph_.add_value(called[0] == kUnnamed ? "" : called);
    place.require(names_.emplace(called, value).second, in_quotes(called), " is given twice");
    return value;
  }

  int find(const Place& place, const JsonValue& value) const {
    const std::string& name = text_at(place, value);
    const auto found = names_.find(name);
    if (found != names_.end()) return found->second;
    for (size_t i = 0; i < nodes_->size(); i++)
      if (writes((*nodes_)[i], name))
        place.refuse(in_quotes(name), " is read here, but nodes[", i,
                     "] writes it: a node stands behind those whose outputs it reads");
    place.refuse("there is no value ", in_quotes(name));
  }

  /// For messages: what is wrong with the node is told when it is read.
  static bool writes(const JsonValue& node, const std::string& name) {
    const auto* members = node.as<Members>();
    for (const auto& [key, member] : members ? *members : Members()) {
      const auto* outputs = key == "outputs" ? member.as<List>() : nullptr;
      for (const JsonValue& output : outputs ? *outputs : List())
        if (const auto* text = output.as<std::string>(); text && *text == name) return true;
    }
    return false;
  }

  void read_constants(const JsonValue& value) {
    const Place place(place_, "constants");
    for (const auto& [name, constant] : object_at(place, value))
      read_constant(Place(place, name), name, constant);
  }

  void read_constant(const Place& place, const std::string& called, const JsonValue& json) {
    const int value = define(place, called);
    const std::string& name = graph_.values.back().name;
    const Fields fields(place, json, {"dtype", "shape", "elements", "tensor"});
    const DType dtype = dtype_at(Place(place, "dtype"), fields.at("dtype"));
    const Shape shape = shape_at(Place(place, "shape"), fields.at("shape"));
    const JsonValue *elements = fields.find("elements"), *tensor = fields.find("tensor");
    place.require(!elements || !tensor, "has both 'elements' and 'tensor'");
    if (elements) {
      HostTensor made = tensor_of(Place(place, "elements"), *elements, dtype, shape);
      made.name = name;
      graph_.constants[value] = std::make_shared<const HostTensor>(std::move(made));
      return;
    }
    place.require(file_.weights != nullptr, "has no 'elements', and the model no 'weights'");
    const std::string& key = tensor ? text_at(Place(place, "tensor"), *tensor) : called;
    graph_.constants[value] = file_.weights->tensor(place, key, dtype, shape, name);
  }

  void read_node(const Place& place, const JsonValue& json) {
    place.require(++file_.nodes <= kMostModelNodes, "there are more than ", kMostModelNodes, " nodes");
    const Fields fields(place, json, {"kind", "name", "inputs", "outputs", "attributes", "bodies"});
    NetGraph::Node node;
    const Place at_kind(place, "kind"), at_inputs(place, "inputs"), at_attributes(place, "attributes");
    node.kind = text_at(at_kind, fields.at("kind"));
    const NodeKind* kind = find_kind(node.kind);
    at_kind.require(kind != nullptr, in_quotes(node.kind), " is no kind of node; docs/nodes.md lists them");
    if (const JsonValue* name = fields.find("name")) node.name = text_at(Place(place, "name"), *name);
    node.inputs = elements_at<int>(at_inputs, fields.at("inputs"), [&](const Place& at, const JsonValue& v) {
      return v.as<std::nullptr_t>() ? NetGraph::kNone : find(at, v);
    });
    check_inputs(at_inputs, *kind, node.inputs);
    if (const JsonValue* attributes = fields.find("attributes"))
      for (const auto& [name, attribute] : object_at(at_attributes, *attributes))
        node.attributes.emplace(name, attribute_at(Place(at_attributes, name), attribute));
    if (const JsonValue* bodies = fields.find("bodies")) read_bodies(Place(place, "bodies"), *bodies, node);
    node.outputs = elements_at<int>(
        Place(place, "outputs"), fields.at("outputs"), [&](const Place& at, const JsonValue& v) {
          return v.as<std::nullptr_t>() ? NetGraph::kNone : define(at, text_at(at, v));
        });
    graph_.nodes.push_back(std::move(node));
  }

  static void check_inputs(const Place& place, const NodeKind& kind, const std::vector<int>& inputs) {
    const int count = static_cast<int>(inputs.size());
    place.require(count >= kind.fewest && count <= kind.most, "there are ", count, ", '", kind.name,
                  "' must have ", kind.fewest, " to ", kind.most);
    for (int k = 0; k < kind.fewest; k++)
      Place(place, static_cast<size_t>(k))
          .require(inputs[static_cast<size_t>(k)] != NetGraph::kNone, "null: '", kind.name,
                   "' must have this input");
  }

  void read_bodies(const Place& place, const JsonValue& json, NetGraph::Node& node) {
    place.require(depth_ < kDeepestBody, "bodies lie more than ", kDeepestBody, " deep in one another");
    for (const JsonValue& body : list_at(place, json)) {
      const Place at(place, node.bodies.size());
      const Fields fields(at, body, keys());
      node.bodies.push_back(
          std::make_shared<const NetGraph>(GraphReader(file_, at, depth_ + 1).read(fields)));
    }
  }

  /// What is known of values beside how they are called.
  void read_values(const JsonValue& json) {
    const Place place(place_, "values");
    for (const auto& [called, facts] : object_at(place, json)) {
      const Place at(place, called);
      const auto found = names_.find(called);
      at.require(found != names_.end(), "there is no such value");
      NetGraph::Value& value = graph_.values[static_cast<size_t>(found->second)];
      const Fields fields(at, facts, {"name", "dtype", "shape"});
      if (const JsonValue* name = fields.find("name")) value.name = text_at(Place(at, "name"), *name);
      if (const JsonValue* dtype = fields.find("dtype")) value.dtype = dtype_at(Place(at, "dtype"), *dtype);
      if (const JsonValue* shape = fields.find("shape"))
        value.shape = elements_at<Dimension>(Place(at, "shape"), *shape, dimension_at);
    }
  }

  File& file_;
  const Place& place_;
  const int depth_;
  NetGraph graph_;
  const List* nodes_ = nullptr;
  std::map<std::string, int> names_;
};

std::string text_of_file(const std::string& path) {
  require(path.find('\0') == std::string::npos, "path", "has a zero byte in it");
  errno = 0;
  if (std::optional<std::string> text = read_regular_file(path, kMostJsonBytes)) return std::move(*text);
  const int reason = errno;
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (fs::is_directory(status)) throw Error(cat("cannot read '", path, "': Is a directory"));
  require(!fs::exists(status) || fs::is_regular_file(status), "path", "'", path, "' is no regular file");
  const auto size = fs::file_size(path, code);
  require(code || size <= kMostJsonBytes, "path", "'", path, "' has ", size, " bytes, more than the ",
          kMostJsonBytes, " that a model may have without its weights");
  throw Error(cat("cannot read '", path, "': ", reason ? std::strerror(reason) : "input/output error"));
}

void check_format(const Place& place, const std::string& format) {
  place.require(format == kModelFormat, in_quotes(format), " must be '", kModelFormat, "'");
}

/// Before all else: what a later version has is unknown.
void check_version(const Place& place, int64_t version) {
  place.require(version >= 1, version, " is no version");
  place.require(version <= kModelVersion, version, " is newer than what this dlprim reads, ", kModelVersion);
}

}  // namespace
}  // namespace detail

NetGraph load_json(const std::string& path) {
  using namespace detail;
  const JsonValue json = parse_json(path, text_of_file(path));
  const Place root(path), at_format(root, "format"), at_version(root, "version"), at_weights(root, "weights");
  for (const auto& [key, value] : object_at(root, json)) {
    if (key == "format") check_format(at_format, text_at(at_format, value));
    if (key == "version") check_version(at_version, integer_at(at_version, value));
  }
  std::vector<const char*> keys = GraphReader::keys();
  keys.insert(keys.begin(), {"format", "version", "weights"});
  const Fields fields(root, json, keys);
  fields.at("format");
  fields.at("version");
  File file;
  if (const JsonValue* weights = fields.find("weights"))
    file.weights = std::make_unique<Weights>(weights_path(at_weights, path, text_at(at_weights, *weights)));
  return GraphReader(file, root, 0).read(fields);
}

}  // namespace dlprim
