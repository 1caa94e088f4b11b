// Tuning: which row is found for a problem, what measuring strikes out, and a problem measured on first use.
#include <dlprim/gemm.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/tune.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include "cases/conv.hpp"
#include "cases/gemm.hpp"
#include "catch.hpp"
#include "child.hpp"
#include "core/engine.hpp"
#include "core/state.hpp"
#include "core/tune/measure.hpp"
#include "core/tune/problem_line.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::detail;
using namespace dlprim::test;

namespace {

TuneProblem problem(int64_t m, int64_t n, DType dtype = DType::f32, const std::string& form = "plain") {
  TuneProblem p;
  p.op = "op";
  p.dtype = p.result = dtype;
  p.form = form;
  p.sizes = {{"m", m}, {"n", n}};
  return p;
}

constexpr TuneRow row(const char* engine, int64_t m, int64_t n, DType dtype = DType::f32,
                      const char* form = "plain") {
  return {dtype, dtype, MathMode::standard, form, engine, 1.0, {m, n}};
}

constexpr TuneRow kDeviceRows[] = {row("device", 64, 64), row("device-half", 64, 64, DType::f16),
                                   row("device-other", 64, 64, DType::f32, "other")};
constexpr TuneRow kArchitectureRows[] = {row("architecture", 64, 64), row("architecture-128", 128, 128),
                                         row("architecture-129", 129, 128)};
constexpr TuneRow kVendorRows[] = {row("vendor", 256, 256)};
constexpr TuneRow kKindRows[] = {row("kind", 256, 256), row("kind-66", 66, 66)};
constexpr TuneRow kDefaultRows[] = {row("default", 256, 256), row("default-512", 512, 512)};
constexpr TuneRow kForeignRows[] = {row("foreign", 64, 64), row("foreign-900", 900, 900)};
constexpr TuneRow kSwapped[] = {row("swapped", 700, 700)};

const TuneSheet kSheets[] = {
    {"default.json", "", "", "", "", "op", "m n", kDefaultRows, 2},
    {"kind.json", "", "", "", "GPU", "op", "m n", kKindRows, 2},
    {"vendor.json", "", "", "Vendor", "GPU", "op", "m n", kVendorRows, 1},
    {"architecture.json", "Chip 1", "arch", "Vendor", "GPU", "op", "m n", kArchitectureRows, 3},
    {"device.json", "Chip 2", "arch", "Vendor", "GPU", "op", "m n", kDeviceRows, 3},
    // Measured on another chip of another architecture: not for this one, though vendor and kind are its own.
    {"foreign.json", "Chip 3", "arch 3", "Vendor", "GPU", "op", "m n", kForeignRows, 2},
    {"swapped.json", "", "", "", "", "op", "n m", kSwapped, 1},
    {}};

DeviceFacts chip(const char* name = "Chip 2", const char* architecture = "arch") {
  DeviceFacts facts;
  facts.name = name;
  facts.architecture = architecture;
  facts.vendor = "Vendor";
  facts.kind = DeviceKind::gpu;
  return facts;
}

/// The answers' engines, joined by spaces.
std::string found(const TuneProblem& p, const DeviceFacts& device = chip(),
                  const std::vector<UserRow>& user = {}) {
  std::string text;
  for (const TuneAnswer& answer : look_up(p, device, user, kSheets))
    text += (text.empty() ? "" : " ") + answer.engine;
  return text;
}

}  // namespace

TEST_CASE("tune: rows are found by user, device, architecture, vendor, kind, default", "[small]") {
  const std::vector<UserRow> user = {{problem(64, 64), {"user", 1}, {}},
                                     {problem(300, 256), {"user-300", 1}, {}}};
  // The very problem by level; then near ones: 66 x 66 is of a lower level.
  CHECK(found(problem(64, 64), chip(), user) == "user device architecture kind-66");
  CHECK(found(problem(64, 64)) == "device architecture kind-66");
  CHECK(found(problem(64, 64), chip("Chip 9")) == "architecture device kind-66");  // both by architecture
  CHECK(found(problem(256, 256), chip(), user) == "vendor kind default user-300");
  CHECK(found(problem(256, 256), chip("Chip 9", "arch 9")) == "vendor kind default");
  DeviceFacts other = chip("Chip 9", "");
  other.vendor = "Other";
  CHECK(found(problem(256, 256), other) == "kind default");
  other.kind = DeviceKind::cpu;
  CHECK(found(problem(256, 256), other) == "default");
  CHECK(found(problem(512, 512), other) == "default-512");
  CHECK(found(problem(900, 900)).empty());  // known for a foreign chip alone
  CHECK(found(problem(700, 700)).empty());  // sizes of other names
}

