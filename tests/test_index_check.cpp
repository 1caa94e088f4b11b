// Context::check_indices(): each operator that reads or writes by index has its bad elements named by the
// next wait, right ones pass, and without the switch results are as documented.
#include <dlprim/class_loss.hpp>
#include <dlprim/ctc_loss.hpp>
#include <dlprim/embedding.hpp>
#include <dlprim/gather.hpp>
#include <dlprim/index.hpp>
#include <dlprim/max_unpool.hpp>
#include <dlprim/recording.hpp>

#include <functional>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

/// A context of its own, so that other cases run without the switch.
const Stream& checking() {
  static const Stream& stream = [] {
    const Context own(context().device());
    own.check_indices(true);
    return std::ref(*new Stream(own));  // it stays: drivers may end before statics do
  }();
  return stream;
}

template <class T>
Tensor tensor(const Shape& shape, const std::vector<T>& values) {
  Tensor t(checking().context(), shape, dtype_for<T>());
  write(checking(), t, values);
  return t;
}
Tensor zeros(const Shape& shape) {
  Tensor t(checking().context(), shape, DType::f32);
  fill(checking(), 0, t);
  return t;
}

std::string found() {
  return error_of<IndexError>([] { checking().finish(); });
}
const std::string kNone = "(nothing was thrown)";

}  // namespace

TEST_CASE("a bad index is named with operator, argument, element and value", "[small]") {
  const Tensor x = zeros({3, 4});
  const auto gathered = [&](const Tensor& index) {
    gather(checking(), x, index, 1, zeros(index.shape()));
    return found();
  };
  CHECK(gathered(tensor<int64_t>({3, 2}, {0, 1, 3, -4, -1, 2})) == kNone);
  CHECK(gathered(tensor<int64_t>({3, 2}, {0, 1, 3, 4, -1, -9})) ==
        "gather: index: element [1, 1] is 4, must be from -4 to 3");
  CHECK(gathered(tensor<int64_t>({3, 2}, {-5, 1, 3, 0, -1, 0})) ==
        "gather: index: element [0, 0] is -5, must be from -4 to 3");
  CHECK(gathered(tensor<int32_t>({3, 2}, {0, 1, 3, 0, -1, INT32_MIN})) ==
        "gather: index: element [2, 1] is -2147483648, must be from -4 to 3");
  // An index that is a view with strides of its own.
  const Tensor wide = tensor<int64_t>({2, 3}, {0, 1, 2, 99, 3, 3});
  CHECK(gathered(wide.transpose(0, 1)) == "gather: index: element [0, 1] is 99, must be from -4 to 3");
  // More elements than work-items in a group; the first bad one counts.
  std::vector<int64_t> many(3 * 1000, 1);
  many[2999] = 7, many[1555] = 8;
  CHECK(gathered(tensor<int64_t>({3, 1000}, many)) ==
        "gather: index: element [1, 555] is 8, must be from -4 to 3");
  CHECK(found() == kNone);  // it is thrown once
}

