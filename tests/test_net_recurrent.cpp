// Recurrent layers against their equations, place by place, in f64.
#include <algorithm>
#include <cmath>
#include <functional>

#include <dlprim/copy.hpp>
#include <dlprim/net_host.hpp>
#include <dlprim/net_model.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Numbers = std::vector<double>;
using Integers = std::vector<int64_t>;
using Activation1 = std::function<double(double)>;

struct Case {
  std::string cell = "lstm", direction = "forward";
  int64_t places = 3, batch = 2, inputs = 3, width = 4;
  bool bias = true, state = true, lengths = false, batch_first = false, peepholes = false;
  bool reset_after = false, input_forget = false, others = false;  ///< others: activations that are not usual
  double clip = 0;

  int64_t directions() const { return direction == "bidirectional" ? 2 : 1; }
  int64_t gates() const { return cell == "lstm" ? 4 : cell == "gru" ? 3 : 1; }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.cell << " " << c.direction << " T=" << c.places << " B=" << c.batch << " bias=" << c.bias
             << " state=" << c.state << " lengths=" << c.lengths << " batch_first=" << c.batch_first
             << " peepholes=" << c.peepholes << " reset_after=" << c.reset_after
             << " input_forget=" << c.input_forget << " others=" << c.others << " clip=" << c.clip;
}

/// All numbers of a case; x and states are [T, B, I] and [D, B, H].
struct Data {
  explicit Data(const Case& c) : rng(7) {
    const int64_t d = c.directions(), g = c.gates();
    x = some(c.places * c.batch * c.inputs), w = some(d * g * c.width * c.inputs);
    r = some(d * g * c.width * c.width), bias = some(d * 2 * g * c.width);
    h = some(d * c.batch * c.width), cell = some(d * c.batch * c.width), peepholes = some(d * 3 * c.width);
    for (int64_t b = 0; b < c.batch; b++) lengths.push_back((b + 1) % (c.places + 1));
  }
  Numbers some(int64_t count) {
    Numbers numbers;
    for (int64_t i = 0; i < count; i++) numbers.push_back(rng.real(-1, 1));
    return numbers;
  }
  Rng rng;
  Numbers x, w, r, bias, h, cell, peepholes;
  Integers lengths;
};

struct Result {
  Numbers y, h, cell;  ///< [T, D, B, H], [D, B, H]
};

double sigmoid(double v) {
  return 1 / (1 + std::exp(-v));
}

