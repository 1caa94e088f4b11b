// Nets when something fails on the way: what had been there before is there afterwards, and the same call
// works once the cause is gone.
#include <limits>

#include <dlprim/net.hpp>
#include <dlprim/solver.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

/// A context of its own, whose memory can be made scarce.
struct Room {
  Context own{context().device()};
  Stream stream{own};

  /// Leaves `bytes` beyond what is in use now.
  void leave(uint64_t bytes) const {
    stream.finish();
    own.empty_cache();
    own.set_memory_limit(own.memory_stats().held + bytes);
  }
  void open() const { own.set_memory_limit(kUnlimited); }

  Tensor tensor(const Shape& shape, double value) const {
    const Tensor t(stream, shape);
    fill(stream, value, t);
    return t;
  }
  std::vector<float> values(const Tensor& t) const { return read<float>(stream, t); }
};

/// Two layers; the gradients of the first come after those of the second. Each weight is larger than what the
/// pool cuts from a common buffer.
struct WideNet {
  explicit WideNet(const Room& room_) : room(room_), net(room.stream, 3) {
    x = net.input({1536});
    y = net.linear(net.linear(x, LinearLayer(2048)), LinearLayer(1536));
  }
  Pass forward(double scale) const {
    return net.forward(room.stream, Mode::training, {{x, room.tensor({2, 1536}, scale)}}, {y});
  }
  std::vector<std::vector<float>> gradients() const {
    std::vector<std::vector<float>> result;
    for (const Parameter& p : net.parameters()) result.push_back(room.values(p.gradient));
    return result;
  }
  std::vector<std::vector<float>> weights() const {
    std::vector<std::vector<float>> result;
    for (const Parameter& p : net.parameters()) result.push_back(room.values(p.value));
    return result;
  }

  const Room& room;
  Net net;
  Value x, y;
};

}  // namespace

TEST_CASE("a layer without room for its parameters leaves none behind") {
  const Room room;
  Net net(room.stream, 5), untroubled(room.stream, 5);
  const Value x = net.input({256, 1, 1});
  const Value flat = net.flatten(x);
  room.leave(uint64_t{4096} * 256 * 4);  // the weight fits, the bias does not
  CHECK_THROWS_AS(net.linear(flat, 4096), OutOfMemory);
  CHECK(net.parameters().empty());
  CHECK_THROWS_AS(net.conv(x, ConvLayer(4096, 1)), OutOfMemory);
  CHECK(net.parameters().empty());
  room.leave(1024);  // one of the four
  CHECK_THROWS_AS(net.batch_norm(x), OutOfMemory);
  CHECK(net.parameters().empty());

  room.open();
  net.linear(flat, 8);
  net.batch_norm(x);
  untroubled.linear(untroubled.flatten(untroubled.input({256, 1, 1})), 8);
  REQUIRE(net.parameters().size() == 6);
  CHECK(net.parameters()[0].name == "linear1.weight");
  CHECK(net.parameters()[2].name == "batch_norm1.weight");
  for (size_t i = 0; i < 2; i++)  // no random number was used up
    CHECK(room.values(net.parameters()[i].value) == room.values(untroubled.parameters()[i].value));
}

TEST_CASE("a pass that a later layer refuses changes no statistics", "[small]") {
  Net net(stream(), 1);
  const Value x = net.input({2, 3, 3});
  const Value y = net.batch_norm(net.global_avg_pool(net.batch_norm(x)));
  const Tensor one = device_tensor({1, 2, 3, 3}, std::vector<float>(18, 5));
  const auto forward = [&](Mode mode) { net.forward(stream(), mode, {{x, one}}, {y}); };
  CHECK(
      error_of<ValidationError>([&] { forward(Mode::training); }) ==
      "feeds: 'batch_norm2' has shape [1, 2, 1, 1]: training needs 2 or more values in a channel, to have a "
      "variance");
  for (const Parameter& p : net.parameters()) {
    const float start = p.name.find("weight") != std::string::npos || p.name.find("var") != std::string::npos;
    INFO(p.name);
    CHECK(host_values(p.value) == std::vector<float>(2, start));
  }
  CHECK_NOTHROW(forward(Mode::evaluation));
}

TEST_CASE("a backward pass that fails leaves the gradients before it") {
  const Room room;
  const WideNet wide(room);
  const Tensor dy = room.tensor({2, 1536}, 1);
  wide.forward(1).backward(wide.y, {}, dy);
  const auto before = wide.gradients();
  int failures = 0;
  for (uint64_t extra = 0;; extra += uint64_t{4} << 20) {
    room.open();
    Pass pass = wide.forward(2);
    room.leave(extra);
    try {
      pass.backward(wide.y, {wide.x}, dy);
    } catch (const OutOfMemory&) {
      failures++;
      room.open();
      CHECK(wide.gradients() == before);
      CHECK(error_of<ValidationError>([&] { pass.gradient(wide.x); }) != "(nothing was thrown)");
      continue;
    }
    break;
  }
  CHECK(failures >= 3);  // among them one between the two layers
  room.open();
  CHECK(wide.gradients() != before);
}

TEST_CASE("a step without room for the solver's memory changes no parameter") {
  const Room room;
  const WideNet wide(room), untroubled(room);
  for (const WideNet* each : {&wide, &untroubled})
    each->forward(1).backward(each->y, {}, room.tensor({2, 1536}, 1));
  Adam adam(wide.net), other(untroubled.net);
  const auto before = wide.weights();
  int failures = 0;
  for (uint64_t extra = 0;; extra += uint64_t{4} << 20) {
    room.leave(extra);
    try {
      adam.step(room.stream);
    } catch (const OutOfMemory&) {
      failures++;
      CHECK(wide.weights() == before);
      continue;
    }
    break;
  }
  CHECK(failures >= 3);
  room.open();
  other.step(room.stream);
  CHECK(wide.weights() == untroubled.weights());  // the failures did not count as steps
}