TEST_CASE("tune: dtype, math, form and operator must be equal; near sizes do", "[small]") {
  CHECK(found(problem(64, 64, DType::f16)) == "device-half");
  CHECK(found(problem(64, 64, DType::f64)).empty());
  CHECK(found(problem(64, 64, DType::f32, "other")) == "device-other");
  TuneProblem p = problem(64, 64);
  p.math = MathMode::tf32;
  CHECK(found(p).empty());
  p = problem(64, 64);
  p.op = "po";
  CHECK(found(p).empty());
  p = problem(64, 64);
  p.result = DType::f64;
  CHECK(found(p).empty());

  CHECK(found(problem(128, 128)) == "architecture-128 architecture-129");
  CHECK(found(problem(129, 128)) == "architecture-129 architecture-128");
  CHECK(found(problem(130, 128)) == "architecture-129 architecture-128");  // the nearer one first
  CHECK(found(problem(600, 512)) == "default-512");
  CHECK(found(problem(620, 512)).empty());  // 0.28 octaves
  CHECK(found(problem(600, 600)).empty());  // 0.32
  CHECK(found(problem(0, 64)).empty());
  const std::vector<TuneAnswer> answers = look_up(problem(600, 512), chip(), {}, kSheets);
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].source == "default.json by default, nearest problem m=512 n=512");
  const int64_t a[] = {64, 0}, b[] = {128, 0}, c[] = {64, 1};
  CHECK(size_distance(a, b, 2) == 1);
  CHECK(size_distance(a, c, 2) > 1e9);
}

TEST_CASE("tune: every shipped row can be asked for", "[small]") {
  const std::map<std::string, std::string> sizes = {{"gemm", "m n k batch"}, {"conv", "n c k h w groups d"}};
  const std::map<std::string, std::vector<std::string>> all = {{"gemm", gemm_engines()},
                                                               {"conv", conv_engines()}};
  for (const TuneSheet* sheet = shipped_tuning(); sheet->file; sheet++) {
    INFO(sheet->file);
    CHECK(sheet->count > 0);
    REQUIRE(sizes.count(sheet->op));
    CHECK(sheet->size_names == sizes.at(sheet->op));
    const std::vector<std::string>& engines = all.at(sheet->op);
    const auto dimensions = std::count(sheet->size_names, std::strchr(sheet->size_names, 0), ' ') + 1;
    for (const TuneRow* r = sheet->rows; r != sheet->rows + sheet->count; r++) {
      INFO(r->engine);
      Options options;
      options.engine = r->engine;
      CHECK_NOTHROW(EngineRequest(options));
      const std::string name = options.engine.substr(0, options.engine.find(':'));
      CHECK(std::find(engines.begin(), engines.end(), name) != engines.end());
      CHECK((name != "naive" || std::string(sheet->op) == "gemm"));  // convolution's is never measured
      CHECK(r->microseconds > 0);
      for (int i = 0; i < dimensions; i++) CHECK(r->sizes[i] > 0);
    }
  }
}

