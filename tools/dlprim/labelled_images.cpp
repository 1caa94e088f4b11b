#include "labelled_images.hpp"

#include <algorithm>
#include <filesystem>

#include "commands.hpp"
#include "picture.hpp"

namespace dlprim::cli {
namespace {

namespace fs = std::filesystem;

bool is_picture(const fs::path& path) {
  std::string end = path.extension().string();
  std::transform(end.begin(), end.end(), end.begin(), [](unsigned char c) { return std::tolower(c); });
  return end == ".png" || end == ".jpg" || end == ".jpeg";
}

/// Names in a folder, sorted: the same order on every machine.
std::vector<fs::path> sorted_entries(const fs::path& folder, bool folders) {
  std::vector<fs::path> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (folders ? entry.is_directory() : entry.is_regular_file() && is_picture(entry.path()))
      entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool has_idx(const std::string& folder) {
  for (const char* end : {"", ".gz"})
    if (fs::exists(folder + "/train-images-idx3-ubyte" + end)) return true;
  return false;
}

}  // namespace

void LabelledImages::read(int64_t image, const ImageForm& form, float* to) const {
  Picture picture;
  if (files_.empty()) {
    picture.width = idx_.columns, picture.height = idx_.rows;
    const unsigned char* grey = idx_.pixels.data() + image * idx_.image_size();
    for (int64_t i = 0; i < idx_.image_size(); i++) picture.rgb.insert(picture.rgb.end(), 3, grey[i]);
  } else {
    picture = read_picture(files_[static_cast<size_t>(image)]);
  }
  if (picture.width != form.width || picture.height != form.height)
    picture = resized(picture, form.width, form.height);
  const int64_t plane = form.height * form.width;
  for (int64_t i = 0; i < plane; i++) {
    const unsigned char* rgb = picture.rgb.data() + i * 3;
    for (int64_t c = 0; c < form.colours; c++)
      to[c * plane + i] = static_cast<float>(
          pixel_value(form.pixels, form.colours == 1 ? grey_of(rgb) : rgb[c], static_cast<size_t>(c)));
  }
}

std::string LabelledImages::size_text() const {
  if (files_.empty()) return std::to_string(idx_.columns) + " x " + std::to_string(idx_.rows);
  const Picture first = read_picture(files_[0]);
  return std::to_string(first.width) + " x " + std::to_string(first.height);
}

ImageSets ImageSets::read(const std::string& folder) {
  if (!fs::is_directory(folder)) throw BadInput("'" + folder + "' is no folder");
  ImageSets sets;
  if (has_idx(folder)) {
    for (const auto& [part, images] :
         {std::pair<const char*, LabelledImages*>{"train", &sets.training}, {"t10k", &sets.test}}) {
      images->idx_ = read_dataset(folder, part);
      images->labels_.assign(images->idx_.labels.begin(), images->idx_.labels.end());
    }
    for (int64_t c = 0; c < kClasses; c++) sets.classes.push_back(std::to_string(c));
    sets.height = sets.training.idx_.rows, sets.width = sets.training.idx_.columns;
    return sets;
  }
  const fs::path root(folder);
  const bool split = fs::is_directory(root / "train");
  const fs::path other = fs::is_directory(root / "val") ? root / "val" : root / "test";
  if (split && !fs::is_directory(other))
    throw BadInput("'" + folder + "' has a folder train, but neither val nor test");
  for (const fs::path& kind : sorted_entries(split ? root / "train" : root, true)) {
    const auto label = static_cast<int64_t>(sets.classes.size());
    sets.classes.push_back(kind.filename().string());
    const auto add = [&](LabelledImages& images, const fs::path& file) {
      images.files_.push_back(file.string());
      images.labels_.push_back(label);
    };
    const std::vector<fs::path> files = sorted_entries(kind, false);
    for (size_t i = 0; i < files.size(); i++)
      add(!split && i % 10 == 9 ? sets.test : sets.training, files[i]);
    if (split && fs::is_directory(other / kind.filename()))
      for (const fs::path& file : sorted_entries(other / kind.filename(), false)) add(sets.test, file);
  }
  if (sets.training.count() == 0)
    throw BadInput(
        "'" + folder +
        "' holds neither train-images-idx3-ubyte nor a folder of PNG or JPEG files for each class");
  const Picture first = read_picture(sets.training.files_[0]);
  sets.height = first.height, sets.width = first.width;
  return sets;
}

}  // namespace dlprim::cli
