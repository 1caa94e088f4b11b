// `dlprim run`: one run of a model, its outputs as text, as the largest numbers of each row, as files.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "device_choice.hpp"
#include "file_bytes.hpp"
#include "format.hpp"
#include "image_classifier.hpp"
#include "model_commands.hpp"
#include "model_input.hpp"
#include "npy.hpp"
#include "output_folder.hpp"

namespace dlprim::cli {
namespace {

struct Summary {
  double least = 0, most = 0, mean = 0;
  int64_t not_finite = 0;
};

Summary summary_of(const std::vector<double>& numbers) {
  Summary s;
  bool first = true;
  int64_t count = 0;
  for (double x : numbers) {
    if (!std::isfinite(x)) {
      s.not_finite++;
      continue;
    }
    s.least = first ? x : std::min(s.least, x);
    s.most = first ? x : std::max(s.most, x);
    s.mean += x;
    first = false;
    count++;
  }
  s.mean = count == 0 ? 0 : s.mean / static_cast<double>(count);
  return s;
}

/// The rows along the last axis.
std::vector<std::vector<double>> rows_of(const HostTensor& output, const std::vector<double>& numbers) {
  const auto width = static_cast<std::ptrdiff_t>(output.shape.empty() ? 1 : output.shape.back());
  std::vector<std::vector<double>> rows;
  for (auto at = numbers.begin(); width != 0 && at != numbers.end(); at += width)
    rows.emplace_back(at, at + width);
  return rows;
}

void show_top(const std::vector<std::vector<double>>& rows, size_t top,
              const std::vector<std::string>& labels) {
  for (size_t row = 0; row < rows.size(); row++)
    for (size_t place : largest(rows[row], top))
      std::cout << format("  row %zu  %6zu  %12.6g  ", row, place, rows[row][place])
                << (place < labels.size() ? labels[place] : "") << "\n";
}

nlohmann::json top_json(const std::vector<std::vector<double>>& rows, size_t top,
                        const std::vector<std::string>& labels) {
  nlohmann::json all = nlohmann::json::array();
  for (const std::vector<double>& row : rows) {
    nlohmann::json list = nlohmann::json::array();
    for (size_t place : largest(row, top))
      list.push_back(
          {{"class", place}, {"value", row[place]}, {"label", place < labels.size() ? labels[place] : ""}});
    all.push_back(list);
  }
  return all;
}

/// The user's labels, else those of the model's file.
std::vector<std::string> labels_of(const Model& model, const RunModelOptions& options) {
  if (!options.labels.empty()) return read_lines(options.labels);
  const std::optional<ImageInput> images = image_input(model.graph());
  return images ? images->classes : std::vector<std::string>();
}

/// So many of the largest numbers of this output are shown: five, if it has a number for each class that the
/// model's file names, and nobody says how many.
size_t top_of(const HostTensor& output, const std::vector<std::string>& labels,
              const RunModelOptions& options) {
  if (options.top >= 0) return static_cast<size_t>(options.top);
  const bool classes = options.labels.empty() && !labels.empty() && output.shape.size() == 2 &&
                       output.shape.back() == static_cast<int64_t>(labels.size());
  return classes ? std::min<size_t>(5, labels.size()) : 0;
}

/// A name as a file's: what cannot stand there becomes '_'.
std::string file_name(std::string name) {
  for (char& c : name)
    if (c == '/' || c == '\\' || c == ':' || c == '\0') c = '_';
  return name.empty() || name[0] == '.' ? "_" + name : name;
}

}  // namespace

int run_model(const RunModelOptions& options) {
  if (!options.save.empty()) prepare_output(options.save);
  const Model model(load_graph(options), options.without, options.precision());
  const ModelRun run(model, options);
  const std::vector<std::string> labels = labels_of(model, options);
  const Stream& stream = run.stream;
  const Model::Tensors outputs = model.run(stream, run.feeds(), run.options);
  for (const Model::Port& port : model.outputs()) {
    const HostTensor output = to_host(stream, outputs.at(port.name), port.name);
    const std::vector<double> numbers = numbers_of(output);
    const Summary s = summary_of(numbers);
    const size_t top = top_of(output, labels, options);
    const auto rows = top > 0 ? rows_of(output, numbers) : std::vector<std::vector<double>>();
    if (!options.save.empty())
      write_npy((std::filesystem::path(options.save) / (file_name(port.name) + ".npy")).string(), output);
    if (options.json) {
      nlohmann::json record{{"output", port.name}, {"type", describe(output.dtype, output.shape)},
                            {"min", s.least},      {"max", s.most},
                            {"mean", s.mean},      {"not_finite", s.not_finite}};
      if (top > 0) record["top"] = top_json(rows, top, labels);
      std::cout << record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
      continue;
    }
    std::cout << port.name << "  " << describe(output.dtype, output.shape)
              << format("  least %.6g, mean %.6g, largest %.6g", s.least, s.mean, s.most);
    if (s.not_finite != 0) std::cout << "; " << s.not_finite << " are NaN or infinite";
    std::cout << "\n";
    show_top(rows, top, labels);
  }
  return 0;
}

}  // namespace dlprim::cli