TEST_CASE("tune: problems are lines, refused with their reason", "[small]") {
  const auto refusal = [](const std::string& line) {
    return error_of<ValidationError>([&] { tune_problem(context(), line); });
  };
  const TuneProblem p =
      tune_problem(context(), "gemm m=65 n=64 k=32 a=t b=t dtype=f16 c_dtype=f32 math=tf32");
  CHECK(p.op == "gemm");
  CHECK((p.dtype == DType::f16 && p.result == DType::f32 && p.math == MathMode::standard));
  CHECK(p.form == "km-nk-odd");
  CHECK(sizes_text(p) == "m=65 n=64 k=32 batch=1");
  CHECK(tune_problem(context(), "gemm m=4 n=4 k=4 math=tf32").math == MathMode::tf32);
  CHECK(tune_problem(context(), "gemm m=4 n=4 k=4 batch=3 math=strict").sizes.back().second == 3);
  CHECK(refusal("gemm m=4 n=4") == "problem: 'gemm m=4 n=4': has no k=");
  CHECK(refusal("gemm m=4 n=4 k=0") ==
        "problem: 'gemm m=4 n=4 k=0': k=0 is no whole number from 1 to 2147479551");
  CHECK(refusal("gemm m=4 n=4 k=4 k=5") == "problem: 'gemm m=4 n=4 k=4 k=5': k is given twice");
  CHECK(refusal("gemm m=4 n=4 k=4 z=5") == "problem: 'gemm m=4 n=4 k=4 z=5': has an unknown z=");
  CHECK(refusal("gemm m=4 n=4 k=4 a=x") == "problem: 'gemm m=4 n=4 k=4 a=x': a=x is none of n, t");
  CHECK(refusal("gemm m=4 n=4 k=4 engine=fma") ==
        "problem: 'gemm m=4 n=4 k=4 engine=fma': engine=fma is not auto");
  CHECK(refusal("gemm m") == "problem: 'gemm m': 'm' is not NAME=VALUE");
  CHECK(refusal("") == "problem: '': names no operator");
  CHECK(refusal("gemv m=4") == "problem: operator 'gemv' is not tuned; these are: gemm, conv");
  CHECK(refusal("gemm m=4 n=4 k=4 dtype=f16 c_dtype=f64").find("c: ") == 0);
  // A simulated device of 128 MB has room for none of convolution's.
  const bool large = context().device().facts().global_memory >= size_t{1} << 30;
  for (const char* op : {"gemm", "conv"})
    for (const bool full : {false, true}) {
      const std::vector<std::string> lines = tuning_problems(context(), op, full);
      if (large || op == std::string("gemm")) CHECK(lines.size() >= 8);
      for (const std::string& line : lines) CHECK(tune_problem(context(), line).op == op);
    }
  CHECK_THROWS_AS(tune(context(), "gemm m=4 n=4 k=4", {}, TuneMode::table), ValidationError);
}

TEST_CASE("tune: a strict problem's own rows come first, then those of standard math", "[small]") {
  TuneProblem strict = problem(64, 64);
  strict.math = MathMode::strict;
  CHECK(found(strict) == "device architecture kind-66");
  CHECK(found(strict, chip(), {{strict, {"user-strict", 1}, {}}, {problem(64, 64), {"user", 1}, {}}}) ==
        "user-strict user device architecture");
  CHECK(found(problem(64, 64), chip(), {{strict, {"user-strict", 1}, {}}}) == "device architecture kind-66");
}

namespace {

/// y = 2 x by engines that are right, slow, wrong, wrong in one element, or do not build or launch.
class Doubling : public TuneSubject {
 public:
  explicit Doubling(std::vector<std::string> engines, std::string automatic = "right",
                    std::vector<std::string> references = {}, bool exhaustive = false)
      : engines_(std::move(engines)),
        references_(std::move(references)),
        automatic_(std::move(automatic)),
        exhaustive_(exhaustive),
        problem_(::problem(kCount, 1)),
        x_(context(), {kCount}),
        y_(context(), {kCount}),
        right_(context(), {kCount}) {
    fill(test::stream(), 3, x_);
  }
  const TuneProblem& problem() const override { return problem_; }
  std::vector<std::string> candidates() const override { return engines_; }
  std::vector<std::string> references() const override {
    return references_.empty() ? std::vector<std::string>{engines_.back()} : references_;
  }
  bool exhaustive() const override { return exhaustive_; }
  const Stream& stream() const override { return test::stream(); }
  TuneRun plan(const std::string& asked) override {
    const std::string engine = asked == "auto" ? automatic_ : asked;
    plans++;
    if (engine == "invalid") throw ValidationError("engine", "does not fit");
    if (engine == "no-build") throw BuildError("doubling", "-DX=1", "line 1: no such thing\nline 2");
    return {engine, [this, engine] {
              runs[engine]++;
              if (engine == "no-launch") throw DeviceError("clEnqueueNDRangeKernel", -5);
              if (engine == "untouched") return;
              std::this_thread::sleep_for(disturbance);
              for (int i = engine == "slow" ? 20 : 1; i > 0; i--)
                pointwise(test::stream(), {x_}, {y_}, {},
                          engine == "wrong" ? "y0 = 2 * x0 + 1" : "y0 = 2 * x0");
              if (engine == "one-wrong") fill(test::stream(), 5, y_.slice(0, 7, 8));
            }};
  }
  void poison() override { fill(test::stream(), -1, y_); }
  void keep_result() override { copy(test::stream(), y_, right_); }
  int64_t wrong_elements() override {
    const std::vector<float> y = read<float>(test::stream(), y_), right = read<float>(test::stream(), right_);
    int64_t wrong = 0;
    for (size_t i = 0; i < y.size(); i++) wrong += y[i] != right[i];
    return wrong;
  }
  int plans = 0;
  std::map<std::string, int> runs;
  std::chrono::milliseconds disturbance{0};  ///< each run takes longer by this, as beside other work

