// Runs one case after another for bench/compare: reads requests, a line each, and answers each with a line.
//
//   facts               NAME \t PLATFORM \t DRIVER \t KIND \t COMPUTE UNITS of the device
//   check PATH CASE     makes CASE, "OP NAME=VALUE...", runs it once and writes its results' bytes to PATH.0,
//                       PATH.1, ..., row-major: ENGINE BYTES and DTYPE:SHAPE of each
//   time RUNS CASE      mean milliseconds of RUNS runs that were enqueued together
//   device RUNS CASE    mean milliseconds of the kernels of a run on the device, by OpenCL's own events
//
// or "error TEXT". A case's tensors and plan stay until another case is named, or checked. Each measure_*.cpp
// beside this file brings an op.
#include "measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include <dlprim/copy.hpp>

#include "core/state.hpp"
#include "support.hpp"

namespace dlprim::bench {

using test::context;
using test::stream;

namespace {

using MakeCase = std::unique_ptr<Case> (*)(detail::ProblemLine&);

std::map<std::string, MakeCase>& makers() {
  static std::map<std::string, MakeCase> result;
  return result;
}

std::unique_ptr<Case> make(const std::string& text) {
  detail::ProblemLine line(text);
  const auto found = makers().find(line.op());
  if (found == makers().end()) throw Error("there is no case of op '" + line.op() + "'");
  return found->second(line);
}

struct MovingCase : Case {
  void run() override { enqueue(); }
  std::vector<Tensor> results() const override { return written(); }
  double bytes() const override { return moved; }

  double moved = 0;
  std::function<std::vector<Tensor>()> written;
  std::function<void()> enqueue;
};

/// Notes the operators that run on a stream while it lives.
class Recorder {
 public:
  explicit Recorder(const Stream& on) : stream_(on) { stream_.state().logs = true; }
  ~Recorder() {
    take();
    stream_.state().logs = false;
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  /// Those since the last call; the log does not get them.
  std::vector<detail::OperatorRecord> take() { return std::exchange(stream_.state().records, {}); }

 private:
  Stream stream_;
};

/// "engine=NAME" of the operators' texts, each once; of a kernel without an operator its name.
std::string engines_of(const std::vector<detail::OperatorRecord>& records) {
  std::vector<std::string> names;
  for (const detail::OperatorRecord& record : records) {
    const std::string before = " engine=";
    const size_t at = record.text.find(before);
    const size_t begin = at == std::string::npos ? record.text.find('=') + 1 : at + before.size();
    const std::string name = record.text.substr(begin, record.text.find(' ', begin) - begin);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : "+") + name;
  return joined.empty() ? "none" : joined;
}

std::string check(Case& x, const std::string& path) {
  std::ostringstream answer;
  {
    Recorder recorder(stream());
    x.run();
    answer << engines_of(recorder.take());
  }
  stream().finish();
  answer << " " << std::llround(x.bytes());
  const std::vector<Tensor> results = x.results();
  for (size_t i = 0; i < results.size(); i++) {
    const std::vector<unsigned char> bytes = test::host_bytes(results[i]);
    std::ofstream out(path + "." + std::to_string(i), std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) throw Error("cannot write " + path);
    answer << " " << name_of(results[i].dtype()) << ":";
    for (int axis = 0; axis < results[i].rank(); axis++)
      answer << (axis ? "x" : "") << results[i].shape()[axis];
  }
  return answer.str();
}

double milliseconds(Case& x, int runs) {
  stream().finish();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; i++) x.run();
  stream().finish();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / runs;
}

/// On a queue that measures, which the other times do not have to bear.
double device_milliseconds(Case& x, int runs) {
  cl_int code = CL_SUCCESS;
  const cl::CommandQueue queue(
      clCreateCommandQueue(context().cl()(), context().device().cl()(), CL_QUEUE_PROFILING_ENABLE, &code));
  if (code != CL_SUCCESS) throw DeviceError("clCreateCommandQueue", code);
  stream().finish();
  const Stream usual = std::exchange(stream(), Stream(context(), queue));
  std::vector<cl::Event> events;
  try {
    x.run();
    Recorder recorder(stream());
    for (int i = 0; i < runs; i++) {
      x.run();
      for (const detail::OperatorRecord& record : recorder.take())
        for (const auto& [name, event] : record.kernels) events.push_back(event);
    }
    stream().finish();
  } catch (...) {
    stream() = usual;
    throw;
  }
  stream() = usual;
  double sum = 0;
  for (const cl::Event& event : events) {
    cl_ulong start = 0, end = 0;
    code = clGetEventProfilingInfo(event(), CL_PROFILING_COMMAND_START, sizeof start, &start, nullptr);
    if (code == CL_SUCCESS)
      code = clGetEventProfilingInfo(event(), CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr);
    if (code != CL_SUCCESS) throw DeviceError("clGetEventProfilingInfo", code);
    sum += static_cast<double>(end - start) * 1e-6;
  }
  return sum / runs;
}

std::string facts() {
  const DeviceFacts& f = context().device().facts();
  const char* kind = f.kind == DeviceKind::cpu ? "cpu" : f.kind == DeviceKind::gpu ? "gpu" : "other";
  return f.name + "\t" + f.platform + "\t" + f.driver + "\t" + kind + "\t" + std::to_string(f.compute_units);
}

/// The case that is being measured.
class Current {
 public:
  Case& fresh(const std::string& text) {
    // So that the next case does not find results in its memory that another one of the same problem left.
    if (case_)
      for (const Tensor& left : case_->results()) fill(stream(), is_floating(left.dtype()) ? NAN : 77, left);
    case_.reset();
    text_.clear();
    context().empty_cache();
    case_ = make(text);
    text_ = text;
    return *case_;
  }
  Case& get(const std::string& text) {
    if (!case_ || text != text_) milliseconds(fresh(text), 1);
    return *case_;
  }

