// What random networks are made of: values so far, choices among them, nodes.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cases/graph.hpp"
#include "cases/random_graph.hpp"
#include "support.hpp"

namespace dlprim::test {

struct Place {
  int value = NetGraph::kNone;
  Shape shape;
};

class RandomNodes {
 protected:
  using Integers = Attribute::Integers;

  explicit RandomNodes(uint64_t seed) : rng_(seed) {}

  // Choices.
  bool once_in(int64_t n) { return rng_.integer(1, n) == 1; }
  template <class T>
  T one_of(const std::vector<T>& list) {
    return list[static_cast<size_t>(rng_.integer(0, static_cast<int64_t>(list.size()) - 1))];
  }
  /// A value of this rank (0: any); the youngest half of the time.
  std::optional<Place> any(int rank) {
    if (in_chain_)
      return rank == 0 || places_.back().shape.size() == rank ? places_.back() : std::optional<Place>();
    std::vector<Place> found;
    for (const Place& place : places_)
      if (rank == 0 || place.shape.size() == rank) found.push_back(place);
    if (found.empty()) return {};
    return once_in(2) ? found.back() : one_of(found);
  }
  int some_axis(const Place& x) { return static_cast<int>(rng_.integer(0, x.shape.size() - 1)); }
  std::optional<Place> like(const Place& x) {
    std::vector<Place> found;
    for (const Place& place : places_)
      if (place.shape == x.shape) found.push_back(place);
    return once_in(3) ? found.front() : one_of(found);
  }

  // Nodes.
  NetGraph& g() { return made_.graph; }
  int parameter(const Shape& shape, double low, double high) {
    return add_parameter(g(), rng_, "p" + std::to_string(parameters_++), shape, low, high);
  }
  int number(double value) { return g().add_constant(test::number(value)); }
  int add(const char* kind, std::vector<int> inputs, Attributes attributes = {}) {
    return g().add(kind, std::move(inputs), std::move(attributes));
  }
  int apply(const std::string& function, std::vector<int> inputs) {
    return add("elementwise", std::move(inputs), {{"function", function}});
  }
  /// The two in either order.
  int apply_either(const char* function, int a, int b) {
    return once_in(2) ? apply(function, {a, b}) : apply(function, {b, a});
  }
  void keep(int value, Shape shape) { places_.push_back({value, std::move(shape)}); }

  void add_input(Shape shape) {
    made_.inputs.push_back(shape);
    const std::string name = "x" + std::to_string(made_.inputs.size());
    keep(g().add_input(name, DType::f32, {shape.begin(), shape.end()}), shape);
  }

  /// `shape` as a constant, or as exporters write it: of sizes of `like` and numbers.
  int sizes(const Shape& shape, const Place& like) {
    if (once_in(2)) return g().add_constant(whole({shape.size()}, {shape.begin(), shape.end()}));
    std::vector<int> parts;
    for (const int64_t size : shape) {
      const auto* found = std::find(like.shape.begin(), like.shape.end(), size);
      parts.push_back(
          g().add_constant(whole({1}, {found == like.shape.end() ? size : found - like.shape.begin()})));
      if (found != like.shape.end())
        parts.back() = add("gather", {add("shape", {like.value}), parts.back()}, {{"axis", 0}});
    }
    return add("concat", parts, {{"axis", 0}});
  }
  int reshaped(int value, const Shape& shape, const Place& like) {
    return add("reshape", {value, sizes(shape, like)});
  }

  Rng rng_;
  RandomGraph made_;
  std::vector<Place> places_;
  bool in_chain_ = false;  ///< nodes take the youngest value
  int parameters_ = 0;
};

}  // namespace dlprim::test
