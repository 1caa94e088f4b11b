// Watches operators and assertions; see mutation.hpp.
#include "mutation.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/check.hpp"
#include "core/memory.hpp"
#include "core/observer.hpp"
#include "core/state.hpp"
#include "support.hpp"

namespace dlprim::test {
namespace {

using Bytes = std::vector<unsigned char>;

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

/// "op=NAME ...": NAME, and what copies and fills are apart from other bodies of pointwise.
std::string operator_of(const std::string& text) {
  const size_t begin = text.find("op=") + 3;
  const std::string name = text.substr(begin, text.find(' ', begin) - begin);
  if (name != "pointwise") return name;
  const auto has = [&](const char* body) { return text.find(body) != std::string::npos; };
  return has(" body=y0%20=%20x0 ") || has(" body=y0%20=%20x0%20!=%200 ") ? "copy"
         : has(" body=y0%20=%20s0 ")                                     ? "fill"
                                                                         : name;
}

double number_at(const unsigned char* at, DType dtype) {
  const auto get = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::f32:
      return get(0.0f);
    case DType::f64:
      return get(0.0);
    case DType::f16:
      return to_float(half_t{get(uint16_t{})});
    case DType::bf16:
      return to_float(bfloat16_t{get(uint16_t{})});
    case DType::i8:
      return get(int8_t{});
    case DType::i16:
      return get(int16_t{});
    case DType::i32:
      return get(int32_t{});
    case DType::i64:
      return static_cast<double>(get(int64_t{}));
    case DType::u16:
      return get(uint16_t{});
    case DType::u32:
      return get(uint32_t{});
    case DType::u64:
      return static_cast<double>(get(uint64_t{}));
    case DType::u8:
    case DType::boolean:
      break;
  }
  return get(uint8_t{});
}

/// "off by 1 %", see mutation.hpp.
void nudge(unsigned char* at, DType dtype) {
  const auto change = [&](auto value, const auto& f) {
    std::memcpy(&value, at, sizeof value);
    value = static_cast<decltype(value)>(f(value));
    std::memcpy(at, &value, sizeof value);
  };
  const auto next = [](auto v) { return v + 1; };
  const auto percent = [](auto v) { return v * decltype(v)(1.01); };
  switch (dtype) {
    case DType::f32:
      return change(0.0f, percent);
    case DType::f64:
      return change(0.0, percent);
    case DType::f16:
      return change(uint16_t{}, [](uint16_t v) { return to_half(to_float(half_t{v}) * 1.01f).bits; });
    case DType::bf16:
      return change(uint16_t{}, [](uint16_t v) { return v + 4; });
    case DType::i8:
    case DType::u8:
      return change(uint8_t{}, next);
    case DType::i16:
    case DType::u16:
      return change(uint16_t{}, next);
    case DType::i32:
    case DType::u32:
      return change(uint32_t{}, next);
    case DType::i64:
    case DType::u64:
      return change(uint64_t{}, next);
    case DType::boolean:
      return change(uint8_t{}, [](uint8_t v) { return v == 0; });
  }
}

/// A view's elements in the bytes of its storage, row-major, and whether each is in the last slice.
struct Places {
  std::vector<size_t> at;
  std::vector<bool> last;
  Places(const Tensor& view, size_t start) {
    const auto size = static_cast<int64_t>(size_of(view.dtype()));
    int axis = 0;
    while (axis + 1 < view.rank() && view.shape()[axis] == 1) axis++;
    std::vector<int64_t> index(static_cast<size_t>(view.rank()), 0);
    for (int64_t n = view.numel(); n > 0; n--) {
      int64_t place = view.offset();
      for (int i = 0; i < view.rank(); i++) place += index[static_cast<size_t>(i)] * view.strides()[i];
      at.push_back(static_cast<size_t>(place * size) - start);
      last.push_back(view.rank() == 0 || index[static_cast<size_t>(axis)] + 1 == view.shape()[axis]);
      for (int i = view.rank() - 1; i >= 0 && ++index[static_cast<size_t>(i)] == view.shape()[i]; i--)
        index[static_cast<size_t>(i)] = 0;
    }
  }
};

/// Spoils the view's elements in `after`; true if a value changed.
bool spoil(const std::string& how, const Places& places, DType dtype, const Bytes& before, Bytes& after) {
  const size_t size = size_of(dtype), count = places.at.size();
  const Bytes right = after;
  const auto put = [&](size_t i, const unsigned char* from) {
    std::memcpy(after.data() + places.at[i], from, size);
  };
  const Bytes zero(size, 0);
  size_t largest = count;
  double magnitude = 0;
  for (size_t i = 0; i < count; i++) {
    const double v = std::abs(number_at(right.data() + places.at[i], dtype));
    if (how == "zeros") put(i, zero.data());
    if (how == "first") put(i, right.data() + places.at[0]);
    if (how == "row" && places.last[i]) put(i, before.data() + places.at[i]);
    if (std::isfinite(v) && v > magnitude) magnitude = v, largest = i;
  }
  // Where all are zero there is nothing that one percent changes; but a flag has two values.
  if (how == "one" && largest == count && dtype == DType::boolean && count > 0) largest = 0;
  if (how == "one" && largest < count) nudge(after.data() + places.at[largest], dtype);
  for (size_t i = 0; i < count; i++) {
    const double a = number_at(right.data() + places.at[i], dtype),
                 b = number_at(&after[places.at[i]], dtype);
    if (a != b && !(std::isnan(a) && std::isnan(b))) return true;
  }
  return false;
}

/// An output of operators that run with the same text.
struct Output {
  std::string op, text;
  int number;
  bool operator<(const Output& o) const {
    return std::tie(op, text, number) < std::tie(o.op, o.text, o.number);
  }
};

enum class Verdict { read, same, passed, caught };

class Mutations : public detail::OperatorObserver {
 public:
  Mutations() {
    std::ifstream plan(variable("DLPRIM_TEST_MUTATE_PLAN"));
    int number = 0;
    for (std::string text; plan >> number && plan.get() && std::getline(plan, text);)
      plan_.insert({number, text});
  }