 private:
  static constexpr int64_t kCount = 1 << 16;
  std::vector<std::string> engines_, references_;
  std::string automatic_;
  bool exhaustive_;
  TuneProblem problem_;
  Tensor x_, y_, right_;
};

}  // namespace

TEST_CASE("tune: times that spread are told, and stand beside what is stored") {
  Doubling subject({"right"});
  const TuneResult result = measure(subject, [&](const std::string& step, int, int) {
    const bool disturbed = step.rfind("turn ", 0) == 0 && std::stoi(step.substr(5)) % 3 != 0;
    subject.disturbance = std::chrono::milliseconds(disturbed ? 2 : 0);
  });
  CHECK(result.best.engine == "right");
  CHECK(result.spread > kUnsteady);
  UserRow row{result.problem, result.best, result.second, false, 0.384};
  const std::vector<TuneAnswer> answers = look_up(result.problem, chip(), {row}, kSheets);
  REQUIRE(!answers.empty());
  CHECK(answers[0].source ==
        "the user's measurements, this problem (on a busy device: times spread by 38 %)");
  CHECK(tuning_json(context(), {result}).find("\"spread\": ") != std::string::npos);
}

TEST_CASE("tune: what fails or is wrong is struck out, the fastest right one wins") {
  Doubling subject({"invalid", "no-build", "wrong", "no-launch", "one-wrong", "untouched", "right", "slow"},
                   "slow");
  int calls = 0, last = -1, steps = 0;
  const TuneResult result = measure(subject, [&](const std::string&, int step, int all) {
    calls++;
    CHECK(step == last + 1);
    CHECK(step < all);
    last = step;
    steps = all;
  });
  CHECK(result.best.engine == "right");
  CHECK(result.second.engine == "slow");
  CHECK(result.before.engine == "slow");
  CHECK(result.before.microseconds > 2 * result.best.microseconds);
  CHECK(result.struck_out ==
        std::vector<std::string>{"invalid: engine: does not fit",
                                 "no-build: program 'doubling' did not build with options '-DX=1':",
                                 "wrong: 65536 elements are not as slow computes them",
                                 "no-launch: clEnqueueNDRangeKernel failed: CL_OUT_OF_RESOURCES (-5)",
                                 "one-wrong: 1 elements are not as slow computes them",
                                 "untouched: 65536 elements are not as slow computes them"});
  CHECK(calls == steps);
}

TEST_CASE("tune: a wrong choice of before never stays, and without a right result nothing is said") {
  Doubling wrong_before({"right", "slow"}, "one-wrong");
  const TuneResult result = measure(wrong_before);
  CHECK(result.best.engine == "right");
  CHECK(result.struck_out.size() == 1);
  Doubling no_reference({"right", "no-build"});
  CHECK_THROWS_AS(measure(no_reference), BuildError);
  Doubling stopped({"right", "slow"});
  CHECK_THROWS_AS(measure(stopped,
                          [](const std::string&, int step, int) {
                            if (step == 2) throw 7;
                          }),
                  int);
  CHECK(stopped.plans == 2);
}

TEST_CASE("tune: what is only compared with runs once and is not timed") {
  Doubling subject({"right", "wrong"}, "slow", {"no-build", "slow"});
  const TuneResult result = measure(subject);
  CHECK(result.best.engine == "right");
  CHECK(result.second.engine.empty());
  CHECK(result.before.engine == "slow");
  CHECK(result.before.microseconds == 0);
  CHECK(result.struck_out.size() == 2);
  CHECK(subject.runs["slow"] == 1);
  CHECK(!result.exhaustive);
  Doubling alone({"wrong", "no-launch"}, "slow", {"slow"});  // nothing else works
  CHECK(measure(alone).best.engine == "slow");
  CHECK(alone.runs["slow"] > 1);
}

