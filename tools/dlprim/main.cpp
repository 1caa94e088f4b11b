// The `dlprim` program: reads the command line, calls a subcommand, and turns errors into one clear line.
// Exit codes: 0 done, 1 an error, 2 no OpenCL device, or tuning of what does not exist; 130 ended by Ctrl-C;
// CLI11's own (above 100) for options it cannot read.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "commands.hpp"
#include "device_choice.hpp"
#include "doctor.hpp"
#include "model_commands.hpp"
#include "model_train.hpp"
#include "suggestion.hpp"

namespace {

using dlprim::cli::ReadOptions;
using dlprim::cli::TrainModelOptions;
using dlprim::cli::TrainOptions;
using dlprim::cli::TuneOptions;

constexpr const char* kDeviceHelp =
    "The device: gpu, cpu or accelerator for the first of that kind that works, or its number, "
    "platform:device, or part of its name, as 'dlprim devices' shows them. Without it: the first GPU that "
    "works, else an accelerator, else the CPU";

CLI::App* add_tune(CLI::App& app, TuneOptions& options) {
  CLI::App* tune = app.add_subcommand(
      "tune",
      "Measure which engine with which parameters is fastest on a device, and keep that for every "
      "program of yours");
  tune->add_option("--device", options.device, kDeviceHelp)->type_name("SEL");
  tune->add_option("--op", options.op, "The operator")->type_name("NAME")->capture_default_str();
  CLI::Option* quick =
      tune->add_flag("--quick", options.quick, "A few problems, about a minute (the default)");
  CLI::Option* full =
      tune->add_flag("--full", options.full, "All problems that the library's own tables have")
          ->excludes(quick);
  tune->add_option("--shapes", options.shapes, "The problems in a file, a line each, as in bench/shapes")
      ->type_name("FILE")
      ->excludes(quick)
      ->excludes(full);
  tune->add_flag("--exhaustive", options.exhaustive, "All candidates, each three times as long");
  tune->add_option("--export", options.out, "Write what was measured as a file for the repository's tuning/")
      ->type_name("FILE");
  return tune;
}

CLI::App* add_read(CLI::App& app, ReadOptions& options) {
  CLI::App* read = app.add_subcommand(
      "read", "Read the text of a picture with networks of PaddleOCR's kind, from ONNX files");
  read->add_option("PICTURE", options.picture, "A PNG or JPEG file")->required()->type_name("FILE");
  read->add_option("--models", options.models,
                   "Folder with a detector, a recogniser and, if text may stand upside down, a classifier: "
                   "ONNX files with det, rec and cls in their names. The Python package "
                   "rapidocr-onnxruntime holds such ('scripts/networks' fetches them)")
      ->type_name("DIR")
      ->required();
  read->add_option("--device", options.device, kDeviceHelp)->type_name("SEL");
  read->add_flag("--upright", options.upright, "No text stands upside down: the classifier is left out");
  read->add_flag("--json", options.json, "A line of JSON for each line of text: text, score, corners");
  read->add_option("--save", options.save, "Write the picture with a box around each line, as PNG")
      ->type_name("FILE");
  return read;
}

/// What is wrong with the first word that is no command, or no option of the command; "" if none is.
std::string unknown_word(CLI::App& app, int argc, char** argv) {
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    commands.push_back(command->get_name());
  const std::string first = argc > 1 ? argv[1] : "";
  if (first.empty() || first[0] == '-') return "";
  if (std::find(commands.begin(), commands.end(), first) == commands.end())
    return "'" + first + "' is no command" + dlprim::cli::did_you_mean(first, commands);
  std::vector<std::string> options = {"--help"};
  for (const CLI::Option* option : app.get_subcommand_ptr(first)->get_options())
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  for (int i = 2; i < argc; i++) {
    const std::string word = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
    if (word.size() < 3 || word.compare(0, 2, "--") != 0) continue;
    if (std::find(options.begin(), options.end(), word) == options.end())
      return "'" + first + "' has no option '" + word + "'" + dlprim::cli::did_you_mean(word, options);
  }
  return "";
}

/// Of what was printed nothing may be lost without a word: a full disk is an error.
int finish_output(int code) {
  std::cout.flush();
  const bool whole = std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (whole) return code;
  // The reason may be long forgotten: once more.
  std::clearerr(stdout);
  errno = 0;
  const bool again = std::fputc('\n', stdout) != EOF && std::fflush(stdout) == 0;
  std::cerr << "dlprim: cannot write the standard output: "
            << (again || errno == 0 ? "a part of it is lost" : std::strerror(errno)) << std::endl;
  return code == 0 ? 1 : code;
}

int run(int argc, char** argv) {
  CLI::App app(
      "Deep-learning primitives over OpenCL: look at devices, tune for them, run ONNX models, read "
      "pictures, train a network.",
      "dlprim");
  app.footer("'dlprim COMMAND --help' lists a command's options.");
  app.set_version_flag("--version", "dlprim " DLPRIM_VERSION);
  app.require_subcommand(1);
  TrainOptions train_options;
  TrainModelOptions train_model_options;
  TuneOptions tune_options;
  ReadOptions read_options;
  CLI::App* devices = app.add_subcommand("devices", "List the OpenCL devices and what they can do");
  bool json = false;
  devices->add_flag("--json", json, "A line of JSON for each device");
  CLI::App* train = dlprim::cli::add_train(app, train_options, train_model_options, kDeviceHelp);
  CLI::App* tune = add_tune(app, tune_options);
  CLI::App* read = add_read(app, read_options);
  dlprim::cli::DoctorOptions doctor_options;
  CLI::App* doctor = dlprim::cli::add_doctor(app, doctor_options, kDeviceHelp);
  const auto picture_command = dlprim::cli::add_picture_commands(app, kDeviceHelp);
  const auto model_command = dlprim::cli::add_model_commands(app, kDeviceHelp);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::string unknown = error.get_exit_code() == 0 ? "" : unknown_word(app, argc, argv);
    if (unknown.empty()) return app.exit(error);
    std::cerr << "dlprim: " << unknown << "\nRun with --help for more information." << std::endl;
    return error.get_exit_code();
  }
  try {
    if (devices->parsed()) return dlprim::cli::run_devices(json);
    if (train->parsed())
      return train_model_options.model.empty() ? dlprim::cli::run_train(train_options)
                                               : dlprim::cli::run_train_model(train_model_options);
    if (doctor->parsed()) return dlprim::cli::run_doctor(doctor_options);
    if (tune->parsed()) return dlprim::cli::run_tune(tune_options);
    if (read->parsed()) return dlprim::cli::run_read(read_options);
    if (const auto command = picture_command()) return command();
    if (const auto command = model_command()) return command();
  } catch (const dlprim::cli::NoDevice& error) {
    std::cerr << "dlprim: " << error.what();
    return 2;
  } catch (const dlprim::cli::BadInput& error) {
    std::cerr << "dlprim: " << error.what() << std::endl;
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "dlprim: " << error.what() << std::endl;
    return 1;
  }
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  return finish_output(run(argc, argv));
}
