// The options of the subcommands that classify pictures: predict and eval.
#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "model_commands.hpp"

namespace dlprim::cli {
namespace {

void add_size(CLI::App* command, int64_t& size) {
  command
      ->add_option(
          "--size", size,
          "The side that pictures are resized to, where the model leaves it open; without it that of "
          "the model's file")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 14));
}

CLI::App* add_predict(CLI::App& app, PredictOptions& options, const char* device_help) {
  CLI::App* predict = app.add_subcommand(
      "predict", "Say which class pictures belong to, by a model that 'dlprim train' wrote or another one");
  add_model(predict, options);
  predict->add_option("PICTURES", options.paths, "PNG and JPEG files, and folders of such")
      ->required()
      ->type_name("FILE|DIR");
  predict->add_option("--topk", options.top, "So many classes for each picture, the likeliest first")
      ->type_name("N")
      ->transform(CLI::Range(1, 1000))
      ->capture_default_str();
  predict
      ->add_option(
          "--labels", options.labels,
          "A text file with a name for each class, a line each; without it those of the model's file")
      ->type_name("FILE");
  predict
      ->add_option("--save", options.save,
                   "Write the predictions into a file that ends in .csv or .json; may stand several times")
      ->type_name("FILE")
      ->allow_extra_args(false);
  predict->add_flag("--json", options.json, "A line of JSON for each picture");
  predict->add_option("--batch", options.batch, "Pictures at a time, where the model leaves it open")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 16));
  add_size(predict, options.size);
  predict->add_option("--device", options.device, device_help)->type_name("SEL");
  add_numbers(predict, options);
  predict->footer(
      "A picture that cannot be read is told and has no prediction; the exit code is 1 then. A probability "
      "is "
      "the softmax of the model's numbers, or those numbers where they are probabilities already.");
  return predict;
}

CLI::App* add_eval(CLI::App& app, EvalOptions& options, EvalModelOptions& of_model, const char* device_help) {
  CLI::App* eval = app.add_subcommand(
      "eval",
      "Measure how well a model classifies test images; without MODEL and DATA, how well the weights of the "
      "small network do that 'dlprim train' trains without a model");
  add_model(eval, of_model);
  CLI::Option* model = eval->get_option("MODEL")->required(false);
  CLI::Option* data =
      eval->add_option("DATA", of_model.data, "A folder of images as 'dlprim train' takes it");
  data->type_name("DIR");
  model->needs(data);
  eval->add_option("--data", options.data,
                   "Folder with the IDX files, gzipped or not, where no MODEL is given")
      ->type_name("DIR")
      ->capture_default_str();
  eval->add_option("--device", options.device, device_help)->type_name("SEL");
  eval->add_option("--batch", options.batch, "Images at a time")
      ->type_name("N")
      ->transform(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  add_size(eval, of_model.size);
  eval->add_flag("--skip-bad", of_model.skip_bad, "Leave out pictures that cannot be read");
  eval->add_flag("--json", of_model.json, "A line of JSON")->needs(model);
  add_numbers(eval, of_model);
  eval->callback([&options, &of_model, eval] {
    options.weights = of_model.weights;
    of_model.device = options.device;
    if (eval->count("--batch") != 0) of_model.batch = options.batch;
    if (of_model.model.empty() && options.weights.empty()) throw CLI::RequiredError("MODEL or --weights");
    if (!of_model.model.empty() && eval->count("--data") != 0)
      throw CLI::ValidationError("--data", "stands for DATA where no MODEL is given; here DATA says it");
  });
  return eval;
}

}  // namespace

std::function<std::function<int()>()> add_picture_commands(CLI::App& app, const char* device_help) {
  struct All {
    PredictOptions predict;
    EvalOptions eval;
    EvalModelOptions eval_model;
  };
  const auto all = std::make_shared<All>();
  CLI::App* predict = add_predict(app, all->predict, device_help);
  CLI::App* eval = add_eval(app, all->eval, all->eval_model, device_help);
  return [=]() -> std::function<int()> {
    if (predict->parsed()) return [all] { return run_predict(all->predict); };
    if (eval->parsed())
      return [all] {
        return all->eval_model.model.empty() ? run_eval(all->eval) : run_eval_model(all->eval_model);
      };
    return nullptr;
  };
}

}  // namespace dlprim::cli