TEST_CASE("every operator that takes indices checks them", "[small]") {
  const Stream& stream = checking();
  const Tensor table = zeros({5, 3}), bad = tensor<int64_t>({2}, {1, 5}),
               good = tensor<int64_t>({2}, {4, -5});
  const Tensor rows = zeros({2, 3});
  const auto at = [](const char* where, int64_t value, const char* range) {
    return std::string(where) + " is " + std::to_string(value) + ", must be " + range;
  };
  embedding(stream, table, bad, rows);
  CHECK(found() == at("embedding: indices[0]: element [1]", 5, "from -5 to 4"));
  embedding(stream, table, good, rows);
  CHECK(found() == kNone);
  embedding_backward(stream, rows, bad, {}, table);
  CHECK(found() == at("embedding_backward: indices[0]: element [1]", 5, "from -5 to 4"));
  EmbeddingParams padded;
  padded.padding_idx = 7;  // what stands for no row need not be one
  embedding_backward(stream, rows, tensor<int64_t>({2}, {7, 2}), padded, table);
  CHECK(found() == kNone);
  index_select(stream, table, bad, 0, rows);
  CHECK(found() == at("index_select: indices[0]: element [1]", 5, "from -5 to 4"));
  index_put(stream, table, {Tensor(), bad}, zeros({5, 2}), {}, table);
  CHECK(found() == at("index_put: indices[1]: element [1]", 5, "from -3 to 2"));
  index(stream, table, {good, tensor<int64_t>({2}, {0, -4})}, zeros({2}));
  CHECK(found() == at("index: indices[1]: element [1]", -4, "from -3 to 2"));
  scatter(stream, table, tensor<int64_t>({1, 3}, {0, 1, 17}), zeros({1, 3}), 0, {}, table);
  CHECK(found() == at("scatter: index: element [0, 2]", 17, "from -5 to 4"));

  const Tensor x = zeros({2, 4}), loss = zeros({1}), labels = tensor<int64_t>({2}, {-100, 4});
  cross_entropy(stream, x, labels, {}, {}, loss);
  CHECK(found() == at("cross_entropy: target: element [1]", 4, "from 0 to 3, or -100"));
  cross_entropy_backward(stream, loss, x, labels, {}, {}, zeros({2, 4}));
  CHECK(found() == at("cross_entropy_backward: target: element [1]", 4, "from 0 to 3, or -100"));
  nll_loss(stream, x, tensor<int64_t>({2}, {3, -1}), {}, {}, loss);
  CHECK(found() == at("nll_loss: target: element [1]", -1, "from 0 to 3, or -100"));
  nll_loss_backward(stream, loss, tensor<uint8_t>({2}, {9, 0}), {}, {}, zeros({2, 4}));
  CHECK(found() == at("nll_loss_backward: target: element [0]", 9, "from 0 to 3, or -100"));
  cross_entropy(stream, x, x, {}, {}, loss);  // probabilities are no labels
  CHECK(found() == kNone);

  const Tensor pooled = zeros({1, 1, 2, 2}), places = tensor<int64_t>({1, 1, 2, 2}, {0, 3, 15, 16});
  max_unpool(stream, pooled, places, 2, zeros({1, 1, 4, 4}));
  CHECK(found() == at("max_unpool: indices: element [0, 0, 1, 1]", 16, "from 0 to 15"));
  max_unpool_backward(stream, zeros({1, 1, 4, 4}), places, 2, pooled);
  CHECK(found() == at("max_unpool_backward: indices: element [0, 0, 1, 1]", 16, "from 0 to 15"));

  const Tensor sequences = zeros({6, 2, 4}), targets = tensor<int64_t>({2, 3}, {1, 2, 3, 1, 1, 1});
  const TensorDesc alpha = ctc_loss_alpha(sequences, targets, DType::f32);
  ctc_loss(stream, {sequences, targets, tensor<int64_t>({2}, {6, 7}), tensor<int64_t>({2}, {3, 1})}, {},
           zeros({1}), Tensor(stream.context(), alpha.shape, alpha.dtype));
  CHECK(found() == at("ctc_loss: x_lengths: element [1]", 7, "from 0 to 6"));
  ctc_loss(stream, {sequences, targets, tensor<int64_t>({2}, {6, 6}), tensor<int64_t>({2}, {-1, 1})}, {},
           zeros({1}), Tensor(stream.context(), alpha.shape, alpha.dtype));
  CHECK(found() == at("ctc_loss: label_lengths: element [0]", -1, "from 0 to 3"));
}

TEST_CASE("reads throw too, and the first of several bad indices of a stream counts", "[small]") {
  const Tensor x = zeros({3}), y = zeros({1});
  gather(checking(), x, tensor<int64_t>({1}, {3}), 0, y);
  gather(checking(), x, tensor<int64_t>({1}, {4}), 0, y);
  CHECK(error_of<IndexError>([&] { read<float>(checking(), y); }) ==
        "gather: index: element [0] is 3, must be from -3 to 2");
  CHECK(read<float>(checking(), y) == std::vector<float>{0});
}

TEST_CASE("recordings search again in each replay", "[small]") {
  const Tensor x = zeros({3}), y = zeros({2}), indices = tensor<int64_t>({2}, {1, 2});
  const Recording recording(checking(), [&] { gather(checking(), x, indices, 0, y); });
  CHECK(found() == kNone);
  recording.replay();
  CHECK(found() == kNone);
  write(checking(), indices, std::vector<int64_t>{1, 30});
  recording.replay();
  CHECK(found() == "gather: index: element [1] is 30, must be from -3 to 2");
}

TEST_CASE("without the switch nothing is searched, and it can be switched off", "[small]") {
  const Tensor x = zeros({3}), y = zeros({1}), bad = tensor<int64_t>({1}, {3});
  checking().context().check_indices(false);
  gather(checking(), x, bad, 0, y);
  CHECK(found() == kNone);
  CHECK(read<float>(checking(), y) == std::vector<float>{0});
  checking().context().check_indices(true);
  CHECK(checking().context().checks_indices());
  gather(checking(), x, bad, 0, y);
  CHECK(found() != kNone);
}