TEST_CASE("tune: an exhaustive measurement takes three times the turns") {
  const auto turns = [](bool exhaustive) {
    Doubling subject({"right"}, "right", {}, exhaustive);
    int turns = 0;
    const TuneResult result =
        measure(subject, [&](const std::string& engine, int, int) { turns += engine.find("turn ") == 0; });
    CHECK(result.exhaustive == exhaustive);
    CHECK(subject.runs["right"] > turns);
    return turns;
  };
  const int usual = turns(false);
  CHECK(usual >= 3);
  CHECK(turns(true) == 3 * usual);
}

namespace {

std::string explain(const Context& c, TuneMode mode, int64_t m = 48) {
  Options options;
  options.tune = mode;
  return Gemm(c, {TensorDesc({m, 40}), TensorDesc({40, 56}), TensorDesc({m, 56})}, options).explain();
}

}  // namespace

TEST_CASE("tune: measured on first use and found afterwards", "[.]") {  // DLPRIM_TUNE_DB is a fresh file
  const Context first(context().device());
  const std::string before = explain(first, TuneMode::table);
  CHECK(before.find("the user's measurements") == std::string::npos);
  const std::string measured = explain(first, TuneMode::measure);
  CHECK(measured.find("chosen, the user's measurements, this problem") != std::string::npos);
  CHECK(explain(first, TuneMode::table) == measured);
  CHECK(explain(first, TuneMode::table, 50).find("nearest problem m=48 n=56 k=40 batch=1") !=
        std::string::npos);

  const Context second(context().device());  // as another process
  CHECK(explain(second, TuneMode::table) == measured);
  const uint64_t programs = second.program_stats().built + second.program_stats().from_disk;
  CHECK(explain(second, TuneMode::measure) == measured);  // nothing is measured again
  CHECK(second.program_stats().built + second.program_stats().from_disk == programs);

  const GemmCase x(48, 56, 40);
  const GemmData data = integer_data(x);
  const Tensor a = operand_a(x, data), b = operand_b(x, data), c(context(), {48, 56});
  Options options;
  options.tune = TuneMode::measure;
  gemm(stream(), a, b, {}, {}, c, options);
  CHECK(deviation(host_values(c), gemm_reference(x, data)) == 0);
  CHECK(explain(first, TuneMode::measure, 0).find("op=gemm") == 0);  // nothing to measure, nothing thrown
}

TEST_CASE("tune: on first use, into a database") {
  const TempDir folder;
  const Child child = run_child("tune: measured on first use and found afterwards",
                                {{"DLPRIM_TUNE_DB", folder / "t.sqlite"}, {"DLPRIM_LOG", "1"}});
  INFO(child.output);
  CHECK(child.passed);
  CHECK(std::filesystem::exists(folder / "t.sqlite"));
  CHECK(child.output.find("dlprim: tuning gemm m=48 n=56 k=40 batch=1 dtype=f32") != std::string::npos);
  // A second process measures nothing: its first look-up finds the row.
  const Child again =
      run_child("tune: found in a database", {{"DLPRIM_TUNE_DB", folder / "t.sqlite"}, {"DLPRIM_LOG", "1"}});
  INFO(again.output);
  CHECK(again.passed);
  CHECK(again.output.find("dlprim: tuning gemm") == std::string::npos);
}

TEST_CASE("tune: found in a database", "[.]") {
  CHECK(explain(context(), TuneMode::measure).find("the user's measurements, this problem") !=
        std::string::npos);
}

TEST_CASE("tune: rows that no engine serves are passed over") {
  const Context fresh(context().device());
  const TuneProblem p = tune_problem(fresh, "gemm m=24 n=24 k=24");
  const auto chosen = [&](const std::string& engine) {
    fresh.state().tuning.store({p, {engine, 1}, {}});
    return Gemm(fresh, {TensorDesc({24, 24}), TensorDesc({24, 24}), TensorDesc({24, 24})}).request();
  };
  const std::string usual =
      Gemm(context(), {TensorDesc({24, 24}), TensorDesc({24, 24}), TensorDesc({24, 24})}).request();
  CHECK(chosen("naive") == "naive");
  for (const char* engine :
       {"no-such-engine", "gemv", "fma:no=1", "fma:tm", "fma:tm=7", "fma:parts=0", "", "auto", ":"}) {
    INFO(engine);
    CHECK(chosen(engine) == usual);
  }
}
