// The parser is nlohmann's, which does not recurse; what it reads is counted before it is kept. Its own trees
// would keep the last of two equal names, and make integers of more than 64 bits numbers with a point.
#include "net/json/tree.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include <dlprim/error.hpp>

#include "core/text.hpp"

namespace dlprim::detail {
namespace {

using Json = nlohmann::json;

class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit TreeBuilder(const std::string& file) : file_(file) {}

  JsonValue take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string& text) override {
    if (text.find_first_of(".eE") == std::string::npos) refuse(cat("64 bits do not hold ", in_quotes(text)));
    return add(value);
  }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t& /*value*/) override { return false; }  // JSON has none
  bool start_object(size_t /*count*/) override { return open(JsonValue::Members()); }
  bool start_array(size_t /*count*/) override { return open(JsonValue::List()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    if (!open_.back().names.insert(name).second) refuse(cat(in_quotes(name), " stands twice"));
    open_.back().name = std::move(name);
    return true;
  }
  bool parse_error(size_t /*at*/, const std::string& /*token*/, const Json::exception& error) override {
    constexpr size_t kMost = 300;
    throw ValidationError("path", cat('\'', file_, "' is not JSON: ", std::string(error.what(), 0, kMost)));
  }

 private:
  /// A list or object whose end has not come.
  struct Open {
    JsonValue value;
    std::string name;             ///< of the member that comes
    std::set<std::string> names;  ///< no hash, whose collisions a file could choose
  };

  [[noreturn]] void refuse(const std::string& reason) const {
    std::string place;
    for (const Open& open : open_)
      if (const auto* list = open.value.as<JsonValue::List>())
        place += cat('[', list->size(), ']');
      else if (!open.name.empty())
        place += (place.empty() ? "" : ".") + open.name;
    throw ValidationError("path", cat('\'', file_, "': ", place, place.empty() ? "" : ": ", reason));
  }

  template <class T>
  bool add(T value) {
    if (++count_ > kMostJsonValues) refuse(cat("there are more than ", kMostJsonValues, " values"));
    return put(JsonValue{std::move(value)});
  }

  bool put(JsonValue value) {
    if (open_.empty())
      root_ = std::move(value);
    else if (auto* list = std::get_if<JsonValue::List>(&open_.back().value.value))
      list->push_back(std::move(value));
    else
      std::get<JsonValue::Members>(open_.back().value.value)
          .emplace_back(std::exchange(open_.back().name, {}), std::move(value));
    return true;
  }

  template <class T>
  bool open(T empty) {
    if (open_.size() == kDeepestJson)
      throw ValidationError("path", cat('\'', file_, "': lists and objects lie more than ", kDeepestJson,
                                        " deep in one another"));
    if (++count_ > kMostJsonValues) refuse(cat("there are more than ", kMostJsonValues, " values"));
    open_.push_back({JsonValue{std::move(empty)}, {}, {}});
    return true;
  }

  bool close() {
    JsonValue value = std::move(open_.back().value);
    open_.pop_back();
    return put(std::move(value));
  }

  const std::string& file_;
  JsonValue root_;
  std::vector<Open> open_;
  size_t count_ = 0;
};

}  // namespace

JsonValue parse_json(const std::string& file, std::string_view text) {
  if (text.size() > kMostJsonBytes)
    throw ValidationError("path", cat('\'', file, "' has ", text.size(), " bytes, more than the ",
                                      kMostJsonBytes, " that a model may have without its weights"));
  TreeBuilder builder(file);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kMost = 200;
  std::string shown(text.substr(0, kMost));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  return cat('\'', shown, text.size() > kMost ? "...'" : "'");
}

std::string described(const JsonValue& value) {
  struct {
    std::string operator()(std::nullptr_t) const { return "null"; }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(uint64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return Json(v).dump(); }
    std::string operator()(const std::string& v) const { return in_quotes(v); }
    std::string operator()(const JsonValue::List& v) const { return v.empty() ? "an empty list" : "a list"; }
    std::string operator()(const JsonValue::Members&) const { return "an object"; }
  } const describe;
  return std::visit(describe, value.value);
}

}  // namespace dlprim::detail
