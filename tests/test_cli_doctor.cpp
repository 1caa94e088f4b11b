// `dlprim doctor`: it finds nothing on a device that is right; and a fault that an observer puts in
// (docs/mutation.md) it finds, names, and switches off for later processes.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include <dlprim/engines_off.hpp>
#include <dlprim/gemm.hpp>

#include "catch.hpp"
#include "child.hpp"
#include "cli.hpp"
#include "core/memory.hpp"
#include "core/observer.hpp"
#include "core/state.hpp"
#include "doctor.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

/// Spoils four bytes of each tensor that an operator took, as soon as it ends: of those whose text holds
/// `text`, from the `from`-th on.
class Fault : public detail::OperatorObserver {
 public:
  Fault(std::string text, int from) : text_(std::move(text)), from_(from) {
    detail::operator_observer = this;
  }
  ~Fault() override { detail::operator_observer = nullptr; }

  void begins(const detail::StreamState&, const std::string& text) override {
    hit_ = text.find(text_) != std::string::npos && ++seen_ >= from_;
    used_.clear();
  }
  void uses(const detail::StreamState&, const Tensor& tensor) override {
    if (hit_) used_.push_back(tensor);
  }
  void ends(const detail::StreamState& stream) override {
    if (!hit_) return;
    hit_ = false;
    const float wrong = 3.14f;
    for (const Tensor& tensor : used_) {
      const detail::Storage& s = *tensor.storage();
      if (clEnqueueWriteBuffer(stream.queue->queue(), s.buffer(), CL_TRUE, s.offset, sizeof wrong, &wrong, 0,
                               nullptr, nullptr) != CL_SUCCESS)
        std::abort();
    }
    used_.clear();
  }
  void reads(const Tensor&) override {}

 private:
  const std::string text_;
  const int from_;
  int seen_ = 0;
  bool hit_ = false;
  std::vector<Tensor> used_;
};

const GemmDesc kProduct{TensorDesc({67, 96}), TensorDesc({96, 130}), TensorDesc({67, 130})};

cli::DoctorOptions gemm_alone(bool keep = false) {
  cli::DoctorOptions options;
  options.runs = 2;
  options.families = {"gemm"};
  options.keep = keep;
  return options;
}

cli::Diagnosis diagnosis_of(const cli::DoctorOptions& options) {
  return cli::diagnose(context().device(), options, [](const std::string&, size_t, size_t) {});
}

}  // namespace

TEST_CASE("doctor finds nothing wrong with a device that is right", "[cli_doctor]") {
  const TempDir folder;
  const Result result = run("doctor --runs 2 --out '" + (folder / "report") + "'" + device_option());
  INFO(result.out << result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Catch::Contains("all was right"));
  const nlohmann::json report = nlohmann::json::parse(bytes_of(folder / "report.json"));
  CHECK(report["wrong"] == 0);
  CHECK(report["troubles"].empty());
  std::map<std::string, int> families;
  for (const auto& r : report["results"]) {
    families[r["family"]]++;
    CHECK(r["runs"] == 2);
    CHECK(r["engine"] != "auto");  // the engine that was chosen is named
  }
  for (const char* family : {"conv", "gemm", "index", "loss", "movement", "norm", "optim", "pointwise",
                             "pool", "random", "reduce", "resample", "scan", "softmax", "sort"})
    CHECK(families[family] >= 1);
  CHECK(families["gemm"] > 8);  // by each engine
  CHECK(report["times"].size() == 6);
  for (const auto& t : report["times"]) CHECK(t["value"] > 0);
  const std::string page = bytes_of(folder / "report.html");
  CHECK_THAT(page, Catch::Contains("cases were right, each time") &&
                       Catch::Contains(context().device().facts().driver));
  CHECK_THAT(page, !Catch::Contains("http"));  // complete in itself
  CHECK(run("doctor --runs 0").code > 100);
}

