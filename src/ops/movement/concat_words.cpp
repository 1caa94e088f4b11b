// Concatenation on GPUs, engine `words`: words and launches of concat.cl.
#include <algorithm>
#include <climits>
#include <numeric>

#include "core/composed.hpp"
#include "core/observer.hpp"
#include "ops/index/indexing.hpp"
#include "ops/lib/divisor.hpp"
#include "ops/movement/concat_impl.hpp"

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

/// An input that has elements, as numbers of bytes.
struct Part {
  size_t input;
  int64_t run, start;
};

/// What is moved: `outer` times the parts' runs.
struct Runs {
  std::vector<Part> parts;
  int64_t outer = 1, y_run = 0;
  int64_t word = 16;  ///< the widest that runs consist of
};

/// y's dimensions from the one with the largest stride on.
std::vector<int> order_of(const TensorDesc& y) {
  std::vector<int> order(static_cast<size_t>(y.shape.size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return y.shape[b] != 1 && (y.shape[a] == 1 || y.strides[a] > y.strides[b]);
  });
  return order;
}

bool is_dense(const TensorDesc& x, const std::vector<int>& order) {
  TensorDesc desc({}, {}, x.dtype, true);
  for (int d : order) {
    desc.shape.push_back(x.shape[d]);
    desc.strides.push_back(x.strides[d]);
  }
  return is_row_major(desc);
}

int64_t lowest_bit(int64_t all) {
  return all & -all;
}

/// Without parts if the kernel does not serve.
Runs find_runs(const ConcatDesc& d) {
  const std::vector<int> order = order_of(d.y);
  if (!is_dense(d.y, order)) return {};
  Runs runs;
  const auto at = std::find(order.begin(), order.end(), d.axis);
  for (auto i = order.begin(); i != at; i++) runs.outer *= d.y.shape[*i];
  auto inner = static_cast<int64_t>(size_of(d.y.dtype));
  for (auto i = at + 1; i != order.end(); i++) inner *= d.y.shape[*i];
  int64_t all = runs.word;
  for (size_t i = 0; i < d.inputs.size(); i++) {
    const TensorDesc& x = d.inputs[i];
    if (element_count(x.shape) == 0) continue;
    if (x.dtype != d.y.dtype || !is_dense(x, order)) return {};
    runs.parts.push_back({i, inner * x.shape[d.axis], runs.y_run});
    runs.y_run += runs.parts.back().run;
    all |= runs.parts.back().run;
  }
  runs.word = lowest_bit(all);
  return runs;
}

/// The narrowest word that tensors as described may need.
int64_t least_word(const ConcatDesc& d, const Runs& runs) {
  bool aligned = d.y.aligned;
  for (const Part& part : runs.parts) aligned = aligned && d.inputs[part.input].aligned;
  return aligned ? runs.word : static_cast<int64_t>(size_of(d.y.dtype));
}

int64_t first_byte(const Tensor& x) {
  return x.offset() * static_cast<int64_t>(size_of(x.dtype()));
}

struct Words : Concat::Impl {
  Words(const Context& context, const ConcatDesc& d) : Impl(d), runs(find_runs(d)) {
    for (int64_t word = least_word(d, runs); word <= runs.word; word *= 2) {
      Defines defines;
      defines.set("WORD", word_type(word)).set("INPUTS", static_cast<int64_t>(kInputs));
      defines.set("LOCAL", kLocal).set("UNROLL", kUnroll);
      kernels.emplace_back(word, context.state().programs.kernel("concat", "concat", defines));
    }
  }
  void run(const Stream& stream, const std::vector<Tensor>& inputs, const Tensor& y) const override {
    int64_t all = runs.word | first_byte(y);
    for (const Part& part : runs.parts) all |= first_byte(inputs[part.input]);
    for (const auto& [word, kernel] : kernels)
      if (word == lowest_bit(all))
        for (size_t begin = 0; begin < runs.parts.size(); begin += kInputs)
          launch(stream, kernel, word, begin, inputs, y);
  }
  void launch(const Stream& stream, const Kernel& kernel, int64_t word, size_t begin,
              const std::vector<Tensor>& inputs, const Tensor& y) const;

  Runs runs;
  std::vector<std::pair<int64_t, Kernel>> kernels;  ///< by the bytes of their words, ascending
};

void Words::launch(const Stream& stream, const Kernel& kernel, int64_t word, size_t begin,
                   const std::vector<Tensor>& inputs, const Tensor& y) const {
  const size_t end = std::min(begin + kInputs, runs.parts.size());
  Table table = {};
  Launch l(stream, kernel);
  for (size_t k = 0; k < kInputs; k++) {
    const bool there = begin + k < end;
    // What is not there repeats the last one's buffer, of which it has no groups.
    const Part& part = runs.parts[there ? begin + k : end - 1];
    const int64_t count = runs.outer * part.run / word;
    table.offset[k] = first_byte(inputs[part.input]) / word;
    table.count[k] = static_cast<int32_t>(count);
    table.start[k] = static_cast<int32_t>(part.start / word);
    table.run[k] = divisor_of(static_cast<int>(part.run / word));
    table.first[k + 1] =
        table.first[k] + (there ? static_cast<int32_t>(ceil_div(count, kLocal * kUnroll)) : 0);
    touch(stream.state(), inputs[part.input]);
    l.buffer(inputs[part.input].storage()->buffer());
  }
  table.y_offset = first_byte(y) / word;
  table.y_run = static_cast<int32_t>(runs.y_run / word);
  touch(stream.state(), y);
  l.buffer(y.storage()->buffer()).bind(&table, sizeof table);
  l.run({static_cast<size_t>(table.first[kInputs] * kLocal)}, {static_cast<size_t>(kLocal)});
}

std::string refuse(const Context&, const ConcatDesc& d, const EngineOptions&) {
  const Runs runs = find_runs(d);
  constexpr int64_t kMost = INT_MAX - kLocal * kUnroll;
  if (runs.parts.empty()) return "there are no elements, or not of one dtype and dense in one order";
  const int64_t words = runs.outer * runs.y_run / least_word(d, runs);
  return words > kMost ? cat(words, " words are too many") : std::string();
}

}  // namespace

const ConcatEngine kConcatWords{"words", refuse,
                                [](const Context& context, const ConcatDesc& d,
                                   const EngineOptions&) -> std::unique_ptr<const Concat::Impl> {
                                  return std::make_unique<Words>(context, d);
                                },
                                avoid_on_cpus};

}  // namespace dlprim::detail
