// Runs the cases of `dlprim doctor`, compares what comes out, and says which engines cannot be trusted.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <map>
#include <set>

#include <dlprim/copy.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/profile.hpp>

#include "clock.hpp"
#include "device_choice.hpp"
#include "doctor.hpp"
#include "format.hpp"

namespace dlprim::cli {
namespace {

/// "op=gemm engine=fma m=64": the value of a key.
std::string value_in(const std::string& text, const std::string& key) {
  const size_t at = text.find(key + "=");
  if (at == std::string::npos) return "";
  const size_t begin = at + key.size() + 1;
  return text.substr(begin, text.find(' ', begin) - begin);
}

/// The engines that accept, from what a plan says of them: "  fma: could serve, ...".
std::vector<std::string> engines_in(const std::string& explained) {
  std::vector<std::string> engines;
  for (size_t begin = explained.find('\n') + 1; begin < explained.size();) {
    const size_t end = std::min(explained.find('\n', begin), explained.size());
    const std::string line = explained.substr(begin, end - begin);
    const size_t colon = line.find(": ");
    if (line.compare(0, 2, "  ") == 0 && line[2] != ' ' && colon != std::string::npos &&
        line.compare(colon + 2, 8, "refused,") != 0)
      engines.push_back(line.substr(2, colon - 2));
    begin = end + 1;
  }
  return engines;
}

/// What is wrong with an output; "" if nothing is.
std::string wrong_in(const HostTensor& output, const std::vector<double>& expected, double bound) {
  const std::vector<double> numbers = numbers_of(output);
  if (numbers.size() != expected.size())
    return format("%zu elements for %zu", numbers.size(), expected.size());
  double largest = 0;
  for (const double e : expected) largest = std::max(largest, std::fabs(e));
  size_t count = 0, first = 0;
  for (size_t i = numbers.size(); i-- > 0;)
    if (!(numbers[i] == expected[i] || std::fabs(numbers[i] - expected[i]) <= bound * largest))
      count++, first = i;
  if (count == 0) return "";
  return format("%zu of %zu elements are wrong, the first at %zu: %.9g, right is %.9g", count, numbers.size(),
                first, numbers[first], expected[first]);
}

/// Winograd's transforms have thirds in them: up to 60 units in the last place of the largest sum.
double bound_of(const ExactCase& test, const std::string& engine) {
  return engine.find("winograd") != std::string::npos ? std::max(test.bound, 64 * 0x1p-23) : test.bound;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

class Examination {
 public:
  Examination(const Device& device, const DoctorOptions& options,
              const std::function<void(const std::string&, size_t, size_t)>& say)
      : device_(device),
        options_(options),
        say_(say),
        context_(device),
        stream_(profiling_stream(context_)) {}

  Diagnosis run() {
    diagnosis_.off_before = engines_off(device_);
    const AllEnginesOn all;
    const std::vector<ExactCase> cases = exact_cases(device_);
    const std::vector<std::string>& wanted = options_.families;
    for (const ExactCase& test : cases)
      if (wanted.empty() || std::find(wanted.begin(), wanted.end(), test.family) != wanted.end())
        add_jobs(test);
    for (int64_t run = 0; run < options_.runs; run++)
      for (size_t k = 0; k < jobs_.size(); k++) {
        say_(jobs_[k].test->family + " " + jobs_[k].test->name, static_cast<size_t>(run) * jobs_.size() + k,
             static_cast<size_t>(options_.runs) * jobs_.size());
        examine(jobs_[k], run);
      }
    for (Job& job : jobs_) diagnosis_.results.push_back(std::move(job.result));
    judge();
    measure();
    return std::move(diagnosis_);
  }

 private:
  /// A case by one engine.
  struct Job {
    const ExactCase* test;
    std::string engine;  ///< as asked for
    CaseResult result;
    std::vector<HostTensor> first;  ///< outputs of the first run
  };

  void add_jobs(const ExactCase& test) {
    std::vector<std::string> engines = {"auto"};
    try {
      if (test.explain)
        for (std::string& engine : engines_in(test.explain(context_))) engines.push_back(std::move(engine));
    } catch (const std::exception& error) {
      diagnosis_.troubles.push_back(test.family + ", " + test.name + ": " + first_line(error.what()));
    }
    for (const std::string& engine : engines) {
      Job job{&test, engine, {}, {}};
      job.result.family = test.family, job.result.name = test.name;
      job.result.op = test.family, job.result.engine = engine, job.result.automatic = engine == "auto";
      jobs_.push_back(std::move(job));
    }
  }

  void examine(Job& job, int64_t run) {
    CaseResult& result = job.result;
    result.runs++;
    std::string wrong;
    try {
      Options options;
      options.engine = job.engine;
      std::vector<HostTensor> outputs;
      {
        Profile profile(stream_);
        const std::vector<Tensor> tensors = job.test->run(stream_, options);
        for (const OperatorTime& op : profile.take()) take_name(op.text, job);
        for (const Tensor& tensor : tensors) outputs.push_back(to_host(stream_, tensor));
      }
      const double bound = bound_of(*job.test, result.engine);
      for (size_t k = 0; k < job.test->expected.size() && wrong.empty(); k++)
        wrong = wrong_in(outputs.at(k), job.test->expected[k], bound);
      for (size_t k = 0; k < outputs.size() && wrong.empty() && run > 0; k++)
        if (k >= job.first.size() || outputs[k].data != job.first[k].data)
          wrong = "the same input gave other bits than in the first run";
      if (job.first.empty()) job.first = std::move(outputs);
    } catch (const std::exception& error) {
      wrong = first_line(error.what());
    }
    if (wrong.empty()) return;
    result.wrong++;
    if (result.failure.empty())
      result.failure = format("run %lld: ", static_cast<long long>(run + 1)) + wrong;
  }

  /// Of the operators that ran, fills and copies prepare; the case's own is the last one of another name.
  static void take_name(const std::string& text, Job& job) {
    const std::string op = value_in(text, "op"), engine = value_in(text, "engine");
    const bool prepares = (op == "fill" || op == "copy") && job.test->family != "movement";
    if (prepares || op.empty() || engine.empty()) return;
    if (op == "pointwise" && job.test->family != "pointwise") return;  // what fill is made of
    job.result.op = op, job.result.engine = engine;
  }

  /// An engine that was wrong is switched off if the same problem was right with another one.
  void judge() {
    std::map<std::pair<std::string, std::string>, std::string> wrong;  // (op, engine): the first failure
    for (const CaseResult& r : diagnosis_.results)
      if (r.wrong > 0) wrong.try_emplace({r.op, r.engine}, r.family + " " + r.name + ": " + r.failure);
    const std::string today = date();
    for (const auto& [key, failure] : wrong) {
      const auto& [op, engine] = key;
      const bool other = std::any_of(diagnosis_.results.begin(), diagnosis_.results.end(),
                                     [&, &of = op](const CaseResult& r) {
                                       return r.op == of && wrong.count({r.op, r.engine}) == 0;
                                     });
      if (!other || engine == "auto") {
        diagnosis_.troubles.push_back(op + ": no engine of it is right on this device: " + failure);
        continue;
      }
      EngineOff entry{op, engine, failure + " (dlprim doctor, " + today + ")"};
      for (char& c : entry.reason)
        if (c == '\t' || c == '\n' || c == '\r') c = ' ';
      try {
        if (!options_.keep) switch_engine_off(device_, entry);
        diagnosis_.switched_off.push_back(entry);
      } catch (const Error& error) {
        diagnosis_.troubles.push_back(first_line(error.what()));
      }
    }
  }

  static std::string date() {
    const std::time_t now = std::time(nullptr);
    char text[32] = "";
    std::tm parts{};
    if (gmtime_r(&now, &parts)) std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
    return text;
  }

  template <class F>
  double seconds_of(int64_t count, F&& once) {
    once();
    stream_.finish();
    double best = INFINITY;
    for (int turn = 0; turn < 3; turn++) {
      const auto start = Clock::now();
      for (int64_t i = 0; i < count; i++) once();
      stream_.finish();
      best = std::min(best, seconds_since(start) / static_cast<double>(count));
    }
    return best;
  }

  /// Copy, multiplication and launches; the best of three turns each.
  void measure() {
    try {
      const bool cpu = device_.kind() == DeviceKind::cpu;
      const int64_t count = cpu ? int64_t{1} << 23 : int64_t{1} << 26, side = cpu ? 512 : 4096;
      const Stream stream(context_);
      stream_ = stream;
      {
        const Tensor x(stream, {count}), y(stream, {count});
        fill(stream, 1, x);
        const double s = seconds_of(4, [&] { copy(stream, x, y); });
        diagnosis_.times.push_back({"copy on the device", 8e-9 * static_cast<double>(count) / s, "GB/s"});
        std::vector<float> host(static_cast<size_t>(count));
        const double up = seconds_of(1, [&] { write(stream, x, host); });
        diagnosis_.times.push_back({"host to device", 4e-9 * static_cast<double>(count) / up, "GB/s"});
        const double down = seconds_of(1, [&] { read(stream, x, host.data(), x.bytes()); });
        diagnosis_.times.push_back({"device to host", 4e-9 * static_cast<double>(count) / down, "GB/s"});
      }
      const Tensor a(stream, {side, side}), b(stream, {side, side}), c(stream, {side, side}),
          one(stream, {1});
      for (const Tensor& t : {a, b, one}) fill(stream, 1, t);
      const double product = seconds_of(4, [&] { gemm(stream, a, b, {}, {}, c); });
      diagnosis_.times.push_back({format("multiply f32 %lld^3", static_cast<long long>(side)),
                                  2e-9 * std::pow(static_cast<double>(side), 3) / product, "GFLOP/s"});
      const double launch = seconds_of(500, [&] { pointwise(stream, {one}, {one}, {}, "y0 = x0"); });
      diagnosis_.times.push_back({"a launch, enqueued in a row", 1e6 * launch, "us"});
      const double wait = seconds_of(50, [&] {
        pointwise(stream, {one}, {one}, {}, "y0 = x0");
        stream.finish();
      });
      diagnosis_.times.push_back({"a launch and the wait for it", 1e6 * wait, "us"});
    } catch (const Error& error) {
      diagnosis_.troubles.push_back("measuring: " + first_line(error.what()));
    }
  }

  const Device& device_;
  const DoctorOptions& options_;
  const std::function<void(const std::string&, size_t, size_t)>& say_;
  Context context_;
  Stream stream_;
  std::vector<Job> jobs_;
  Diagnosis diagnosis_;
};

std::vector<std::pair<std::string, std::string>> facts_of(const Device& device) {
  const DeviceFacts& f = device.facts();
  const DeviceProbes& p = device.probes();
  const auto yes = [](bool b) { return std::string(b ? "yes" : "no"); };
  std::vector<std::pair<std::string, std::string>> facts = {
      {"dlprim", DLPRIM_VERSION},
      {"device", f.name},
      {"vendor", f.vendor},
      {"kind", name_of(f.kind)},
      {"platform", f.platform},
      {"version", f.version},
      {"driver", f.driver},
      {"architecture", f.architecture},
      {"compute units", std::to_string(f.compute_units)},
      {"global memory", format("%.2f GB", static_cast<double>(f.global_memory) * 1e-9)},
      {"largest allocation", format("%.2f GB", static_cast<double>(f.max_allocation) * 1e-9)},
      {"local memory", format("%llu bytes, usable %llu", static_cast<unsigned long long>(f.local_memory),
                              static_cast<unsigned long long>(p.static_local_memory))},
      {"fp16", yes(p.fp16)},
      {"fp64", yes(p.fp64)},
      {"sub-group width", std::to_string(p.sub_group_width)},
      {"matrix engine", name_of(p.matrix)},
      {"extensions", f.extensions}};
  for (const char* name :
       {"DLPRIM_CACHE_DIR", "DLPRIM_KERNEL_DIR", "DLPRIM_TUNE_DB", "DLPRIM_CHECK_ACCESS",
        "POCL_EXTRA_BUILD_FLAGS", "POCL_MAX_PTHREAD_COUNT", "OCL_ICD_VENDORS", "RUSTICL_ENABLE"})
    if (const char* value = std::getenv(name)) facts.emplace_back(std::string("$") + name, value);
  return facts;
}

}  // namespace

int64_t Diagnosis::wrong() const {
  return std::count_if(results.begin(), results.end(), [](const CaseResult& r) { return r.wrong > 0; });
}

Diagnosis diagnose(const Device& device, const DoctorOptions& options,
                   const std::function<void(const std::string& text, size_t done, size_t all)>& say) {
  Diagnosis diagnosis = Examination(device, options, say).run();
  diagnosis.facts = facts_of(device);
  return diagnosis;
}

}  // namespace dlprim::cli
