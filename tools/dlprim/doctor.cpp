// `dlprim doctor`: its options, what it prints, and the files that it writes.
#include "doctor.hpp"

#include <CLI/CLI.hpp>

#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "device_choice.hpp"
#include "format.hpp"
#include "output_folder.hpp"
#include "progress.hpp"
#include "waiting.hpp"

namespace dlprim::cli {
namespace {

void print(const Diagnosis& d, const DoctorOptions& options) {
  struct Sum {
    size_t cases = 0, wrong = 0;
  };
  std::map<std::string, Sum> families;
  for (const CaseResult& r : d.results) {
    Sum& sum = families[r.family];
    sum.cases++, sum.wrong += r.wrong > 0;
  }
  for (const auto& [family, sum] : families)
    std::cout << format("%-10s  %3zu cases  ", family.c_str(), sum.cases)
              << (sum.wrong == 0 ? "right" : format("%zu WRONG", sum.wrong)) << "\n";
  for (const CaseResult& r : d.results)
    if (r.wrong > 0)
      std::cout << "WRONG  " << r.op << ", engine " << r.engine << ", " << r.family << " " << r.name << ": "
                << r.failure
                << format(" (%lld of %lld runs)\n", static_cast<long long>(r.wrong),
                          static_cast<long long>(r.runs));
  for (const DoctorTime& t : d.times)
    std::cout << format("%-30s %10.4g %s\n", t.what.c_str(), t.value, t.unit.c_str());
  for (const EngineOff& e : d.off_before)
    std::cout << "was switched off: " << e.op << ", engine " << e.engine << ": " << e.reason << "\n";
  for (const EngineOff& e : d.switched_off)
    std::cout << (options.keep ? "would be switched off: " : "switched off: ") << e.op << ", engine "
              << e.engine << ". 'dlprim doctor --reset' switches it on again\n";
  for (const std::string& trouble : d.troubles) std::cout << "TROUBLE  " << trouble << "\n";
}

}  // namespace

CLI::App* add_doctor(CLI::App& app, DoctorOptions& options, const char* device_help) {
  CLI::App* doctor = app.add_subcommand(
      "doctor",
      "Find out whether a device computes right each time, and write a report to attach to an issue");
  doctor->add_option("--device", options.device, device_help)->type_name("SEL");
  doctor->add_option("--runs", options.runs, "How often each case runs")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{100000}))
      ->capture_default_str();
  doctor
      ->add_option("--family", options.families,
                   "Only cases of this family of operators; may stand several times")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->transform(CLI::IsMember({"conv", "gemm", "index", "loss", "movement", "norm", "optim", "pointwise",
                                 "pool", "random", "reduce", "resample", "scan", "softmax", "sort"}));
  doctor->add_option("--out", options.out, "The report's name: NAME.html and NAME.json are written")
      ->type_name("NAME")
      ->capture_default_str();
  doctor->add_flag("--keep", options.keep, "Switch no engine off");
  doctor->add_flag("--reset", options.reset,
                   "Switch all engines of the device on again, and do nothing else");
  doctor->add_flag("--json", options.json, "Print the report as JSON, too");
  doctor->footer(
      "An engine that gave a wrong result is switched off for this device and driver, for every program of "
      "yours, if "
      "another engine of the operator was right. Exit codes: 0 all was right, 1 something was wrong, 2 no "
      "device.");
  return doctor;
}

int run_doctor(const DoctorOptions& options) {
  const Device device = choose_device(options.device);
  if (options.reset) {
    const size_t count = engines_off(device).size();
    switch_engines_on(device);
    std::cout << count << " engines were switched on again\n";
    return 0;
  }
  for (const char* end : {".html", ".json"}) require_writable(options.out + end);
  FILE* out = options.json ? stderr : stdout;
  std::optional<Progress> progress(std::in_place, 100, "%", out);
  progress->line("device  " + describe(device));
  std::optional<Waiting> waiting(std::in_place, compiling());
  const Diagnosis diagnosis =
      diagnose(device, options, [&](const std::string& text, size_t done, size_t all) {
        const double share = static_cast<double>(done) / static_cast<double>(std::max<size_t>(all, 1));
        progress->show(static_cast<int64_t>(100 * share), share, "checking", text, false);
      });
  waiting.reset();
  progress.reset();
  write_file(options.out + ".html", doctor_html(diagnosis));
  write_file(options.out + ".json", doctor_json(diagnosis));
  const bool good = diagnosis.wrong() == 0 && diagnosis.troubles.empty();
  if (options.json) {
    std::cout << nlohmann::json::parse(doctor_json(diagnosis)).dump() << "\n";
    return good ? 0 : 1;
  }
  print(diagnosis, options);
  std::cout << (good ? "all was right" : "something was wrong") << "; wrote " << options.out << ".html and "
            << options.out << ".json\n";
  return good ? 0 : 1;
}

}  // namespace dlprim::cli
