#include "input_file.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>

#include <dlprim/net_host.hpp>

#include "file_bytes.hpp"
#include "npy.hpp"
#include "picture.hpp"

namespace dlprim::cli {

namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw ValidationError("input", "'" + path + "' does not go into the model: " + why);
}

std::string ending(const std::string& path) {
  const size_t dot = path.rfind('.');
  std::string end = dot == std::string::npos ? "" : path.substr(dot + 1);
  std::transform(end.begin(), end.end(), end.begin(), [](unsigned char c) { return std::tolower(c); });
  return end;
}

bool is_colours(int64_t size) {
  return size == 1 || size == 3;
}

/// Where the rule for a picture's bytes comes from, for the note.
PixelRule rule_for(const Model::Port& port, const InputForm& form, int64_t colours, std::string& source) {
  if (form.pixels) return {*form.pixels, colours};
  if (form.images && form.images->channels == colours) {
    source = ", as the model's file says";
    return PixelRule(*form.images);
  }
  source = "; --pixels says another";
  return {port.dtype && !is_floating(*port.dtype) ? Pixels::bytes : Pixels::imagenet, colours};
}

/// [N, C, H, W] or [N, H, W, C]: where 1 or 3 stands says which.
HostTensor picture_tensor(const std::string& path, const Model::Port& port, const InputForm& form,
                          std::vector<std::string>& notes) {
  std::vector<int64_t> sizes = known_sizes(port, form);
  if (sizes.empty()) sizes = {1, 3, -1, -1};
  if (sizes.size() != 4 || (sizes[0] > 1))
    refuse(path, "a picture needs an input [1, 3, H, W] or [1, H, W, 3]");
  const bool last = colours_last(sizes);
  const int64_t colours = std::max<int64_t>(1, last ? sizes[3] : sizes[1] < 0 ? 3 : sizes[1]);
  if (!is_colours(colours))
    refuse(path, "a picture has 1 or 3 colours, the input " + std::to_string(colours));
  const Picture file = read_picture(path);
  const int64_t height = sizes[last ? 1 : 2] < 0 ? file.height : sizes[last ? 1 : 2];
  const int64_t width = sizes[last ? 2 : 3] < 0 ? file.width : sizes[last ? 2 : 3];
  const Picture picture = resized(file, width, height);
  std::string source;
  const PixelRule rule = rule_for(port, form, colours, source);
  notes.push_back("input '" + port.name + "': " + std::to_string(file.width) + " x " +
                  std::to_string(file.height) + " pixels, resized to " + std::to_string(width) + " x " +
                  std::to_string(height) + (colours == 1 ? ", grey" : ", RGB") +
                  (last ? ", colours last" : "") + ", each byte v as " + rule.text() + source);
  std::vector<double> numbers(static_cast<size_t>(height * width * colours));
  for (int64_t i = 0; i < height * width; i++)
    for (int64_t c = 0; c < colours; c++) {
      const auto* rgb = picture.rgb.data() + i * 3;
      const unsigned char v = colours == 3 ? rgb[c] : grey_of(rgb);
      numbers[static_cast<size_t>(last ? i * colours + c : c * height * width + i)] =
          rule(v, static_cast<size_t>(c));
    }
  return host_tensor(port.dtype.value_or(DType::f32),
                     last ? Shape{1, height, width, colours} : Shape{1, colours, height, width}, numbers);
}

