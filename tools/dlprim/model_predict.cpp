// `dlprim predict`: the classes of pictures, by a model that knows how pictures become its input; and `dlprim
// eval MODEL DATA`: how many of a data set's test pictures it gets right.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "device_choice.hpp"
#include "file_bytes.hpp"
#include "format.hpp"
#include "image_classifier.hpp"
#include "labelled_images.hpp"
#include "model_commands.hpp"
#include "output_folder.hpp"
#include "picture_folder.hpp"

namespace dlprim::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

struct Prediction {
  size_t place;
  double score, probability;
};
struct Result {
  std::string file, error;  ///< the error empty if there are predictions
  std::vector<Prediction> predictions;
};

std::string label_of(const std::vector<std::string>& labels, size_t place) {
  return place < labels.size() ? labels[place] : "";
}

Json json_of(const Result& result, const std::vector<std::string>& labels) {
  Json json{{"file", result.file}};
  if (!result.error.empty()) {
    json["error"] = result.error;
    return json;
  }
  json["predictions"] = Json::array();
  for (const Prediction& p : result.predictions)
    json["predictions"].push_back({{"class", p.place},
                                   {"label", label_of(labels, p.place)},
                                   {"score", p.score},
                                   {"probability", p.probability}});
  return json;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_of(const std::vector<Result>& results, const std::vector<std::string>& labels) {
  std::string text = "file,rank,class,label,score,probability,error\n";
  for (const Result& result : results) {
    if (!result.error.empty()) text += csv_field(result.file) + ",,,,,," + csv_field(result.error) + "\n";
    for (size_t rank = 0; rank < result.predictions.size(); rank++) {
      const Prediction& p = result.predictions[rank];
      text += csv_field(result.file) + format(",%zu,%zu,", rank + 1, p.place) +
              csv_field(label_of(labels, p.place)) + format(",%.9g,%.9g,\n", p.score, p.probability);
    }
  }
  return text;
}

std::string line_of(const Result& result, const std::vector<std::string>& labels) {
  std::string text = result.file;
  for (const Prediction& p : result.predictions) {
    const std::string label = label_of(labels, p.place);
    text += "  " + (label.empty() ? format("class %zu", p.place) : label) +
            format("  %.1f %%", 100 * p.probability);
  }
  return text;
}

/// Found out before the work.
void check_save(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    const std::string end = std::filesystem::path(file).extension().string();
    if (end != ".csv" && end != ".json") throw BadInput("--save '" + file + "' must end in .csv or .json");
    require_writable(file);
  }
}

void save(const std::vector<std::string>& files, const std::vector<Result>& results,
          const std::vector<std::string>& labels) {
  for (const std::string& file : files) {
    if (std::filesystem::path(file).extension() == ".csv") {
      write_file(file, csv_of(results, labels));
      continue;
    }
    Json list = Json::array();
    for (const Result& result : results) list.push_back(json_of(result, labels));
    write_file(file, dumped(list, 1) + "\n");
  }
}

void say_form(const ImageClassifier& classifier) {
  std::cerr << describe(classifier.context().device()) << "\npictures become " << classifier.form().text()
            << (classifier.form().colours == 1 ? ", grey" : ", RGB") << ", each byte v as "
            << classifier.form().rule.text() << std::endl;
}

}  // namespace

int run_predict(const PredictOptions& options) {
  check_save(options.save);
  std::vector<Result> results;
  for (const std::string& path : options.paths)
    for (const std::string& file : pictures_at(path)) results.push_back({file, "", {}});
  std::vector<std::string> labels;
  if (!options.labels.empty()) labels = read_lines(options.labels);
  const ImageClassifier classifier(options, options.size);
  if (options.labels.empty()) labels = classifier.classes();
  say_form(classifier);
  std::mutex mutex;  // errors come from the thread that reads
  int64_t bad = 0;
  classifier.run(
      static_cast<int64_t>(results.size()),
      [&](int64_t i, float* to) {
        Result& result = results[static_cast<size_t>(i)];
        try {
          write_pixels(read_picture(result.file), classifier.form(), to);
        } catch (const Error& error) {
          const std::lock_guard<std::mutex> lock(mutex);
          result.error = error.what();
        }
      },
      [&](int64_t i, const std::vector<double>& scores) {
        const std::lock_guard<std::mutex> lock(mutex);
        Result& result = results[static_cast<size_t>(i)];
        if (result.error.empty()) {
          const std::vector<double> shares = probabilities(scores);
          for (size_t place : largest(scores, static_cast<size_t>(options.top)))
            result.predictions.push_back({place, scores[place], shares[place]});
        } else {
          bad++;
          std::cerr << result.error << std::endl;
        }
        if (options.json)
          std::cout << dumped(json_of(result, labels)) << "\n";
        else if (result.error.empty())
          std::cout << line_of(result, labels) << "\n";
      });
  std::cout << std::flush;
  save(options.save, results, labels);
  for (const std::string& file : options.save) std::cerr << "wrote " << file << std::endl;
  if (bad > 0) std::cerr << bad << " of " << results.size() << " pictures could not be read" << std::endl;
  return bad > 0 ? 1 : 0;
}

int run_eval_model(const EvalModelOptions& options) {
  const ImageSets sets = ImageSets::read(options.data, options.skip_bad);
  for (const std::string& note : sets.notes) std::cerr << note << std::endl;
  if (sets.test.count() == 0) throw BadInput("'" + options.data + "' holds no picture for testing");
  const ImageClassifier classifier(options, options.size);
  // Classes go together by their names; a file that names none has them in the data's order.
  const std::vector<std::string>& known = classifier.classes();
  std::vector<size_t> place_of;
  for (const std::string& name : sets.classes) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (!known.empty() && found == known.end())
      throw BadInput("'" + options.data + "' has a class '" + name + "', which '" + options.model +
                     "' does not know");
    place_of.push_back(known.empty() ? place_of.size() : static_cast<size_t>(found - known.begin()));
  }
  say_form(classifier);
  int64_t correct = 0;
  double loss = 0;
  classifier.run(
      sets.test.count(), [&](int64_t i, float* to) { sets.test.read(i, classifier.form(), to); },
      [&](int64_t i, const std::vector<double>& scores) {
        const size_t label = place_of[static_cast<size_t>(sets.test.label(i))];
        if (label >= scores.size())
          throw BadInput(
              format("the model gives %zu numbers, the data have class %zu", scores.size(), label));
        correct += largest(scores, 1)[0] == label;
        loss -= std::log(std::max(probabilities(scores)[label], 1e-300));
      });
  const auto count = static_cast<double>(sets.test.count());
  const double accuracy = static_cast<double>(correct) / count;
  if (options.json) {
    std::cout << dumped({{"model", options.model},
                         {"images", sets.test.count()},
                         {"test_loss", loss / count},
                         {"test_accuracy", accuracy}})
              << "\n";
    return 0;
  }
  std::cout << format("test images    %lld\ntest loss      %.4f\ntest accuracy  %.2f %%\n",
                      static_cast<long long>(sets.test.count()), loss / count, 100 * accuracy);
  return 0;
}

}  // namespace dlprim::cli
