// The options of `dlprim train`, with and without a model.
#include <CLI/CLI.hpp>

#include <dlprim/net_model.hpp>

#include "commands.hpp"
#include "model_train.hpp"

namespace dlprim::cli {
namespace {

/// Those that are for a model alone.
void add_model_train(CLI::App* train, CLI::Option* model, TrainModelOptions& options) {
  const auto of_models = [&](CLI::Option* option) { return option->needs(model); };
  of_models(train->add_option("--weights", options.weights,
                              "Weights of a network by name to begin with, a safetensors file"))
      ->type_name("FILE");
  of_models(train->add_option(
                "--resume", options.resume,
                "Go on from this checkpoint.safetensors, with the same bits as if there had been no break"))
      ->type_name("FILE");
  of_models(
      train->add_option("--size", options.size,
                        "The side of images, where the model leaves it open; without it that of the model's "
                        "file, else that of the first image"))
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 14));
  of_models(train->add_option("--pixels", options.pixels,
                              "How bytes v become numbers: imagenet ((v/255 - mean) / deviation), unit "
                              "(v/255), centred (v/127.5 - 1) or bytes; without it as the model's file "
                              "says, else imagenet"))
      ->type_name("NAME")
      ->transform(CLI::IsMember({"imagenet", "unit", "centred", "bytes"}));
  of_models(train->add_option("--schedule", options.schedule,
                              "How the learning rate falls: cosine, linear (to 0) or constant"))
      ->type_name("NAME")
      ->transform(CLI::IsMember({"cosine", "linear", "constant"}))
      ->capture_default_str();
  of_models(
      train->add_option("--warm-up", options.warm_up, "Updates in which the learning rate grows from 0"))
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  of_models(train->add_option("--weight-decay", options.weight_decay, "What weights lose by themselves"))
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 1.0));
  of_models(train->add_option("--label-smoothing", options.label_smoothing,
                              "The part of each label that all classes share"))
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 1.0));
  of_models(train->add_option("--clip", options.clip, "The most that the norm of all gradients may be"))
      ->type_name("NORM")
      ->check(CLI::NonNegativeNumber);
  of_models(train->add_option("--accumulate", options.accumulate, "Batches whose gradients make one update"))
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 16));
  of_models(train->add_flag("--flip", options.flip,
                            "Mirror training images, left to right, each with a probability of a half"));
  of_models(train->add_option("--shift", options.shift,
                              "Move training images by up to so many pixels along both axes, by chance; what "
                              "comes in is black"))
      ->type_name("PIXELS")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 14));
  of_models(train->add_flag("--skip-bad", options.skip_bad,
                            "Leave out pictures that cannot be read, after they are listed; without it they "
                            "end the command before training starts"));
  of_models(train->add_flag("--recompute", options.recompute,
                            "Compute most of the forward direction twice, for less memory"));
  of_models(train->add_option("--dtype", options.dtype,
                              "What products and convolutions compute in, and what follows them: f32, bf16, "
                              "or f16 with a scaled loss"))
      ->type_name("DTYPE")
      ->transform(CLI::IsMember({"f32", "f16", "bf16"}))
      ->capture_default_str();
  of_models(
      train->add_option("--math", options.math,
                        "How far products of f32 may depart from a plain sum: strict, standard or tf32"))
      ->type_name("MODE")
      ->transform(CLI::IsMember({"strict", "standard", "tf32"}))
      ->capture_default_str();
  of_models(train->add_option("--without", options.without,
                              "Leave out a pass that rewrites the model; may stand several times"))
      ->type_name("PASS")
      ->allow_extra_args(false)
      ->transform(CLI::IsMember(graph_passes()));
  of_models(train->add_flag("--json", options.json, "One line of JSON for each epoch"));
}

}  // namespace

CLI::App* add_train(CLI::App& app, TrainOptions& options, TrainModelOptions& of_model,
                    const char* device_help) {
  CLI::App* train = app.add_subcommand(
      "train", "Train a model on labelled images; without MODEL and DATA a small network on Fashion-MNIST");
  CLI::Option* model =
      train->add_option("MODEL", of_model.model,
                        "A network's name ('dlprim networks' lists them), or an ONNX or JSON "
                        "file, that takes images [N, colours, height, width] and gives a "
                        "number for each class");
  CLI::Option* folder =
      train->add_option("DATA", of_model.data,
                        "Folder with IDX files as MNIST has them; or with a folder of PNG and JPEG files for "
                        "each class (each tenth is for testing); or with such folders in train and val");
  model->needs(folder)->type_name("");
  folder->type_name("");
  add_model_train(train, model, of_model);
  train
      ->add_option("--data", options.data,
                   "Folder with the IDX files, gzipped or not, where no MODEL is given")
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
  train->add_option("--device", options.device, device_help)->type_name("SEL");
  train
      ->add_option("--seed", options.seed,
                   "The same seed on the same device gives the same weights, bit for bit")
      ->type_name("N")
      ->transform(CLI::NonNegativeNumber)
      ->capture_default_str();
  train
      ->add_option("--solver", options.solver,
                   "How weights are updated: adam, adamw (models) or sgd (with momentum 0.9)")
      ->type_name("NAME")
      ->transform(CLI::IsMember({"adam", "adamw", "sgd"}))
      ->capture_default_str();
  train
      ->add_option("--lr", options.learning_rate,
                   "Learning rate at the start; it falls to 0 along a cosine. Without it: 0.002 for adam "
                   "(models 0.001), "
                   "0.05 for sgd")
      ->type_name("RATE")
      ->transform(CLI::Range(1e-9, 1e3));
  train
      ->add_option("--out", options.out,
                   "Folder for weights.safetensors, curves.svg and log.json; of models model.json, "
                   "model.safetensors, checkpoint.safetensors and log.json")
      ->type_name("DIR")
      ->capture_default_str();
  train->callback([&options, &of_model, train] {
    of_model.device = options.device;
    of_model.epochs = options.epochs;
    of_model.seed = options.seed;
    of_model.solver = options.solver;
    of_model.learning_rate = options.learning_rate;
    of_model.out = options.out;
    if (of_model.model.empty() && options.solver == "adamw")
      throw CLI::ValidationError("--solver", "adamw is for a MODEL; without one there are adam and sgd");
    if (!of_model.model.empty() && train->count("--data") != 0)
      throw CLI::ValidationError("--data", "stands for DATA where no MODEL is given; here DATA says it");
    if (train->count("--batch") != 0) of_model.batch = options.batch;
  });
  return train;
}

}  // namespace dlprim::cli