  void begins(const detail::StreamState& stream, const std::string& text) override {
    open_ = ours(stream);
    text_ = text;
    used_.clear();
  }

  void uses(const detail::StreamState& stream, const Tensor& tensor) override {
    if (!open_ || !ours(stream) || tensor.numel() == 0) return;
    auto& used = used_;
    const auto same = [&](const Use& u) { return u.view.storage() == tensor.storage(); };
    const auto there = std::find_if(used.begin(), used.end(), same);
    for (const Use& u : used)
      if (same(u) && u.view.offset() == tensor.offset() && u.view.shape() == tensor.shape() &&
          u.view.strides() == tensor.strides() && u.view.dtype() == tensor.dtype())
        return;
    used.push_back({tensor, there == used.end() ? bytes_of(tensor) : there->before});
  }

  void ends(const detail::StreamState& stream) override {
    if (!open_ || !ours(stream)) return;
    open_ = false;
    const std::string op = operator_of(text_);
    std::vector<Mark> passed_on;  // of what the operator took
    for (const Use& use : used_)
      for (const Mark& mark : marks_)
        if (mark.covers(use.view)) passed_on.push_back(mark);
    struct Written {
      const Use* use;
      Output output;
      Places places;
    };
    std::vector<Written> written;
    std::map<const detail::Storage*, Bytes> contents;
    for (size_t i = 0; i < used_.size(); i++) {
      const Use& use = used_[i];
      Bytes& after = contents[use.view.storage().get()];
      if (after.empty()) after = bytes_of(use.view);
      Places places(use.view, use.view.storage()->offset);
      const size_t size = size_of(use.view.dtype());
      bool changed = false;
      for (size_t at : places.at) changed |= std::memcmp(&after[at], &use.before[at], size) != 0;
      if (changed) written.push_back({&use, {op, text_, static_cast<int>(i)}, std::move(places)});
    }
    for (const auto& [use, output, places] : written) {
      if (how_ != "record" && plan_.count({output.number, text_}) == 0) {
        for (Mark mark : passed_on)
          if (!mark.covers(use->view)) {
            mark.set(use->view);
            mark.direct = false;
            marks_.push_back(mark);
          }
        continue;
      }
      marks_.erase(std::remove_if(marks_.begin(), marks_.end(),
                                  [&, &view = use->view](const Mark& m) { return m.covers(view); }),
                   marks_.end());
      Mark mark;
      mark.output = output;
      mark.direct = true;
      mark.set(use->view);
      if (how_ != "record") {
        Bytes& after = contents[use->view.storage().get()];
        mark.effective = spoil(how_, places, use->view.dtype(), use->before, after);
        put_bytes(use->view, after);
      }
      marks_.push_back(mark);
    }
    used_.clear();
  }

