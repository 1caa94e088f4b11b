// `dlprim train`: trains the classifier, tells how it goes, and writes weights, curves and a log.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>

#include <nlohmann/json.hpp>

#include <dlprim/copy.hpp>
#include <dlprim/solver.hpp>

#include "classifier.hpp"
#include "clock.hpp"
#include "commands.hpp"
#include "curves_svg.hpp"
#include "device_choice.hpp"
#include "format.hpp"
#include "output_folder.hpp"
#include "progress.hpp"
#include "waiting.hpp"

namespace dlprim::cli {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr int64_t kReadEvery = 20;  // steps between two looks at the device's losses: each waits for it

struct Epoch {
  Score train, test;
  double seconds = 0;  ///< of training, without the test
};

std::unique_ptr<Solver> make_solver(const Net& net, const std::string& name, double rate) {
  if (name == "adam") {
    AdamOptions adam;
    adam.learning_rate = rate;
    return std::make_unique<Adam>(net, adam);
  }
  SgdOptions sgd;
  sgd.learning_rate = rate;
  sgd.momentum = 0.9;
  sgd.weight_decay = 5e-4;
  return std::make_unique<Sgd>(net, sgd);
}

class Training {
 public:
  Training(const TrainOptions& options, const Stream& stream, const Dataset& data, Clock::time_point start)
      : options_(options),
        start_(start),
        stream_(stream),
        data_(data),
        classifier_(stream, options.seed, data.rows, data.columns),
        rate_(options.learning_rate > 0  ? options.learning_rate
              : options.solver == "adam" ? 0.002
                                         : 0.05),
        solver_(make_solver(classifier_.net, options.solver, rate_)),
        steps_((data.count + options.batch - 1) / options.batch),
        losses_(stream, {steps_}),
        corrects_(stream, {steps_}),
        progress_(data.count * options.epochs, "images") {
    progress_.pause();
  }

  /// One walk through the training images, in an order of its own. `epoch` counts from 0.
  Epoch run(int64_t epoch) {
    progress_.resume();
    const double before = progress_.seconds();
    const std::vector<uint32_t> order = shuffled(data_.count, options_.seed, epoch);
    Epoch result;
    int64_t read_until = 0;
    for (int64_t step = 0; step < steps_; step++) {
      train_step(epoch, step, order);
      if (epoch == 0 && step == 0) {
        stream_.finish();
        first_step_ = seconds_since(start_);
        progress_.rate_from(std::min(options_.batch, data_.count));
      }
      if (step + 1 < steps_ && step + 1 - read_until < kReadEvery) continue;
      collect(read_until, step + 1, result.train);
      read_until = step + 1;
      const int64_t done = std::min(data_.count, read_until * options_.batch);
      progress_.show(epoch * data_.count + done, static_cast<double>(done) / static_cast<double>(data_.count),
                     format("epoch %lld/%lld", static_cast<long long>(epoch + 1),
                            static_cast<long long>(options_.epochs)),
                     format("loss %.3f  accuracy %.1f %%", recent_loss(), 100 * result.train.accuracy()));
    }
    progress_.pause();
    result.seconds = progress_.seconds() - before;
    return result;
  }

  const Classifier& classifier() const { return classifier_; }
  const std::vector<double>& step_losses() const { return step_losses_; }
  double seconds() const { return progress_.seconds(); }
  double rate() const { return rate_; }
  /// From the start of the command to the end of the first step: programs are compiled before it.
  double first_step() const { return first_step_; }
  void say(const std::string& text) { progress_.line(text); }

 private:
  void train_step(int64_t epoch, int64_t step, const std::vector<uint32_t>& order) {
    const int64_t start = step * options_.batch, count = std::min(options_.batch, data_.count - start);
    Pass pass = forward(stream_, classifier_, Mode::training, data_, order.data() + start, count);
    pass.backward(classifier_.loss);
    const double share =
        static_cast<double>(epoch * steps_ + step) / static_cast<double>(options_.epochs * steps_);
    solver_->set_learning_rate(rate_ * 0.5 * (1 + std::cos(kPi * share)));
    solver_->step(stream_);
    copy(stream_, pass[classifier_.loss], losses_.slice(0, step, step + 1));
    copy(stream_, pass[classifier_.correct], corrects_.slice(0, step, step + 1));
  }

  /// Reads the results of the steps `begin` to `end`-1, and waits until they are there.
  void collect(int64_t begin, int64_t end, Score& score) {
    const std::vector<float> losses = read<float>(stream_, losses_.slice(0, begin, end));
    const std::vector<float> corrects = read<float>(stream_, corrects_.slice(0, begin, end));
    for (int64_t step = begin; step < end; step++) {
      const double loss = losses[static_cast<size_t>(step - begin)];
      const int64_t count = std::min(options_.batch, data_.count - step * options_.batch);
      step_losses_.push_back(loss);
      if (!std::isfinite(loss))
        throw Error(format("the loss is no number any more after %zu steps; a smaller --lr than %g may help",
                           step_losses_.size(), rate_));
      score.loss += loss * static_cast<double>(count) / static_cast<double>(data_.count);
      score.correct += static_cast<int64_t>(corrects[static_cast<size_t>(step - begin)]);
      score.count += count;
    }
  }

