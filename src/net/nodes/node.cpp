// NodeStep: inputs brought where they are asked for, attributes read by type.
#include "net/nodes/node.hpp"

#include <algorithm>
#include <optional>

#include <dlprim/copy.hpp>
#include <dlprim/patterns.hpp>
#include <dlprim/rehearsal.hpp>

#include "net/executor.hpp"

namespace dlprim::detail {

NodeStep::NodeStep(const NetGraph::Node& node_, const RunScope& scope_, std::vector<Slot*> inputs,
                   Places& places)
    : node(node_),
      scope(scope_),
      stream(scope_.stream),
      options(scope_.options),
      places_(places),
      inputs_(std::move(inputs)),
      outputs_(node_.outputs.size()) {}

bool NodeStep::any_floating() const {
  return std::any_of(inputs_.begin(), inputs_.end(),
                     [](const Slot* slot) { return slot && is_floating(slot->dtype); });
}

Slot& NodeStep::in(int k) const {
  require(has(k), "inputs", "input ", k, " is missing");
  return *inputs_[static_cast<size_t>(k)];
}

const Tensor& to_device(const Stream& stream, Slot& slot) {
  if (!slot.tensor.defined()) slot.tensor = dlprim::to_device(stream, *slot.host);
  return slot.tensor;
}

const HostTensor& to_host(const Stream& stream, Slot& slot) {
  if (!slot.host) {
    slot.host = std::make_shared<const HostTensor>(dlprim::to_host(stream, slot.tensor));
    slot.read_back = !slot.constant;
  }
  return *slot.host;
}

const Tensor& NodeStep::x(int k) {
  static const Tensor none;
  return has(k) ? to_device(stream, in(k)) : none;
}

Tensor NodeStep::dense(const Tensor& tensor) const {
  return tensor.is_contiguous() ? tensor : contiguous(stream, tensor, options);
}

namespace {

/// Strides of a view of that shape over the tensor's elements; none if there is no such view. Axes that lie
/// as one are cut into new ones from the back.
std::optional<Strides> view_strides(const Tensor& x, const Shape& shape) {
  Strides strides = Dims::filled(shape.size(), 1);
  int to = shape.size() - 1;
  for (int from = x.rank() - 1; from >= 0;) {
    int64_t stride = x.strides()[from], left = x.shape()[from];
    for (from--; from >= 0 && (x.shape()[from] == 1 || x.strides()[from] == left * stride); from--)
      left *= x.shape()[from];
    for (; to >= 0 && (left > 1 || shape[to] == 1); to--) {
      if (left % shape[to] != 0) return std::nullopt;
      strides[to] = stride;
      stride *= shape[to], left /= shape[to];
    }
    if (left > 1) return std::nullopt;
  }
  return strides;
}

}  // namespace

Tensor NodeStep::reshaped(const Tensor& tensor, const Shape& shape) const {
  if (tensor.is_contiguous() || tensor.numel() == 0) return dense(tensor).reshape(shape);
  const std::optional<Strides> strides = view_strides(tensor, shape);
  return strides ? tensor.as_strided(shape, *strides) : dense(tensor).reshape(shape);
}

const HostTensor& NodeStep::host(int k) {
  looked_ = looked_ || !(in(k).constant || in(k).of_shapes);
  return to_host(stream, in(k));
}

std::vector<int64_t> NodeStep::integers(int k) {
  require(!is_floating(dtype(k)), "inputs", "input ", k, " is ", dlprim::name_of(dtype(k)),
          ", must be of integers");
  return integers_of(host(k));
}

std::vector<double> NodeStep::numbers(int k) {
  return numbers_of(host(k));
}

const Attribute* NodeStep::find(const char* name) const {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() ? nullptr : &found->second;
}

namespace {

template <class T>
const T& held(const Attribute& attribute, const char* name, const char* type) {
  const T* value = std::get_if<T>(&attribute.value);
  require(value != nullptr, name, "must be ", type);
  return *value;
}

}  // namespace

int64_t NodeStep::integer(const char* name, int64_t standard) const {
  const Attribute* attribute = find(name);
  return attribute ? held<int64_t>(*attribute, name, "an integer") : standard;
}

double NodeStep::number(const char* name, double standard) const {
  const Attribute* attribute = find(name);
  if (!attribute) return standard;
  if (const auto* whole = std::get_if<int64_t>(&attribute->value)) return static_cast<double>(*whole);
  return held<double>(*attribute, name, "a number");
}

std::string NodeStep::text(const char* name, const std::string& standard) const {
  const Attribute* attribute = find(name);
  return attribute ? held<std::string>(*attribute, name, "text") : standard;
}

std::vector<int64_t> NodeStep::integers(const char* name) const {
  const Attribute* attribute = find(name);
  return attribute ? held<Attribute::Integers>(*attribute, name, "a list of integers")
                   : Attribute::Integers{};
}

std::vector<double> NodeStep::numbers(const char* name) const {
  const Attribute* attribute = find(name);
  return attribute ? held<Attribute::Numbers>(*attribute, name, "a list of numbers") : Attribute::Numbers{};
}

std::vector<std::string> NodeStep::texts(const char* name) const {
  const Attribute* attribute = find(name);
  return attribute ? held<Attribute::Strings>(*attribute, name, "a list of texts") : Attribute::Strings{};
}

namespace {

std::string plan_key(const NetGraph::Node& node, const Options& options,
                     std::initializer_list<TensorDesc> of) {
  PlanKey key("node");
  add_options(key.add(reinterpret_cast<uintptr_t>(&node)), options);
  for (const TensorDesc& desc : of) key.add(desc);
  return key.bytes();
}

}  // namespace

std::shared_ptr<const void> NodeStep::find_plan(std::initializer_list<TensorDesc> of) const {
  const auto found = scope.nodes.plans.find(plan_key(node, options, of));
  return found == scope.nodes.plans.end() ? nullptr : found->second;
}

void NodeStep::keep_plan(std::initializer_list<TensorDesc> of, std::shared_ptr<const void> plan,
                         size_t bytes) const {
  constexpr size_t kMostBytes = size_t{16} << 20;
  if (Rehearsal::active()) return;
  NodeMemory& nodes = scope.nodes;
  if (nodes.plan_bytes + bytes > kMostBytes) nodes.plans.clear(), nodes.plan_bytes = 0;  // fed ever new sizes
  std::string key = plan_key(node, options, of);
  nodes.plan_bytes += bytes + key.size();
  nodes.plans[std::move(key)] = std::move(plan);
}

int NodeStep::axis(const char* name, int64_t standard, int rank) const {
  return normal_axis(integer(name, standard), rank);
}

bool NodeStep::wanted(int k) const {
  return k < output_count() && node.outputs[static_cast<size_t>(k)] != NetGraph::kNone;
}

void NodeStep::output(int k, DType dtype, const Shape& shape) {
  if (k >= output_count()) return;
  element_count(shape);
  out(k).dtype = dtype;
  out(k).shape = shape;
}

std::string place_attribute(int k) {
  return k == 0 ? "place" : "place" + std::to_string(k);
}

Tensor NodeStep::place(int k, bool last) const {
  const std::string name = place_attribute(k);
  if (!has(name.c_str())) return {};
  const std::vector<int64_t> numbers = integers(name.c_str());
  const auto axis = static_cast<int>(numbers[1]);
  const Shape whole(std::vector<int64_t>(numbers.begin() + 3, numbers.end()));
  const Shape& shape = outputs_[static_cast<size_t>(k)].shape;
  const DType dtype = outputs_[static_cast<size_t>(k)].dtype;
  Tensor& result = places_[numbers[0]];
  if (!result.defined())
    result = last && whole.size() == 4 ? channels_last(stream, whole, dtype) : Tensor(stream, whole, dtype);
  if (result.dtype() != dtype || shape.size() != whole.size()) return {};
  return result.slice(axis, numbers[2], numbers[2] + shape[axis]);
}

Tensor NodeStep::take_place(int k) {
  if (!wanted(k)) return {};
  const auto found = places_.find(node.outputs[static_cast<size_t>(k)]);
  if (found == places_.end()) return {};
  const Tensor whole = found->second;
  places_.erase(found);
  const Slot& slot = out(k);
  return whole.dtype() == slot.dtype && whole.shape() == slot.shape ? whole : Tensor();
}

const Tensor& NodeStep::y(int k) {
  Slot& slot = out(k);
  if (!slot.tensor.defined()) slot.tensor = place(k, false);
  if (!slot.tensor.defined()) slot.tensor = Tensor(stream, slot.shape, slot.dtype);
  return slot.tensor;
}

const Tensor& NodeStep::y_as(int k, const Tensor& x) {
  Slot& slot = out(k);
  const Shape& s = slot.shape;
  if (!slot.tensor.defined() && s.size() == 4 && (flag("channels_last") || is_channels_last(x))) {
    slot.tensor = place(k, true);
    if (!slot.tensor.defined()) slot.tensor = channels_last(stream, s, slot.dtype);
  }
  return y(k);
}

RandomState NodeStep::random(int64_t count) const {
  return scope.random.take((count + 3) / 4 * 4);
}

Tensor NodeStep::counting(int64_t start, int64_t count) const {
  const Tensor numbers = scratch({count}, DType::i64);
  if (count != 0) arange(stream, start, 1, numbers, options);
  return numbers;
}

void NodeStep::set(int k, const Tensor& tensor) {
  if (!wanted(k)) return;
  Slot& slot = out(k);
  slot.tensor = tensor;
  slot.dtype = tensor.dtype();
  slot.shape = tensor.shape();
}

void NodeStep::set_host(int k, HostTensor tensor) {
  if (!wanted(k)) return;
  Slot& slot = out(k);
  slot.dtype = tensor.dtype;
  slot.shape = tensor.shape;
  slot.host = std::make_shared<const HostTensor>(std::move(tensor));
}

void NodeStep::set(int k, Slot slot) {
  if (wanted(k)) out(k) = std::move(slot);
}

Tensor channels_last(const Stream& stream, const Shape& shape, DType dtype) {
  return Tensor(stream, {shape[0], shape[2], shape[3], shape[1]}, dtype).permute({0, 3, 1, 2});
}

bool differs_each_time(const NetGraph::Node& node) {
  return !node.bodies.empty() || node.kind == "bernoulli" || node.kind == "multinomial" ||
         node.kind == "random" || node.kind == "dropout";
}

bool is_channels_last(const Tensor& x) {
  if (!x.defined() || x.rank() != 4 || x.is_contiguous()) return false;
  const Shape& s = x.shape();
  const Strides& t = x.strides();
  if (s[2] * s[3] == 1 || (s[1] > 1 && t[1] != 1)) return false;
  const int64_t pitch = s[3] > 1 ? t[3] : t[2];
  return pitch >= s[1] && (s[2] == 1 || t[2] == s[3] * pitch) && (s[0] == 1 || t[0] == s[2] * s[3] * pitch);
}

int normal_axis(int64_t axis, int rank) {
  require(axis >= -rank && axis < rank, "axis", axis, " must be in [", -rank, ", ", rank, ")");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int> normal_axes(const std::vector<int64_t>& axes, int rank) {
  std::vector<int> normal;
  for (int64_t axis : axes) normal.push_back(normal_axis(axis, rank));
  std::sort(normal.begin(), normal.end());
  for (size_t i = 1; i < normal.size(); i++)
    require(normal[i] != normal[i - 1], "axes", "axis ", normal[i], " stands twice");
  return normal;
}

namespace {

/// Which of two dtypes is wider; of signed and unsigned integers, and of the two halves, neither is.
int width_order(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return 0;
    case DType::u8:
    case DType::i8:
      return 1;
    case DType::u16:
    case DType::i16:
      return 2;
    case DType::u32:
    case DType::i32:
      return 3;
    case DType::u64:
    case DType::i64:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 5;
    case DType::f32:
      return 6;
    case DType::f64:
      return 7;
  }
  return 7;
}

}  // namespace

DType joined(DType a, DType b) {
  if (a == b) return a;
  if (is_floating(a) && width_order(a) == width_order(b)) return DType::f32;
  const bool is_a = width_order(a) != width_order(b) ? width_order(a) > width_order(b) : is_signed_integer(b);
  const DType wide = is_a ? a : b, narrow = is_a ? b : a;
  if (is_floating(wide) || is_signed_integer(wide) || !is_signed_integer(narrow)) return wide;
  require(wide != DType::u64, "inputs", "u64 and ", dlprim::name_of(narrow), " have no type that holds both");
  return wide == DType::u8 ? DType::i16 : wide == DType::u16 ? DType::i32 : DType::i64;
}

}  // namespace dlprim::detail
