// The `dlprim` program: reads the command line, calls a subcommand, and turns errors into one clear line.
// Exit codes: 0 done, 1 an error, 2 no OpenCL device; CLI11's own (above 100) for options it cannot read.
#include <CLI/CLI.hpp>

#include <iostream>

#include "commands.hpp"
#include "device_choice.hpp"

namespace {

using dlprim::cli::EvalOptions;
using dlprim::cli::TrainOptions;

constexpr const char* kDeviceHelp =
    "The device: its number, platform:device, or part of its name, as 'dlprim devices' shows them. "
    "Without it: the first GPU that works, else an accelerator, else the CPU";

CLI::App* add_train(CLI::App& app, TrainOptions& options) {
  CLI::App* train = app.add_subcommand(
      "train", "Train a small convolutional network on Fashion-MNIST (or MNIST), and write what it learned");
  train->add_option("--data", options.data, "Folder with the IDX files, gzipped or not")
      ->type_name("DIR")
      ->capture_default_str();
  train->add_option("--epochs", options.epochs, "How often to go through all training images")
      ->type_name("N")
      ->transform(CLI::Range(1, 10000))
      ->capture_default_str();
  train->add_option("--batch", options.batch, "Images in one step")
      ->type_name("N")
      ->transform(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  train->add_option("--device", options.device, kDeviceHelp)->type_name("SEL");
  train
      ->add_option("--seed", options.seed,
                   "The same seed on the same device gives the same weights, bit for bit")
      ->type_name("N")
      ->transform(CLI::NonNegativeNumber)
      ->capture_default_str();
  train->add_option("--solver", options.solver, "How weights are updated: adam or sgd")
      ->type_name("NAME")
      ->transform(CLI::IsMember({"adam", "sgd"}))
      ->capture_default_str();
  train
      ->add_option("--lr", options.learning_rate,
                   "Learning rate at the start; it falls to 0 along a cosine. Without it: 0.002 for adam, "
                   "0.05 for sgd")
      ->type_name("RATE")
      ->transform(CLI::Range(1e-9, 1e3));
  train->add_option("--out", options.out, "Folder for weights.safetensors, curves.svg and log.json")
      ->type_name("DIR")
      ->capture_default_str();
  return train;
}

CLI::App* add_eval(CLI::App& app, EvalOptions& options) {
  CLI::App* eval = app.add_subcommand("eval", "Measure how well trained weights classify the test images");
  eval->add_option("--data", options.data, "Folder with the IDX files, gzipped or not")
      ->type_name("DIR")
      ->capture_default_str();
  eval->add_option("--weights", options.weights, "The weights.safetensors that 'dlprim train' wrote")
      ->type_name("FILE")
      ->required();
  eval->add_option("--device", options.device, kDeviceHelp)->type_name("SEL");
  eval->add_option("--batch", options.batch, "Images at a time")
      ->type_name("N")
      ->transform(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  return eval;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Deep-learning primitives over OpenCL: look at devices, train and run a network on any of them.",
      "dlprim");
  app.footer("'dlprim COMMAND --help' lists a command's options.");
  app.set_version_flag("--version", "dlprim " DLPRIM_VERSION);
  app.require_subcommand(1);
  TrainOptions train_options;
  EvalOptions eval_options;
  CLI::App* devices = app.add_subcommand("devices", "List the OpenCL devices and what they can do");
  CLI::App* train = add_train(app, train_options);
  CLI::App* eval = add_eval(app, eval_options);
  CLI11_PARSE(app, argc, argv);
  try {
    if (devices->parsed()) return dlprim::cli::run_devices();
    if (train->parsed()) return dlprim::cli::run_train(train_options);
    if (eval->parsed()) return dlprim::cli::run_eval(eval_options);
  } catch (const dlprim::cli::NoDevice& error) {
    std::cerr << "dlprim: " << error.what();
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "dlprim: " << error.what() << std::endl;
    return 1;
  }
  return 1;
}
