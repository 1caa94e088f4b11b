// `dlprim train MODEL DATA`: trains a network by name or from a file on labelled images.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>

#include <nlohmann/json.hpp>

#include <dlprim/copy.hpp>
#include <dlprim/net_json.hpp>
#include <dlprim/net_loader.hpp>
#include <dlprim/net_training.hpp>

#include "augment.hpp"
#include "clock.hpp"
#include "commands.hpp"
#include "device_choice.hpp"
#include "format.hpp"
#include "image_form.hpp"
#include "labelled_images.hpp"
#include "model_input.hpp"
#include "model_train.hpp"
#include "output_folder.hpp"
#include "progress.hpp"
#include "waiting.hpp"

namespace dlprim::cli {
namespace {

constexpr int64_t kCompiling = 2;   // steps: node by node, and rewritten, to be recorded
constexpr int64_t kReadEvery = 20;  // steps between two looks at the device's losses: each waits for it
constexpr const char *kLabels = "dlprim.labels", *kLoss = "dlprim.loss";

NetGraph graph_of(const TrainModelOptions& options, const ImageSets& sets) {
  NetGraph graph = load_graph(options, false, static_cast<int64_t>(sets.classes.size()));
  // An image's first size may be whatever a batch has.
  const int input = graph.inputs.at(0);
  auto& shape = graph.values[static_cast<size_t>(input)].shape;
  if (shape && !shape->empty() && shape->front().size > 0) shape->front() = Dimension(-1, "batch");
  return graph;
}

ImagePorts ports_of(const NetGraph& graph, const std::string& model) {
  const ImagePorts ports = image_ports(graph, model);
  if (ports.dtype != DType::f32 || colours_last(ports.sizes) || ports.sizes[1] < 0)
    throw BadInput("'" + model + "' must take one input, images f32[N, colours, height, width]");
  return ports;
}

ImageForm form_of(const TrainModelOptions& options, const NetGraph& graph, const ImagePorts& ports,
                  const ImageSets& sets) {
  return form_for(ports, image_input(graph),
                  {options.size, options.pixels_choice(), sets.height, sets.width});
}

Trainer::Config config_of(const TrainModelOptions& options, int64_t updates) {
  Trainer::Config config;
  config.loss = kLoss;
  const bool adam = options.solver != "sgd";
  config.optimizer.method = adam ? OptimizerMethod::adam : OptimizerMethod::sgd;
  config.optimizer.decoupled = options.solver == "adamw";
  config.optimizer.momentum = !adam;
  config.numbers.momentum = 0.9;
  config.numbers.weight_decay = options.weight_decay;
  config.rate = LearningRate::cosine(options.learning_rate > 0 ? options.learning_rate
                                     : adam                    ? 1e-3
                                                               : 0.05,
                                     options.warm_up, updates);
  if (options.schedule == "constant") config.rate.shape = LearningRate::Shape::constant;
  if (options.schedule == "linear") config.rate.shape = LearningRate::Shape::linear;
  config.precision = options.precision();
  if (config.precision == DType::f16) config.scaling = LossScaling{};
  config.clip_norm = options.clip;
  config.accumulate = options.accumulate;
  config.recompute = options.recompute;
  config.without = options.without;
  config.options = options_of(options);
  return config;
}

struct TestScore {
  double loss = 0;
  int64_t correct = 0, count = 0;
  double accuracy() const {
    return count == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(count);
  }
};

class ModelTraining {
 public:
  ModelTraining(const TrainModelOptions& options, const Stream& stream, const ImageSets& sets)
      : options_(options),
        stream_(stream),
        sets_(sets),
        given_(graph_of(options, sets)),
        ports_(ports_of(given_, options.model)),
        form_(form_of(options, given_, ports_, sets)),
        batch_(std::min(options.batch, sets.training.count())),
        steps_(sets.training.count() / batch_ / options.accumulate * options.accumulate),
        trainer_(stream, with_loss(), config_of(options, options.epochs * steps_ / options.accumulate)),
        progress_(steps_ * batch_ * options.epochs, "images", options.json ? stderr : stdout) {
    const int64_t side = std::min(form_.height, form_.width);
    if (options.shift >= side)
      throw BadInput(format("--shift %lld leaves nothing of images of %lld x %lld",
                            static_cast<long long>(options.shift), static_cast<long long>(form_.width),
                            static_cast<long long>(form_.height)));
    if (steps_ == 0)
      throw BadInput(format("%lld training images make no update of %lld batches of %lld",
                            static_cast<long long>(sets.training.count()),
                            static_cast<long long>(options.accumulate), static_cast<long long>(batch_)));
    progress_.pause();
  }