/// The samples of a RIFF file of 16-bit numbers, as v / 32768; of several channels the first.
std::vector<double> wav_samples(const std::string& path, std::vector<std::string>& notes) {
  const std::string bytes = file_bytes(path);
  const auto number = [&](size_t at, size_t size) {
    uint64_t value = 0;
    for (size_t i = size; i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(at + i < bytes.size() ? bytes[at + i] : 0);
    return value;
  };
  if (bytes.size() < 12 || bytes.compare(0, 4, "RIFF") != 0 || bytes.compare(8, 4, "WAVE") != 0)
    refuse(path, "it is no WAVE file");
  uint64_t channels = 0;
  for (size_t at = 12; at + 8 <= bytes.size();) {
    const uint64_t size = std::min<uint64_t>(number(at + 4, 4), bytes.size() - at - 8);
    if (bytes.compare(at, 4, "fmt ") == 0) {
      if (size < 16 || number(at + 8, 2) != 1 || number(at + 22, 2) != 16)
        refuse(path, "its samples are no whole numbers of 16 bits");
      channels = number(at + 10, 2);
      notes.push_back("'" + path + "': " + std::to_string(number(at + 12, 4)) + " samples a second, " +
                      std::to_string(channels) + " channels, of which the first is taken");
    }
    if (bytes.compare(at, 4, "data") == 0 && channels != 0) {
      std::vector<double> samples;
      for (uint64_t i = 0; i + 2 * channels <= size; i += 2 * channels)
        samples.push_back(static_cast<int16_t>(number(at + 8 + i, 2)) / 32768.0);
      return samples;
    }
    at += 8 + size + size % 2;
  }
  refuse(path, "it has no samples");
}

/// Numbers in a row, in a shape whose open sizes are 1 but for the last: [1, n].
HostTensor row(const std::string& path, const Model::Port& port, const InputForm& form,
               std::vector<double> numbers) {
  std::vector<int64_t> sizes = known_sizes(port, form);
  if (sizes.empty()) sizes = {-1};
  const auto open = std::find_if(sizes.rbegin(), sizes.rend(), [](int64_t s) { return s < 0; });
  int64_t known = 1;
  for (auto at = sizes.rbegin(); at != sizes.rend(); ++at) {
    if (*at < 0 && at != open) *at = 1;
    if (*at >= 0) known *= *at;
  }
  if (open != sizes.rend() && known > 0) *open = static_cast<int64_t>(numbers.size()) / known;
  const Shape shape(sizes);
  const int64_t count = element_count(shape);
  if (static_cast<int64_t>(numbers.size()) < count)
    refuse(path, "it has " + std::to_string(numbers.size()) + " numbers for " + to_string(shape));
  numbers.resize(static_cast<size_t>(count));
  return host_tensor(port.dtype.value_or(DType::f32), shape, numbers);
}

HostTensor raw_tensor(const std::string& path, const Model::Port& port, const InputForm& form) {
  const std::string bytes = file_bytes(path);
  HostTensor tensor{port.name, port.dtype.value_or(DType::f32), {}, {bytes.begin(), bytes.end()}};
  const size_t size = size_of(tensor.dtype);
  if (bytes.size() % size != 0)
    refuse(path, "its " + std::to_string(bytes.size()) + " bytes are no whole elements of " +
                     name_of(tensor.dtype));
  tensor.shape = row(path, port, form, std::vector<double>(bytes.size() / size)).shape;
  if (static_cast<uint64_t>(element_count(tensor.shape)) * size != bytes.size())
    refuse(path, "its bytes are not those of " + to_string(tensor.shape));
  return tensor;
}

}  // namespace

bool colours_last(const std::vector<int64_t>& sizes) {
  return sizes.size() == 4 && !is_colours(sizes[1]) && is_colours(sizes[3]);
}

std::vector<int64_t> known_sizes(const Model::Port& port, const InputForm& form) {
  if (form.shape) return {form.shape->begin(), form.shape->end()};
  std::vector<int64_t> sizes;
  for (const Dimension& d : port.shape.value_or(std::vector<Dimension>())) sizes.push_back(d.size);
  if (!form.images || (port.shape && sizes.size() != 4)) return sizes;
  if (sizes.empty()) sizes = {-1, -1, -1, -1};
  const ImageInput& images = *form.images;
  const int64_t said[] = {-1, images.channels, images.height, images.width},
                said_last[] = {-1, images.height, images.width, images.channels};
  const int64_t* all = colours_last(sizes) ? said_last : said;
  for (size_t d = 0; d < 4; d++)
    if (sizes[d] < 0) sizes[d] = all[d];
  return sizes;
}

HostTensor read_input(const std::string& path, const Model::Port& port, const InputForm& form,
                      std::vector<std::string>& notes) {
  const std::string end = ending(path);
  if (end == "npy") return read_npy(path);
  if (end == "png" || end == "jpg" || end == "jpeg") return picture_tensor(path, port, form, notes);
  if (end == "wav") return row(path, port, form, wav_samples(path, notes));
  if (end == "raw") return raw_tensor(path, port, form);
  if (end == "txt") {
    const std::string text = file_bytes(path);
    std::vector<double> numbers;
    for (char c : text) numbers.push_back(static_cast<unsigned char>(c));
    return row(path, port, form, std::move(numbers));
  }
  throw ValidationError(
      "input",
      "'" + path + "' must be a file that ends in .npy, .npz, .png, .jpg, .wav, .txt or .raw, or 'random'");
}

}  // namespace dlprim::cli