  void reads(const Tensor& x) override {
    if (own_means > 0 || std::this_thread::get_id() != thread_) return;
    for (const Mark& mark : marks_)
      if (mark.covers(x)) {
        if (asserted_) recent_.clear();
        asserted_ = false;
        if (mark.effective || how_ == "record") recent_.insert(mark.output);
        if (!mark.direct) continue;
        Verdict& verdict = verdicts_[{mark.output, test_}];
        const Verdict now = how_ == "record" ? Verdict::read
                            : mark.effective ? Verdict::passed
                                             : Verdict::same;
        verdict = std::max(verdict, now);
      }
  }

  /// Catch2 tells before it looks at the expression, or after.
  void asserts() { asserted_ = true; }

  void failed() {
    for (const Output& output : recent_) verdicts_[{output, test_}] = Verdict::caught;
  }

  void test_starts(const std::string& name) {
    test_ = name;
    recent_.clear();
  }

  /// After every test case, so that a crash leaves what was found before it.
  void test_ends() {
    marks_.clear();
    std::ofstream file(variable("DLPRIM_TEST_MUTATE_REPORT"));
    static const char* const names[] = {"read", "same", "passed", "caught"};
    for (const auto& [key, verdict] : verdicts_)
      file << key.first.op << '\t' << key.first.number << '\t' << key.first.text << '\t' << key.second << '\t'
           << names[static_cast<int>(verdict)] << '\n';
  }

  int own_means = 0;

 private:
  struct Use {
    Tensor view;
    Bytes before;  ///< of the whole storage
  };
  /// Memory that holds an output, or what was computed from a spoilt one.
  struct Mark {
    std::weak_ptr<detail::Storage> storage;
    int64_t begin = 0, end = 0;  ///< bytes
    Output output;
    bool effective = false, direct = false;
    void set(const Tensor& view) {
      storage = view.storage();
      const auto size = static_cast<int64_t>(size_of(view.dtype()));
      begin = view.offset() * size;
      end = begin + detail::extent_of(view) * size;
    }
    bool covers(const Tensor& view) const {
      if (storage.lock() != view.storage()) return false;
      const auto size = static_cast<int64_t>(size_of(view.dtype()));
      const int64_t from = view.offset() * size;
      return from < end && from + detail::extent_of(view) * size > begin;
    }
  };

  bool ours(const detail::StreamState& s) const {
    return own_means == 0 && std::this_thread::get_id() == thread_ && &s == &stream().state();
  }

  static Bytes bytes_of(const Tensor& view) {
    const detail::Storage& s = *view.storage();
    Bytes bytes(s.size);
    if (clEnqueueReadBuffer(stream().cl()(), s.buffer(), CL_TRUE, s.offset, s.size, bytes.data(), 0, nullptr,
                            nullptr) != CL_SUCCESS)
      std::abort();
    return bytes;
  }
  static void put_bytes(const Tensor& view, const Bytes& bytes) {
    const detail::Storage& s = *view.storage();
    if (clEnqueueWriteBuffer(stream().cl()(), s.buffer(), CL_TRUE, s.offset, s.size, bytes.data(), 0, nullptr,
                             nullptr) != CL_SUCCESS)
      std::abort();
  }

  const std::string how_ = variable("DLPRIM_TEST_MUTATE");
  std::set<std::pair<int, std::string>> plan_;
  const std::thread::id thread_ = std::this_thread::get_id();
  bool open_ = false, asserted_ = false;
  std::string text_, test_;
  std::vector<Use> used_;
  std::vector<Mark> marks_;
  std::set<Output> recent_;  ///< what the reads before the last assertion, or since, were of
  std::map<std::pair<Output, std::string>, Verdict> verdicts_;
};

Mutations* mutations = nullptr;

}  // namespace

void start_mutations() {
  if (mutations || variable("DLPRIM_TEST_MUTATE").empty()) return;
  mutations = new Mutations;
  detail::operator_observer = mutations;
}

void mutated_test_starts(const std::string& name) {
  start_mutations();
  if (mutations) mutations->test_starts(name);
}
void mutated_test_ends() {
  if (mutations) mutations->test_ends();
}
void mutated_assertion_starts() {
  if (mutations) mutations->asserts();
}
void mutated_assertion_failed() {
  if (mutations) mutations->failed();
}

OwnMeans::OwnMeans() {
  if (mutations) mutations->own_means++;
}
OwnMeans::~OwnMeans() {
  if (mutations) mutations->own_means--;
}

}  // namespace dlprim::test