  /// What an epoch was.
  struct Epoch {
    double loss = 0;             ///< mean
    double seconds = 0;          ///< of all steps
    double compile_seconds = 0;  ///< of those of its steps that compiled
    int64_t compile_steps = 0;
  };
  Epoch run(int64_t epoch) {
    const double before = progress_.seconds();
    Epoch result;
    const std::vector<uint32_t> order = shuffled(sets_.training.count(), options_.seed, epoch);
    Augmentation by{options_.flip, options_.shift, options_.seed, {}};
    for (int64_t c = 0; c < form_.colours; c++)
      by.black.push_back(static_cast<float>(form_.rule(0, static_cast<size_t>(c))));
    const auto changed = [&](uint32_t image, float* x) {
      augment(by, form_, static_cast<uint64_t>(epoch), image, x);
    };
    BatchLoader loader(
        steps_, [&](int64_t k) { return make(sets_.training, order.data() + k * batch_, batch_, changed); });
    const Tensor losses(stream_, {steps_});
    double sum = 0;
    int64_t seen = 0;
    progress_.resume();
    for (int64_t step = 0; auto batch = loader.next(); step++) {
      const Model::Tensors outputs = trainer_.step(to_device(stream_, *batch));
      copy(stream_, outputs.at(kLoss).reshape({1}), losses.slice(0, step, step + 1));
      if (warm_++ < kCompiling) {
        stream_.finish();
        progress_.rate_from((epoch * steps_ + step + 1) * batch_);
        result.compile_seconds = progress_.seconds() - before;
        result.compile_steps = step + 1;
      }
      if (step + 1 < steps_ && (step + 1) % kReadEvery != 0) continue;
      for (float loss : read<float>(stream_, losses.slice(0, seen, step + 1))) {
        if (!std::isfinite(loss))
          throw Error(format("the loss is no number any more in epoch %lld; a smaller --lr may help",
                             static_cast<long long>(epoch + 1)));
        sum += loss;
      }
      seen = step + 1;
      progress_.show((epoch * steps_ + seen) * batch_,
                     static_cast<double>(seen) / static_cast<double>(steps_),
                     format("epoch %lld/%lld", static_cast<long long>(epoch + 1),
                            static_cast<long long>(options_.epochs)),
                     format("loss %.3f", sum / static_cast<double>(seen)));
    }
    progress_.pause();
    result.loss = sum / static_cast<double>(steps_);
    result.seconds = progress_.seconds() - before;
    return result;
  }
  /// Images of a second, without the steps that compiled; none if all did.
  std::optional<double> rate(const Epoch& epoch) const {
    if (epoch.compile_steps >= steps_) return std::nullopt;
    return static_cast<double>((steps_ - epoch.compile_steps) * batch_) /
           std::max(epoch.seconds - epoch.compile_seconds, 1e-9);
  }

  TestScore test() const {
    const int64_t count = sets_.test.count();
    std::vector<uint32_t> order(static_cast<size_t>(count));
    for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<uint32_t>(i);
    BatchLoader loader((count + batch_ - 1) / batch_, [&](int64_t k) {
      return make(sets_.test, order.data() + k * batch_, std::min(batch_, count - k * batch_), nullptr);
    });
    TestScore score;
    while (auto batch = loader.next()) {
      const Model::Tensors outputs = trainer_.predict(to_device(stream_, *batch));
      const std::vector<double> scores = numbers_of(to_host(stream_, outputs.at(ports_.output)));
      const std::vector<int64_t> labels = integers_of(batch->at(kLabels));
      const auto width = static_cast<std::ptrdiff_t>(scores.size() / labels.size());
      for (size_t i = 0; i < labels.size(); i++) {
        const auto row = scores.begin() + static_cast<std::ptrdiff_t>(i) * width;
        if (std::max_element(row, row + width) - row == labels[i]) score.correct++;
      }
      score.loss +=
          numbers_of(to_host(stream_, outputs.at(kLoss))).at(0) * static_cast<double>(labels.size());
      score.count += static_cast<int64_t>(labels.size());
    }
    if (score.count != 0) score.loss /= static_cast<double>(score.count);
    return score;
  }

  /// Epochs that a checkpoint has done.
  int64_t resume(const std::string& path) {
    trainer_.load(path);
    const int64_t each = steps_ / options_.accumulate;
    if (trainer_.updates() % each != 0)
      throw BadInput(format("'%s' has %lld updates, but an epoch here has %lld: other data or --batch?",
                            path.c_str(), static_cast<long long>(trainer_.updates()),
                            static_cast<long long>(each)));
    return trainer_.updates() / each;
  }

  /// The given network with what was learned.
  NetGraph learned() const {
    NetGraph graph = given_;
    const NetGraph trained = trainer_.graph();
    for (auto& [value, constant] : graph.constants) constant = trained.constants.at(value);
    set_image_input(graph, {form_.colours, form_.height, form_.width, form_.rule.mean(),
                            form_.rule.deviation(), sets_.classes});
    return graph;
  }

