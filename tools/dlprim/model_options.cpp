// The options of the subcommands on models.
#include <CLI/CLI.hpp>

#include <dlprim/net_model.hpp>

#include "model_commands.hpp"

namespace dlprim::cli {

void add_model(CLI::App* command, ModelOptions& options) {
  command
      ->add_option(
          "MODEL", options.model,
          "An ONNX file, a .json file that 'dlprim train', 'dlprim convert' or you wrote, or the name "
          "of a network: 'dlprim networks' lists them")
      ->required()
      ->type_name("FILE|NAME");
  command
      ->add_option(
          "--weights", options.weights,
          "A safetensors file with a named network's weights, as torchvision or transformers names them; "
          "without it they are random")
      ->type_name("FILE");
}

void add_numbers(CLI::App* command, ModelOptions& options) {
  command
      ->add_option("--without", options.without,
                   "Leave out a pass that rewrites the model; may stand several times")
      ->type_name("PASS")
      ->allow_extra_args(false)
      ->transform(CLI::IsMember(graph_passes()));
  command
      ->add_option(
          "--math", options.math,
          "How far products of f32 may depart from a plain sum: strict (no larger errors), standard "
          "(Winograd's larger tiles too) or tf32 (also factors of 10 bits, where the device is faster so)")
      ->type_name("MODE")
      ->transform(CLI::IsMember({"strict", "standard", "tf32"}))
      ->capture_default_str();
  command
      ->add_option(
          "--dtype", options.dtype,
          "What products and convolutions of f32 compute in, and what follows them; inputs and outputs "
          "keep their dtypes")
      ->type_name("DTYPE")
      ->transform(CLI::IsMember({"f32", "f16", "bf16"}))
      ->capture_default_str();
  command
      ->add_option(
          "--pixels", options.pixels,
          "How bytes v of a picture become numbers: imagenet ((v/255 - mean) / deviation), unit (v/255), "
          "centred (v/127.5 - 1) or bytes; without it as the model's file says, else imagenet")
      ->type_name("NAME")
      ->transform(CLI::IsMember({"imagenet", "unit", "centred", "bytes"}));
}

namespace {

CLI::App* add_common(CLI::App& app, const char* name, const char* what, ModelOptions& options,
                     const char* device_help, bool runs) {
  CLI::App* command = app.add_subcommand(name, what);
  add_model(command, options);
  command->add_flag("--json", options.json, "One line of JSON for each record");
  if (!runs) return command;
  command->add_option("--device", options.device, device_help)->type_name("SEL");
  command
      ->add_option(
          "--input", options.inputs,
          "NAME=FILE (.npy, .png, .jpg, .wav, .txt, .raw) or NAME=random, or FILE.npz with inputs by name; "
          "may stand several times. NAME= may be left out if the model has one input. What is not given is "
          "random")
      ->type_name("INPUT")
      ->allow_extra_args(false);
  command
      ->add_option("--batch", options.batch,
                   "How many images, or the like, a random input has: its first size, where that is open")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command
      ->add_option("--shape", options.shapes,
                   "NAME=1x3x224x224: the shape of a random input, where the model leaves sizes open")
      ->type_name("SHAPE")
      ->allow_extra_args(false);
  add_numbers(command, options);
  return command;
}

CLI::App* add_bench(CLI::App& app, BenchModelOptions& options, const char* device_help) {
  CLI::App* bench = add_common(app, "bench", "Measure how long a model, or one operator, takes", options,
                               device_help, true);
  bench->add_option("--seconds", options.seconds, "How long to measure, after the first runs")
      ->transform(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  CLI::Option* train = bench->add_flag(
      "--train", options.train,
      "Measure steps of training with Adam: the first output is compared with random classes");
  CLI::Option* line =
      bench
          ->add_option(
              "--operator", options.operator_line,
              "An operator in place of a model: its line as DLPRIM_LOG=1 prints it, or 'dlprim trace "
              "--json', in quotes; \"op=gemm m=512 n=512 k=64\" will do")
          ->type_name("LINE");
  bench
      ->add_option(
          "--engine", options.engine,
          "The operator's engine: auto (what the library chooses now), line (that of the line), or a "
          "name, with parameters or without: fma, fma:tm=64")
      ->type_name("NAME")
      ->capture_default_str()
      ->needs(line);
  line->excludes(train);
  for (const char* of_models :
       {"MODEL", "--weights", "--input", "--batch", "--shape", "--without", "--dtype", "--pixels"})
    line->excludes(bench->get_option(of_models));
  bench->get_option("MODEL")->required(false);
  bench->callback([&options] {
    if (options.model.empty() && options.operator_line.empty())
      throw CLI::RequiredError("MODEL or --operator");
  });
  return bench;
}

}  // namespace

std::function<std::function<int()>()> add_model_commands(CLI::App& app, const char* device_help) {
  struct All {
    ModelOptions info, explain, networks;
    RunModelOptions run;
    CheckModelOptions check;
    TraceModelOptions trace;
    BenchModelOptions bench;
    ConvertModelOptions convert;
  };
  const auto all = std::make_shared<All>();
  CLI::App* info =
      add_common(app, "info", "Say what a model takes, gives and is made of", all->info, device_help, false);
  CLI::App* explain = add_common(app, "explain", "Say how a model is rewritten, and what each step launches",
                                 all->explain, device_help, true);
  CLI::App* run =
      add_common(app, "run", "Run a model once and show its outputs", all->run, device_help, true);
  run->add_option(
         "--topk", all->run.top,
         "Show the N largest numbers of each row of the outputs; without it five, if the model's file "
         "names the classes")
      ->type_name("N")
      ->transform(CLI::Range(0, 1000));
  run->add_option("--labels", all->run.labels,
                  "A text file with a name for each class, a line each; without it those of the model's file")
      ->type_name("FILE");
  run->add_option("--save", all->run.save, "Write each output as NAME.npy into this folder")
      ->type_name("DIR");
  CLI::App* check = add_common(
      app, "check", "Compare a model's outputs with expected ones, or with another device's, node by node",
      all->check, device_help, true);
  CLI::Option* expect = check
                            ->add_option("--expect", all->check.expect,
                                         "An .npz with the expected outputs by name; inputs in it are fed")
                            ->type_name("FILE");
  check
      ->add_option("--against", all->check.against,
                   "Another device as --device takes it, for example cpu: says which node differs first")
      ->type_name("SEL")
      ->excludes(expect);
  check->add_option("--rtol", all->check.rtol, "Allowed difference, as a share of the expected number")
      ->capture_default_str();
  check->add_option("--atol", all->check.atol, "Allowed difference beside that")->capture_default_str();
  CLI::App* trace = add_common(
      app, "trace", "Show where a run's time on the device goes, node by node and kernel by kernel",
      all->trace, device_help, true);
  trace
      ->add_option("--out", all->trace.out,
                   "Write each node, operator and kernel with its times as JSON, for chrome://tracing or "
                   "https://ui.perfetto.dev")
      ->type_name("FILE.json");
  trace->add_option("--svg", all->trace.svg, "Draw the run as a bar, coloured by kinds of nodes")
      ->type_name("FILE.svg");
  trace->add_flag("--train", all->trace.train,
                  "Trace a step of training: the first output is compared with random classes; what the "
                  "optimizer does is not in it");
  trace->add_option("--top", all->trace.top, "Rows of each table: the most expensive")
      ->type_name("N")
      ->transform(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  CLI::App* networks = app.add_subcommand("networks", "List the networks that have names");
  networks->add_flag("--json", all->networks.json, "One line of JSON for each record");
  CLI::App* bench = add_bench(app, all->bench, device_help);
  CLI::App* convert = add_common(
      app, "convert", "Write a model as JSON to read and edit, with its weights in a safetensors file",
      all->convert, device_help, false);
  convert
      ->add_option("OUT", all->convert.out,
                   "The file to write, NAME.json; weights go to NAME.safetensors beside it. "
                   "docs/model_format.md describes the format")
      ->required()
      ->type_name("FILE.json");
  convert->add_flag("--force", all->convert.force, "Replace files that are there already");
  return [=]() -> std::function<int()> {
    if (networks->parsed()) return [all] { return run_networks(all->networks); };
    if (info->parsed()) return [all] { return run_info(all->info); };
    if (explain->parsed()) return [all] { return run_explain(all->explain); };
    if (run->parsed()) return [all] { return run_model(all->run); };
    if (check->parsed()) return [all] { return run_check(all->check); };
    if (trace->parsed()) return [all] { return run_trace(all->trace); };
    if (bench->parsed()) return [all] { return run_bench(all->bench); };
    if (convert->parsed()) return [all] { return run_convert(all->convert); };
    return nullptr;
  };
}

}  // namespace dlprim::cli
