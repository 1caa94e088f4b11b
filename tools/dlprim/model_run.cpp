// `dlprim run`: one run of a model, its outputs as text, as the largest numbers of each row, as files.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "device_choice.hpp"
#include "format.hpp"
#include "model_commands.hpp"
#include "model_input.hpp"
#include "npy.hpp"

namespace dlprim::cli {
namespace {

std::vector<std::string> read_labels(const std::string& path) {
  std::vector<std::string> labels;
  if (path.empty()) return labels;
  std::ifstream file(path);
  if (!file) throw Error("cannot read '" + path + "'");
  for (std::string line; std::getline(file, line);) labels.push_back(line);
  return labels;
}

/// The places of the `top` largest numbers in a row, the largest first; of equal ones the first.
std::vector<size_t> largest(const std::vector<double>& numbers, size_t first, size_t count, size_t top) {
  std::vector<size_t> places(count);
  std::iota(places.begin(), places.end(), size_t{0});
  top = std::min(top, count);
  std::partial_sort(
      places.begin(), places.begin() + static_cast<std::ptrdiff_t>(top), places.end(),
      [&](size_t a, size_t b) {
        return numbers[first + a] != numbers[first + b] ? numbers[first + a] > numbers[first + b] : a < b;
      });
  places.resize(top);
  return places;
}

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

void show_top(const HostTensor& output, const std::vector<double>& numbers, const RunModelOptions& options,
              const std::vector<std::string>& labels) {
  const auto width = static_cast<size_t>(output.shape.empty() ? 1 : output.shape.back());
  for (size_t row = 0; width != 0 && row < numbers.size() / width; row++)
    for (size_t place : largest(numbers, row * width, width, static_cast<size_t>(options.top)))
      std::cout << format("  row %zu  %6zu  %12.6g  ", row, place, numbers[row * width + place])
                << (place < labels.size() ? labels[place] : "") << "\n";
}

nlohmann::json top_json(const HostTensor& output, const std::vector<double>& numbers,
                        const RunModelOptions& options, const std::vector<std::string>& labels) {
  nlohmann::json rows = nlohmann::json::array();
  const auto width = static_cast<size_t>(output.shape.empty() ? 1 : output.shape.back());
  for (size_t row = 0; width != 0 && row < numbers.size() / width; row++) {
    nlohmann::json list = nlohmann::json::array();
    for (size_t place : largest(numbers, row * width, width, static_cast<size_t>(options.top)))
      list.push_back({{"class", place},
                      {"value", numbers[row * width + place]},
                      {"label", place < labels.size() ? labels[place] : ""}});
    rows.push_back(list);
  }
  return rows;
}

/// A name as a file's: what cannot stand there becomes '_'.
std::string file_name(std::string name) {
  for (char& c : name)
    if (c == '/' || c == '\\' || c == ':' || c == '\0') c = '_';
  return name.empty() || name[0] == '.' ? "_" + name : name;
}

}  // namespace

int run_model(const RunModelOptions& options) {
  const Model model(load_graph(options), options.without, options.precision());
  const ModelRun run(model, options);
  const std::vector<std::string> labels = read_labels(options.labels);
  const Stream& stream = run.stream;
  const Model::Tensors outputs = model.run(stream, run.feeds(), run.options);
  if (!options.save.empty()) std::filesystem::create_directories(options.save);
  for (const Model::Port& port : model.outputs()) {
    const HostTensor output = to_host(stream, outputs.at(port.name), port.name);
    const std::vector<double> numbers = numbers_of(output);
    const Summary s = summary_of(numbers);
    if (!options.save.empty())
      write_npy((std::filesystem::path(options.save) / (file_name(port.name) + ".npy")).string(), output);
    if (options.json) {
      nlohmann::json record{{"output", port.name}, {"type", describe(output.dtype, output.shape)},
                            {"min", s.least},      {"max", s.most},
                            {"mean", s.mean},      {"not_finite", s.not_finite}};
      if (options.top > 0) record["top"] = top_json(output, numbers, options, labels);
      std::cout << record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
      continue;
    }
    std::cout << port.name << "  " << describe(output.dtype, output.shape)
              << format("  least %.6g, mean %.6g, largest %.6g", s.least, s.mean, s.most);
    if (s.not_finite != 0) std::cout << "; " << s.not_finite << " are NaN or infinite";
    std::cout << "\n";
    if (options.top > 0) show_top(output, numbers, options, labels);
  }
  return 0;
}

}  // namespace dlprim::cli