  Trainer& trainer() { return trainer_; }
  void say(const std::string& text) { progress_.line(text); }
  const ImageForm& form() const { return form_; }
  int64_t batch() const { return batch_; }
  int64_t steps() const { return steps_; }

 private:
  NetGraph with_loss() const {
    NetGraph graph = given_;
    ClassLoss params;
    params.loss = kLoss;
    params.label_smoothing = options_.label_smoothing;
    add_class_loss(graph, ports_.output, kLabels, params);
    return graph;
  }

  /// `change`: what is done to each image; may be empty.
  BatchLoader::Batch make(const LabelledImages& images, const uint32_t* which, int64_t count,
                          const std::function<void(uint32_t image, float* x)>& change) const {
    HostTensor x{ports_.input, DType::f32, {count, form_.colours, form_.height, form_.width}, {}};
    x.data.resize(static_cast<size_t>(count * form_.numbers()) * sizeof(float));
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < count; i++) {
      float* const numbers = reinterpret_cast<float*>(x.data.data()) + i * form_.numbers();
      images.read(which[i], form_, numbers);
      if (change) change(which[i], numbers);
      labels.push_back(images.label(which[i]));
    }
    return {{ports_.input, std::move(x)}, {kLabels, host_tensor(DType::i64, {count}, labels)}};
  }

  const TrainModelOptions& options_;
  const Stream& stream_;
  const ImageSets& sets_;
  NetGraph given_;
  ImagePorts ports_;
  ImageForm form_;
  int64_t batch_, steps_;  ///< steps: of an epoch
  Trainer trainer_;
  Progress progress_;
  int64_t warm_ = 0;  ///< steps so far, of which the first compile
};

}  // namespace

int run_train_model(const TrainModelOptions& options) {
  const Context context(choose_device(options.device));
  const ImageSets sets = ImageSets::read(options.data, options.skip_bad);
  const std::filesystem::path out = prepare_output(options.out);
  const Stream stream(context);
  const Waiting waiting(compiling());
  ModelTraining training(options, stream, sets);
  const int64_t begin = options.resume.empty() ? 0 : training.resume(options.resume);
  const ImageForm& form = training.form();
  for (const std::string& note : sets.notes) std::cerr << note << std::endl;
  if (!options.json) {
    training.say("device  " + describe(context.device()));
    training.say(format("data    %lld training and %lld test images of %zu classes, %s, as %lld x %lld",
                        static_cast<long long>(sets.training.count()),
                        static_cast<long long>(sets.test.count()), sets.classes.size(),
                        sets.training.size_text().c_str(), static_cast<long long>(form.width),
                        static_cast<long long>(form.height)));
    training.say(format("model   %s, %zu parameters; %lld steps of %lld images an epoch",
                        options.model.c_str(), training.trainer().parameters().size(),
                        static_cast<long long>(training.steps()), static_cast<long long>(training.batch())));
    training.say("pixels  each byte v as " + form.rule.text() +
                 (options.pixels.empty() ? "; --pixels says another" : ""));
    if (begin > 0) training.say(format("resumed after epoch %lld", static_cast<long long>(begin)));
  }
  nlohmann::ordered_json epochs = nlohmann::ordered_json::array();
  for (int64_t epoch = begin; epoch < options.epochs; epoch++) {
    const ModelTraining::Epoch ran = training.run(epoch);
    const TestScore test = training.test();
    const std::optional<double> rate = training.rate(ran);
    const nlohmann::ordered_json record{
        {"epoch", epoch + 1},
        {"train_loss", ran.loss},
        {"test_loss", test.loss},
        {"test_accuracy", test.accuracy()},
        {"train_seconds", ran.seconds},
        {"compile_seconds", ran.compile_seconds},
        {"images_per_second", rate ? nlohmann::json(*rate) : nlohmann::json()},
        {"updates", training.trainer().updates()}};
    epochs.push_back(record);
    if (options.json)
      std::cout << record.dump() << std::endl;
    else
      training.say(format("epoch %lld/%lld  training loss %.4f  test loss %.4f accuracy %.2f %%",
                          static_cast<long long>(epoch + 1), static_cast<long long>(options.epochs), ran.loss,
                          test.loss, 100 * test.accuracy()) +
                   (rate ? format("  %.0f images/s", *rate) : "") +
                   (ran.compile_steps > 0
                        ? format("  (the first steps, which compile, took %.1f s)", ran.compile_seconds)
                        : ""));
    training.trainer().save((out / "checkpoint.safetensors").string());
  }
  save_json((out / "model.json").string(), training.learned());
  nlohmann::ordered_json log{{"device", describe(context.device())},
                             {"model", options.model},
                             {"data", options.data},
                             {"classes", sets.classes},
                             {"epochs", epochs}};
  write_file(out / "log.json", log.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  if (!options.json)
    training.say("wrote model.json, model.safetensors, checkpoint.safetensors and log.json to " +
                 out.string());
  return 0;
}

}  // namespace dlprim::cli