 private:
  std::string text_;
  std::unique_ptr<Case> case_;
};

std::string answer(Current& current, const std::string& request) {
  std::istringstream in(request);
  std::string verb, argument, text;
  in >> verb;
  if (verb == "facts") return facts();
  in >> argument >> std::ws;
  std::getline(in, text);
  if (verb == "check") return check(current.fresh(text), argument);
  if (verb != "time" && verb != "device") throw Error("a request is facts, check, time or device");
  const int runs = std::stoi(argument);
  Case& x = current.get(text);
  return std::to_string(verb == "time" ? milliseconds(x, runs) : device_milliseconds(x, runs));
}

}  // namespace

CasesOf::CasesOf(const char* op, MakeCase make) {
  makers()[op] = make;
}

std::unique_ptr<Case> moving_case(double bytes, const std::vector<Tensor>& results,
                                  std::function<void()> run) {
  return moving_case(
      bytes, [results] { return results; }, std::move(run));
}

std::unique_ptr<Case> moving_case(double bytes, std::function<std::vector<Tensor>()> results,
                                  std::function<void()> run) {
  auto result = std::make_unique<MovingCase>();
  result->moved = bytes;
  result->written = std::move(results);
  result->enqueue = std::move(run);
  return result;
}

double bytes_of(const std::vector<Tensor>& tensors) {
  double sum = 0;
  for (const Tensor& x : tensors)
    if (x.defined()) sum += static_cast<double>(x.bytes());
  return sum;
}

Options options_of(detail::ProblemLine& line) {
  Options options;
  options.engine = line.text("engine", "auto");
  options.math = detail::parse_math(line.word("math", {"standard", "strict", "tf32"}));
  return options;
}

}  // namespace dlprim::bench

int main() {
  using namespace dlprim::bench;
  Current current;
  for (std::string line; std::getline(std::cin, line);) {
    std::string said;
    try {
      said = answer(current, line);
    } catch (const std::exception& error) {
      said = std::string("error ") + error.what();
      std::replace(said.begin(), said.end(), '\n', ' ');
    }
    std::printf("%s\n", said.c_str());
    std::fflush(stdout);
  }
}