/// One sample of one direction.
void run_sample(const Case& c, const Data& data, int64_t d, int64_t b, Result& result) {
  const int64_t H = c.width, G = c.gates(), I = c.inputs;
  const auto at = [](const Numbers& list, int64_t i) { return list[static_cast<size_t>(i)]; };
  const auto clipped = [&](double v) { return c.clip > 0 ? std::clamp(v, -c.clip, c.clip) : v; };
  const bool rnn = c.cell == "rnn";
  const Activation1 f = [&](double v) {
    v = clipped(v);
    if (c.others) return rnn ? std::max(v, 0.0) : std::min(std::max(0.3 * v + 0.4, 0.0), 1.0);
    return rnn ? std::tanh(v) : sigmoid(v);
  };
  const Activation1 g = [&](double v) {
    v = clipped(v);
    return c.others ? v / (1 + std::abs(v)) : std::tanh(v);
  };
  Numbers h(static_cast<size_t>(H)), cell = h;
  for (size_t i = 0; c.state && i < h.size(); i++) {
    h[i] = at(data.h, (d * c.batch + b) * H + static_cast<int64_t>(i));
    cell[i] = at(data.cell, (d * c.batch + b) * H + static_cast<int64_t>(i));
  }
  const int64_t length = c.lengths ? data.lengths[static_cast<size_t>(b)] : c.places;
  for (int64_t step = 0; step < length; step++) {
    const int64_t t = c.direction == "reverse" || d == 1 ? length - 1 - step : step;
    const auto from_x = [&](int64_t gate, int64_t j) {
      double sum = c.bias ? at(data.bias, (d * 2 * G + gate) * H + j) : 0;
      for (int64_t i = 0; i < I; i++)
        sum += at(data.w, ((d * G + gate) * H + j) * I + i) * at(data.x, (t * c.batch + b) * I + i);
      return sum;
    };
    const auto from_h = [&](int64_t gate, int64_t j, const Numbers& state) {
      double sum = c.bias ? at(data.bias, (d * 2 * G + G + gate) * H + j) : 0;
      for (int64_t i = 0; i < H; i++)
        sum += at(data.r, ((d * G + gate) * H + j) * H + i) * state[static_cast<size_t>(i)];
      return sum;
    };
    const auto gate = [&](int64_t k, int64_t j) { return from_x(k, j) + from_h(k, j, h); };
    const auto peephole = [&](int64_t k, int64_t j) {
      return c.peepholes ? at(data.peepholes, (d * 3 + k) * H + j) : 0.0;
    };
    Numbers next = h, reset = h;
    if (c.cell == "gru" && !c.reset_after)
      for (int64_t j = 0; j < H; j++) reset[static_cast<size_t>(j)] *= f(gate(1, j));
    for (int64_t j = 0; j < H; j++) {
      double& out = next[static_cast<size_t>(j)];
      if (rnn) {
        out = f(gate(0, j));
      } else if (c.cell == "gru") {
        const double z = f(gate(0, j));
        const double inner = c.reset_after ? from_x(2, j) + f(gate(1, j)) * from_h(2, j, h)
                                           : from_x(2, j) + from_h(2, j, reset);
        out = (1 - z) * g(inner) + z * h[static_cast<size_t>(j)];
      } else {
        double& kept = cell[static_cast<size_t>(j)];
        const double i = f(gate(0, j) + peephole(0, j) * kept);
        const double forget = c.input_forget ? 1 - i : f(gate(2, j) + peephole(2, j) * kept);
        kept = forget * kept + i * g(gate(3, j));
        out = f(gate(1, j) + peephole(1, j) * kept) * g(kept);
      }
    }
    h = next;
    for (int64_t j = 0; j < H; j++)
      result.y[static_cast<size_t>(((t * c.directions() + d) * c.batch + b) * H + j)] =
          h[static_cast<size_t>(j)];
  }
  for (int64_t j = 0; j < H; j++) {
    result.h[static_cast<size_t>((d * c.batch + b) * H + j)] = h[static_cast<size_t>(j)];
    result.cell[static_cast<size_t>((d * c.batch + b) * H + j)] = cell[static_cast<size_t>(j)];
  }
}

Result reference(const Case& c, const Data& data) {
  Result result;
  result.y.resize(static_cast<size_t>(c.places * c.directions() * c.batch * c.width));
  result.h.resize(static_cast<size_t>(c.directions() * c.batch * c.width));
  result.cell = result.h;
  for (int64_t d = 0; d < c.directions(); d++)
    for (int64_t b = 0; b < c.batch; b++) run_sample(c, data, d, b, result);
  return result;
}

NetGraph graph_of(const Case& c, const Data& data, DType dtype) {
  const int64_t d = c.directions(), all = c.gates() * c.width;
  NetGraph g;
  const auto constant = [&](const Shape& shape, const Numbers& numbers) {
    return g.add_constant(host_tensor(dtype, shape, numbers));
  };
  const auto input = [&](const char* name, const Shape& shape, DType type) {
    std::vector<Dimension> dims;
    for (int i = 0; i < shape.size(); i++) dims.push_back({shape[i]});
    return g.add_input(name, type, dims);
  };
  // What is fed has its axes turned where samples come first.
  const auto fed = [&](const char* name, const Shape& shape) {
    const int value = input(name, shape, dtype);
    return c.batch_first ? g.add("transpose", {value}, {{"axes", Integers{1, 0, 2}}}) : value;
  };
  const Shape state{d, c.batch, c.width};
  std::vector<int> inputs{fed("x", {c.places, c.batch, c.inputs}), constant({d, all, c.inputs}, data.w),
                          constant({d, all, c.width}, data.r)};
  inputs.push_back(c.bias ? constant({d, 2 * all}, data.bias) : NetGraph::kNone);
  inputs.push_back(c.lengths ? input("lengths", {c.batch}, DType::i64) : NetGraph::kNone);
  inputs.push_back(c.state ? fed("h", state) : NetGraph::kNone);
  inputs.push_back(c.state && c.cell == "lstm" ? fed("cell", state) : NetGraph::kNone);
  inputs.push_back(c.peepholes ? constant({d, 3 * c.width}, data.peepholes) : NetGraph::kNone);
  Attributes attributes{{"cell", c.cell},
                        {"direction", c.direction},
                        {"batch_first", c.batch_first},
                        {"reset_after", c.reset_after},
                        {"input_forget", c.input_forget},
                        {"clip", c.clip}};
  if (c.others) {
    std::vector<std::string> names;
    Numbers alphas, betas;
    for (int64_t k = 0; k < d; k++) {
      if (c.cell == "rnn") {
        names.emplace_back("relu"), alphas.push_back(0), betas.push_back(0);
        continue;
      }
      names.insert(names.end(), {"hardsigmoid", "softsign"});
      alphas.insert(alphas.end(), {0.3, 0}), betas.insert(betas.end(), {0.4, 0});
      if (c.cell == "lstm") names.emplace_back("softsign"), alphas.push_back(0), betas.push_back(0);
    }
    attributes.emplace("activations", names);
    attributes.emplace("alphas", alphas);
    attributes.emplace("betas", betas);
  }
  const std::vector<int> y = g.add_many("recurrent", inputs, c.cell == "lstm" ? 3 : 2, attributes);
  // Back to [T, D, B, H] and [D, B, H].
  const auto turned = [&](int value, const Integers& axes) {
    return c.batch_first ? g.add("transpose", {value}, {{"axes", axes}}) : value;
  };
  g.add_output("y", turned(y[0], {1, 2, 0, 3}));
  g.add_output("h", turned(y[1], {1, 0, 2}));
  if (c.cell == "lstm") g.add_output("cell", turned(y[2], {1, 0, 2}));
  return g;
}