TEST_CASE("doctor: with a fault", "[.]") {
  const std::string engine = Gemm(context(), kProduct).engine();
  const cli::Diagnosis healthy = diagnosis_of(gemm_alone());
  REQUIRE(healthy.wrong() == 0);
  {
    const Fault fault("op=gemm engine=" + engine + " ", 1);
    const cli::Diagnosis kept = diagnosis_of(gemm_alone(true));
    CHECK(kept.wrong() > 0);
    CHECK(engines_off(context().device()).empty());
    const cli::Diagnosis found = diagnosis_of(gemm_alone());
    CHECK(found.wrong() > 0);
    for (const cli::CaseResult& r : found.results) {
      CAPTURE(r.name, r.engine, r.failure);
      CHECK(r.op == "gemm");
      CHECK((r.wrong > 0) == (r.engine == engine));
      if (r.wrong > 0)
        CHECK_THAT(r.failure, Catch::StartsWith("run 1: ") && Catch::Contains("elements are wrong"));
    }
    REQUIRE(found.switched_off.size() == 1);
    CHECK((found.switched_off[0].op == "gemm" && found.switched_off[0].engine == engine));
    CHECK(found.troubles.empty());
    CHECK_THAT(cli::doctor_html(found), Catch::Contains("Switched off now") && Catch::Contains(engine) &&
                                            Catch::Contains("elements are wrong"));
    const nlohmann::json report = nlohmann::json::parse(cli::doctor_json(found));
    CHECK(report["switched_off"][0]["engine"] == engine);
    CHECK(report["wrong"] == found.wrong());
  }
  // Plans that are made now do without it, and say why.
  const std::vector<EngineOff> off = engines_off(context().device());
  REQUIRE(off.size() == 1);
  CHECK((off[0].op == "gemm" && off[0].engine == engine));
  const Gemm other(context(), kProduct);
  CHECK(other.engine() != engine);
  CHECK_THAT(other.explain(), Catch::Contains(engine + ": refused, is switched off for this device: gemm "));
  Options asked;
  asked.engine = engine;
  CHECK_THAT(error_of<ValidationError>([&] { Gemm(context(), kProduct, asked); }),
             Catch::StartsWith("engine: gemm: " + engine + " refused:") &&
                 Catch::Contains("\n  " + engine + ": is switched off for this device: "));
  // So do other processes of the user's.
  const auto chosen = [&] {
    const Result result =
        run("bench --seconds 0.1 --json --operator 'op=gemm m=67 n=130 k=96'" + device_option());
    INFO(result.err);
    return nlohmann::json::parse(result.out)["engine"].get<std::string>();
  };
  CHECK(chosen() == other.engine());
  // A doctor looks at it all the same, and reports it as it was.
  const cli::Diagnosis again = diagnosis_of(gemm_alone());
  CHECK(again.wrong() == 0);
  CHECK(again.off_before.size() == 1);
  CHECK(std::any_of(again.results.begin(), again.results.end(),
                    [&](const cli::CaseResult& r) { return r.engine == engine && r.runs == 2; }));
  CHECK_THAT(run("doctor --reset" + device_option()).out,
             Catch::Contains("1 engines were switched on again"));
  CHECK(engines_off(context().device()).empty());
  CHECK(chosen() == engine);
}

TEST_CASE("doctor: with a fault that comes later", "[.]") {
  const std::string engine = Gemm(context(), kProduct).engine();
  cli::DoctorOptions options = gemm_alone(true);
  options.runs = 3;
  const cli::Diagnosis first = diagnosis_of(gemm_alone(true));
  int64_t runs = 0;
  for (const cli::CaseResult& r : first.results) runs += r.engine == engine ? 1 : 0;
  const Fault fault("op=gemm engine=" + engine + " ", static_cast<int>(2 * runs + 1));  // in the third run
  const cli::Diagnosis found = diagnosis_of(options);
  CHECK(found.wrong() == runs);
  for (const cli::CaseResult& r : found.results)
    if (r.engine == engine) {
      CHECK(r.wrong == 1);
      CHECK_THAT(r.failure, Catch::StartsWith("run 3: "));
    }
}

TEST_CASE("doctor: an operator without another engine", "[.]") {
  cli::DoctorOptions options = gemm_alone();
  options.families = {"optim"};
  const Fault fault("op=optimizer ", 1);
  const cli::Diagnosis found = diagnosis_of(options);
  CHECK(found.wrong() == 1);
  CHECK(found.switched_off.empty());
  REQUIRE(found.troubles.size() == 1);
  CHECK_THAT(found.troubles[0], Catch::Contains("optimizer: no engine of it is right on this device"));
}

TEST_CASE("doctor finds a fault, names it, and switches the engine off", "[cli_doctor]") {
  for (const char* name : {"doctor: with a fault", "doctor: with a fault that comes later",
                           "doctor: an operator without another engine"}) {
    const TempDir folder;
    const Child child = run_child(name, {{"DLPRIM_CACHE_DIR", folder.path().string()}});
    INFO(name << "\n" << child.output);
    CHECK(child.passed);
  }
}

TEST_CASE("doctor: a record that cannot be kept is told", "[.]") {
  const Device device = context().device();
  CHECK_THAT(error_of<Error>([&] {
               switch_engine_off(device, {"gemm", "fma", "x"});
             }),
             Catch::Contains("there is no folder of compiled programs"));
  CHECK(error_of<ValidationError>([&] {
          switch_engine_off(device, {"gemm", "", "x"});
        }).rfind("engine: ", 0) == 0);
  CHECK(error_of<ValidationError>([&] {
          switch_engine_off(device, {"gemm", "fma", "a\tb"});
        }).rfind("reason: ", 0) == 0);
  switch_engines_on(device);
  CHECK(engines_off(device).empty());
}

TEST_CASE("a record of engines that cannot be kept is an error", "[cli_doctor]") {
  const Child child = run_child("doctor: a record that cannot be kept is told", {{"DLPRIM_CACHE_DIR", ""}});
  INFO(child.output);
  CHECK(child.passed);
}