  double recent_loss() const {
    const auto count = static_cast<std::ptrdiff_t>(std::min<size_t>(step_losses_.size(), 50));
    return std::accumulate(step_losses_.end() - count, step_losses_.end(), 0.0) / static_cast<double>(count);
  }

  const TrainOptions& options_;
  const Clock::time_point start_;
  const Stream& stream_;
  const Dataset& data_;
  Classifier classifier_;
  double rate_;
  double first_step_ = 0;
  std::unique_ptr<Solver> solver_;
  int64_t steps_;             ///< in an epoch
  Tensor losses_, corrects_;  ///< of every step of the epoch, on the device
  Progress progress_;
  std::vector<double> step_losses_;
};

void write_curves(const std::filesystem::path& path, const std::string& device, const TrainOptions& options,
                  const Training& training, const std::vector<Epoch>& epochs) {
  Curves curves;
  std::filesystem::path data = options.data;
  if (data.filename().empty()) data = data.parent_path();  // the path ended in a slash
  curves.title = format("Training on %s: %.1f %% of the test images right", data.filename().string().c_str(),
                        100 * epochs.back().test.accuracy());
  curves.subtitle = format("%s, batch %lld, %s, learning rate %g, seed %llu", device.c_str(),
                           static_cast<long long>(options.batch), options.solver.c_str(), training.rate(),
                           static_cast<unsigned long long>(options.seed));
  curves.step_losses = training.step_losses();
  for (const Epoch& epoch : epochs) {
    curves.test_losses.push_back(epoch.test.loss);
    curves.train_accuracies.push_back(epoch.train.accuracy());
    curves.test_accuracies.push_back(epoch.test.accuracy());
  }
  write_file(path, curves_svg(curves));
}

void write_log(const std::filesystem::path& path, const Context& context, const TrainOptions& options,
               const Training& training, const std::vector<Epoch>& epochs) {
  nlohmann::ordered_json log;
  log["device"] = describe(context.device());
  log["data"] = options.data;
  log["batch"] = options.batch;
  log["seed"] = options.seed;
  log["solver"] = options.solver;
  log["learning_rate"] = training.rate();
  for (const Epoch& epoch : epochs)
    log["epochs"].push_back({{"train_loss", epoch.train.loss},
                             {"train_accuracy", epoch.train.accuracy()},
                             {"test_loss", epoch.test.loss},
                             {"test_accuracy", epoch.test.accuracy()},
                             {"train_seconds", epoch.seconds}});
  log["images_per_second"] =
      static_cast<double>(epochs.size()) * static_cast<double>(epochs[0].train.count) / training.seconds();
  log["first_step_seconds"] = training.first_step();
  log["programs_compiled"] = context.program_stats().built;
  log["programs_from_disk"] = context.program_stats().from_disk;
  log["step_losses"] = training.step_losses();
  write_file(path, log.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace

int run_train(const TrainOptions& options) {
  const Clock::time_point start = Clock::now();
  const Context context(choose_device(options.device));
  const Dataset train = read_dataset(options.data, "train"), test = read_dataset(options.data, "t10k");
  if (test.rows != train.rows || test.columns != train.columns)
    throw Error("the test images in '" + options.data + "' are of another size than the training images");
  const std::filesystem::path out = prepare_output(options.out);
  const Stream stream(context);
  const Waiting waiting(compiling());
  Training training(options, stream, train, start);
  training.say("device  " + describe(context.device()));
  training.say(format("data    %lld training and %lld test images of %lld x %lld",
                      static_cast<long long>(train.count), static_cast<long long>(test.count),
                      static_cast<long long>(train.rows), static_cast<long long>(train.columns)));
  training.say("\n" + training.classifier().net.summary());
  std::vector<Epoch> epochs;
  for (int64_t i = 0; i < options.epochs; i++) {
    Epoch epoch = training.run(i);
    epoch.test = evaluate(stream, training.classifier(), test, std::max<int64_t>(options.batch, 500));
    epochs.push_back(epoch);
    training.say(
        format("epoch %lld/%lld  training loss %.4f accuracy %.2f %%  test loss %.4f accuracy %.2f %%  %.0f "
               "images/s",
               static_cast<long long>(i + 1), static_cast<long long>(options.epochs), epoch.train.loss,
               100 * epoch.train.accuracy(), epoch.test.loss, 100 * epoch.test.accuracy(),
               static_cast<double>(train.count) / epoch.seconds));
  }
  training.classifier().net.save(stream, (out / "weights.safetensors").string());
  write_curves(out / "curves.svg", context.device().name(), options, training, epochs);
  write_log(out / "log.json", context, options, training, epochs);

  const double total = seconds_since(start);
  const ProgramStats programs = context.program_stats();
  training.say(format("\ntest accuracy %.2f %%", 100 * epochs.back().test.accuracy()));
  training.say(format("training %s, %.0f images/s; in all %s", clock_text(training.seconds()).c_str(),
                      static_cast<double>(train.count * options.epochs) / training.seconds(),
                      clock_text(total).c_str()));
  training.say(format("programs: %llu compiled, %llu from the disk cache; the first step ended after %.1f s",
                      static_cast<unsigned long long>(programs.built),
                      static_cast<unsigned long long>(programs.from_disk), training.first_step()));
  training.say("wrote weights.safetensors, curves.svg and log.json to " + out.string());
  return 0;
}

}  // namespace dlprim::cli
