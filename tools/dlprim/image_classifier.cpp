#include "image_classifier.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <dlprim/net_host.hpp>
#include <dlprim/net_loader.hpp>

#include "commands.hpp"
#include "device_choice.hpp"
#include "model_input.hpp"

namespace dlprim::cli {
namespace {

ImageForm form_of(const NetGraph& graph, const ImagePorts& ports, const ModelOptions& options, int64_t size) {
  const ImageForm form = form_for(ports, image_input(graph), {size, options.pixels_choice(), 0, 0});
  if (form.height < 1 || form.width < 1)
    throw BadInput("neither '" + options.model +
                   "' nor its file says of what size pictures are; --size does");
  return form;
}

std::vector<std::string> classes_of(const NetGraph& graph) {
  const std::optional<ImageInput> images = image_input(graph);
  return images ? images->classes : std::vector<std::string>();
}

}  // namespace

ImageClassifier::ImageClassifier(const ModelOptions& options, int64_t size)
    : ImageClassifier(options, size, load_graph(options)) {}

ImageClassifier::ImageClassifier(const ModelOptions& options, int64_t size, NetGraph graph)
    : options_(options_of(options)),
      ports_(image_ports(graph, options.model)),
      form_(form_of(graph, ports_, options, size)),
      classes_(classes_of(graph)),
      batch_(ports_.sizes[0] > 0 ? ports_.sizes[0] : 32),
      model_(std::move(graph), options.without, options.precision()),
      context_(choose_device(options.device)),
      stream_(context_),
      waiting_(compiling()) {}

void ImageClassifier::run(
    int64_t count, const std::function<void(int64_t i, float* to)>& read,
    const std::function<void(int64_t i, const std::vector<double>& scores)>& take) const {
  const int64_t batch = ports_.sizes[0] > 0 ? batch_ : std::min(batch_, std::max<int64_t>(count, 1));
  const Shape shape = form_.last ? Shape{batch, form_.height, form_.width, form_.colours}
                                 : Shape{batch, form_.colours, form_.height, form_.width};
  // The last batch is filled up: another size would be compiled and recorded anew.
  BatchLoader loader((count + batch - 1) / batch, [&](int64_t k) -> BatchLoader::Batch {
    std::vector<float> numbers(static_cast<size_t>(batch * form_.numbers()));
    for (int64_t i = k * batch; i < std::min(count, (k + 1) * batch); i++)
      read(i, numbers.data() + (i - k * batch) * form_.numbers());
    return {{ports_.input,
             host_tensor(ports_.dtype, shape, std::vector<double>(numbers.begin(), numbers.end()))}};
  });
  for (int64_t first = 0; auto fed = loader.next(); first += batch) {
    const Model::Tensors outputs = model_.run(stream_, to_device(stream_, *fed), options_);
    const HostTensor output = to_host(stream_, outputs.at(ports_.output), ports_.output);
    const std::vector<double> all = numbers_of(output);
    if (output.shape.empty() || output.shape[0] != batch || all.empty())
      throw Error("output '" + ports_.output + "' is " + describe(output.dtype, output.shape) +
                  ", must have a row for each of " + std::to_string(batch) + " pictures");
    const auto width = static_cast<std::ptrdiff_t>(all.size()) / batch;
    for (int64_t i = 0; i < batch && first + i < count; i++)
      take(first + i, {all.begin() + i * width, all.begin() + (i + 1) * width});
  }
}

std::vector<double> probabilities(const std::vector<double>& scores) {
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
  const bool are = std::all_of(scores.begin(), scores.end(), [](double x) { return x >= 0; });
  if (are && std::fabs(sum - 1) < 1e-3) return scores;
  const double most = *std::max_element(scores.begin(), scores.end());
  std::vector<double> result;
  double all = 0;
  for (const double x : scores) result.push_back(std::exp(x - most)), all += result.back();
  for (double& x : result) x /= all;
  return result;
}

std::vector<size_t> largest(const std::vector<double>& numbers, size_t top) {
  std::vector<size_t> places(numbers.size());
  std::iota(places.begin(), places.end(), size_t{0});
  top = std::min(top, places.size());
  const auto key = [&](size_t i) { return std::isnan(numbers[i]) ? -HUGE_VAL : numbers[i]; };
  std::partial_sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(top), places.end(),
                    [&](size_t a, size_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
  places.resize(top);
  return places;
}

}  // namespace dlprim::cli