void check(const Case& c) {
  const DType dtype = has_doubles() ? DType::f64 : DType::f32;
  INFO(c);
  const Data data(c);
  const Result expected = reference(c, data);
  const Model model(graph_of(c, data, dtype));
  const Shape state{c.directions(), c.batch, c.width};
  Model::Tensors feeds;
  const auto feed = [&](const char* name, const HostTensor& tensor) {
    feeds[name] = to_device(stream(), tensor);
  };
  feed("x", host_tensor(dtype, {c.places, c.batch, c.inputs}, data.x));
  if (c.lengths) feed("lengths", host_tensor(DType::i64, {c.batch}, data.lengths));
  if (c.state) feed("h", host_tensor(dtype, state, data.h));
  if (c.state && c.cell == "lstm") feed("cell", host_tensor(dtype, state, data.cell));
  for (int run = 0; run < 3; run++) {  // node by node, recorded, replayed
    const Model::Tensors got = model.run(stream(), feeds);
    const auto compare = [&](const char* name, const Numbers& numbers) {
      const Numbers values = numbers_of(to_host(stream(), got.at(name), name));
      REQUIRE(values.size() == numbers.size());
      double worst = 0;
      for (size_t i = 0; i < values.size(); i++) worst = std::max(worst, std::abs(values[i] - numbers[i]));
      INFO("run " << run << ", " << name);
      CHECK(worst <= (dtype == DType::f64 ? 1e-13 : 2e-6));
    };
    compare("y", expected.y);
    compare("h", expected.h);
    if (c.cell == "lstm") compare("cell", expected.cell);
  }
}

}  // namespace

TEST_CASE("recurrent layers compute their equations", "[net_recurrent]") {
  for (const char* cell : {"lstm", "gru", "rnn"})
    for (const char* direction : {"forward", "reverse", "bidirectional"})
      for (const bool plain : {true, false}) {
        Case c;
        c.cell = cell, c.direction = direction;
        c.bias = c.state = !plain;
        c.lengths = !plain;
        check(c);
        c.batch_first = true, c.state = true;
        check(c);
      }
}

TEST_CASE("recurrent layers of one sample and one place, as streams have them", "[net_recurrent]") {
  for (const char* cell : {"lstm", "gru", "rnn"})
    for (const bool bias : {false, true}) {
      Case c;
      c.cell = cell, c.bias = bias, c.places = c.batch = 1, c.width = 5;
      check(c);
      c.places = 0;
      check(c);
    }
}

TEST_CASE("recurrent layers of every kind", "[net_recurrent]") {
  for (const char* direction : {"forward", "bidirectional"}) {
    Case c;
    c.direction = direction;
    c.peepholes = true;
    check(c);
    c.input_forget = c.lengths = true;
    check(c);
    c.peepholes = false, c.clip = 0.4;
    check(c);
    c.others = true;
    check(c);
    c.cell = "gru", c.input_forget = false;
    for (const bool reset_after : {true, false})
      for (const bool bias : {true, false}) {
        c.reset_after = reset_after, c.bias = bias;
        check(c);
      }
    c.cell = "rnn", c.reset_after = false;
    check(c);
  }
}
