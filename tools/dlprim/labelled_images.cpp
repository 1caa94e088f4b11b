#include "labelled_images.hpp"

#include <filesystem>

#include "commands.hpp"
#include "picture.hpp"
#include "picture_folder.hpp"

namespace dlprim::cli {
namespace {

namespace fs = std::filesystem;

bool has_idx(const std::string& folder) {
  for (const char* end : {"", ".gz"})
    if (fs::exists(folder + "/train-images-idx3-ubyte" + end)) return true;
  return false;
}

}  // namespace

void LabelledImages::read(int64_t image, const ImageForm& form, float* to) const {
  if (!files_.empty()) {
    write_pixels(read_picture(files_[static_cast<size_t>(image)]), form, to);
    return;
  }
  Picture picture{idx_.columns, idx_.rows, {}};
  const unsigned char* grey = idx_.pixels.data() + image * idx_.image_size();
  for (int64_t i = 0; i < idx_.image_size(); i++) picture.rgb.insert(picture.rgb.end(), 3, grey[i]);
  write_pixels(picture, form, to);
}

std::string LabelledImages::size_text() const {
  if (files_.empty()) return std::to_string(idx_.columns) + " x " + std::to_string(idx_.rows);
  const Picture first = read_picture(files_[0]);
  return std::to_string(first.width) + " x " + std::to_string(first.height);
}

ImageSets ImageSets::read(const std::string& folder, bool skip_bad) {
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
  PictureFolder pictures(folder);
  pictures.check(skip_bad);
  for (const PictureFolder::Class& kind : pictures.classes()) {
    const auto label = static_cast<int64_t>(sets.classes.size());
    sets.classes.push_back(kind.name);
    for (const auto& [images, files] :
         {std::pair(&sets.training, &kind.training), std::pair(&sets.test, &kind.test)}) {
      images->files_.insert(images->files_.end(), files->begin(), files->end());
      images->labels_.insert(images->labels_.end(), files->size(), label);
    }
  }
  sets.notes = pictures.notes();
  const Picture first = read_picture(sets.training.files_[0]);
  sets.height = first.height, sets.width = first.width;
  return sets;
}

}  // namespace dlprim::cli
