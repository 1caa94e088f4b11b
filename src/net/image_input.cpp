// The texts that describe a network's pictures in a graph's metadata. It reads and writes texts only: the
// command line prepares pictures.
#include <dlprim/net_images.hpp>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "core/check.hpp"

namespace dlprim {

using detail::cat;
using detail::require;

namespace {

constexpr const char *kImage = "dlprim.image", *kMean = "dlprim.image.mean",
                     *kDeviation = "dlprim.image.deviation", *kClasses = "dlprim.classes";
constexpr int64_t kMostPixels = 65536;  // of a side

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The shortest text that reads as the same number.
std::string text_of(double number) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, number);
  return {text, end.ptr};
}

std::string text_of(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) text += (text.empty() ? "" : " ") + text_of(number);
  return text;
}

void check(const ImageInput& images) {
  require(images.channels == 1 || images.channels == 3, "channels", images.channels, " must be 1 or 3");
  for (const auto& [name, side] : {std::pair("height", images.height), std::pair("width", images.width)})
    require(side >= 1 && side <= kMostPixels, name, side, " must be 1 to ", kMostPixels);
  for (const auto& [name, numbers] :
       {std::pair("mean", &images.mean), std::pair("deviation", &images.deviation)}) {
    require(numbers->size() == static_cast<size_t>(images.channels), name, "there are ", numbers->size(),
            " numbers for ", images.channels, " channels");
    for (const double number : *numbers) require(std::isfinite(number), name, number, " is not finite");
  }
  for (const double number : images.deviation) require(number != 0, "deviation", "0 must not be there");
  for (size_t c = 0; c < images.classes.size(); c++)
    require(!images.classes[c].empty() && images.classes[c].find_first_of("\r\n") == std::string::npos,
            "classes", "the name of class ", c, " is empty or holds a line break");
}

[[noreturn]] void refuse(const char* key, const std::string& text, const char* what) {
  throw ValidationError("metadata", cat("'", key, "' is '", text.substr(0, 200), "', must be ", what));
}

int64_t whole(const std::string& text) {
  int64_t number = -1;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() ? number : -1;
}

std::vector<double> numbers_at(const NetGraph& graph, const char* key) {
  const auto found = graph.metadata.find(key);
  require(found != graph.metadata.end(), "metadata", "there is '", kImage, "', but no '", key, "'");
  std::vector<double> numbers;
  for (const std::string& part : split(found->second, ' ')) {
    double number = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), number);
    if (read.ec != std::errc() || read.ptr != part.data() + part.size())
      refuse(key, found->second, "numbers with a space between them");
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

void set_image_input(NetGraph& graph, const ImageInput& images) {
  check(images);
  graph.metadata[kImage] = cat(images.channels, " ", images.height, " ", images.width);
  graph.metadata[kMean] = text_of(images.mean);
  graph.metadata[kDeviation] = text_of(images.deviation);
  graph.metadata.erase(kClasses);
  std::string names;
  for (const std::string& name : images.classes) names += (names.empty() ? "" : "\n") + name;
  if (!names.empty()) graph.metadata[kClasses] = names;
}

std::optional<ImageInput> image_input(const NetGraph& graph) {
  const auto image = graph.metadata.find(kImage);
  if (image == graph.metadata.end()) return std::nullopt;
  const std::vector<std::string> sizes = split(image->second, ' ');
  if (sizes.size() != 3) refuse(kImage, image->second, "'CHANNELS HEIGHT WIDTH'");
  ImageInput images{whole(sizes[0]),
                    whole(sizes[1]),
                    whole(sizes[2]),
                    numbers_at(graph, kMean),
                    numbers_at(graph, kDeviation),
                    {}};
  if (const auto names = graph.metadata.find(kClasses); names != graph.metadata.end())
    images.classes = split(names->second, '\n');
  try {
    check(images);
  } catch (const ValidationError& error) {
    throw ValidationError("metadata", cat("'", kImage, "': ", error.what()));
  }
  return images;
}

}  // namespace dlprim
