// Words and launches of concat.cl.
#include "ops/movement/concat.hpp"

#include <algorithm>
#include <climits>
#include <numeric>

#include "core/composed.hpp"
#include "core/observer.hpp"
#include "ops/index/indexing.hpp"
#include "ops/lib/divisor.hpp"

namespace dlprim::detail {
namespace {

constexpr size_t kInputs = 16;  // of a launch
constexpr int64_t kLocal = 256, kUnroll = 4;

/// As concat.cl has it.
struct Table {
  int64_t offset[kInputs], y_offset;
  int32_t first[kInputs + 1], count[kInputs], start[kInputs];
  Divisor run[kInputs];
  int32_t y_run;
};

/// An input that has elements; bytes.
struct Part {
  const Tensor* x;
  int64_t run, start;
};

/// What is moved: `outer` times the parts' runs.
struct Runs {
  std::vector<Part> parts;
  int64_t outer = 1, y_run = 0, word = 16;
};

/// y's dimensions from the one with the largest stride on.
std::vector<int> order_of(const Tensor& y) {
  std::vector<int> order(static_cast<size_t>(y.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return y.shape()[b] != 1 && (y.shape()[a] == 1 || y.strides()[a] > y.strides()[b]);
  });
  return order;
}

bool is_dense(const Tensor& x, const std::vector<int>& order) {
  TensorDesc desc({}, {}, x.dtype(), true);
  for (int d : order) {
    desc.shape.push_back(x.shape()[d]);
    desc.strides.push_back(x.strides()[d]);
  }
  return is_row_major(desc);
}

int64_t first_byte(const Tensor& x) {
  return x.offset() * static_cast<int64_t>(size_of(x.dtype()));
}

/// None if the kernel does not serve.
Runs find_runs(const std::vector<Tensor>& inputs, int axis, const Tensor& y) {
  const std::vector<int> order = order_of(y);
  if (!is_dense(y, order)) return {};
  Runs runs;
  const auto at = std::find(order.begin(), order.end(), axis);
  for (auto d = order.begin(); d != at; d++) runs.outer *= y.shape()[*d];
  int64_t inner = static_cast<int64_t>(size_of(y.dtype()));
  for (auto d = at + 1; d != order.end(); d++) inner *= y.shape()[*d];
  int64_t all = first_byte(y) | runs.word;
  for (const Tensor& x : inputs) {
    if (x.numel() == 0) continue;
    if (x.dtype() != y.dtype() || !is_dense(x, order)) return {};
    runs.parts.push_back({&x, inner * x.shape()[axis], runs.y_run});
    runs.y_run += runs.parts.back().run;
    all |= first_byte(x) | runs.parts.back().run;
  }
  runs.word = all & -all;
  return runs;
}

Kernel kernel_of(const Context& context, int64_t word) {
  return *context.state().plans.get<Kernel>(PlanKey("concat").add(word), [&] {
    Defines defines;
    defines.set("WORD", word_type(word)).set("INPUTS", static_cast<int64_t>(kInputs));
    defines.set("LOCAL", kLocal).set("UNROLL", kUnroll);
    return context.state().programs.kernel("concat", "concat", defines);
  });
}

void launch(const Stream& stream, const Kernel& kernel, const Runs& runs, size_t begin, const Tensor& y) {
  const size_t end = std::min(begin + kInputs, runs.parts.size());
  Table table = {};
  Launch launch(stream, kernel);
  for (size_t k = 0; k < kInputs; k++) {
    const bool there = begin + k < end;
    // What is not there repeats the last one's buffer, of which it has no groups.
    const Part& part = runs.parts[there ? begin + k : end - 1];
    const int64_t count = runs.outer * part.run / runs.word;
    table.offset[k] = first_byte(*part.x) / runs.word;
    table.count[k] = static_cast<int32_t>(count);
    table.start[k] = static_cast<int32_t>(part.start / runs.word);
    table.run[k] = divisor_of(static_cast<int>(part.run / runs.word));
    table.first[k + 1] =
        table.first[k] + (there ? static_cast<int32_t>(ceil_div(count, kLocal * kUnroll)) : 0);
    touch(stream.state(), *part.x);
    const cl_mem buffer = part.x->storage()->buffer();
    launch.bind(&buffer, sizeof buffer);
  }
  table.y_offset = first_byte(y) / runs.word;
  table.y_run = static_cast<int32_t>(runs.y_run / runs.word);
  touch(stream.state(), y);
  const cl_mem buffer = y.storage()->buffer();
  launch.bind(&buffer, sizeof buffer).bind(&table, sizeof table);
  launch.run({static_cast<size_t>(table.first[kInputs] * kLocal)}, {static_cast<size_t>(kLocal)});
}

}  // namespace

bool concat_words(const Stream& stream, const std::vector<Tensor>& inputs, int axis, const Tensor& y) {
  const Runs runs = find_runs(inputs, axis, y);
  constexpr int64_t kMost = INT_MAX - kLocal * kUnroll;
  if (runs.parts.empty() || runs.outer * runs.y_run / runs.word > kMost) return false;
  const Kernel kernel = kernel_of(stream.context(), runs.word);
  const OperatorScope scope(stream, "op=concat engine=words", 0, static_cast<double>(2 * y.bytes()));
  for (size_t begin = 0; begin < runs.parts.size(); begin += kInputs) launch(stream, kernel, runs, begin, y);
  return true;
}

}  // namespace dlprim::detail
