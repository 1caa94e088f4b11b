// Images with classes, for training: a folder of IDX files, or a folder with one folder of pictures for each
// class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataset.hpp"
#include "image_form.hpp"

namespace dlprim::cli {

/// Part of a set. Images are read when they are asked for, from any thread.
class LabelledImages {
 public:
  int64_t count() const { return static_cast<int64_t>(labels_.size()); }
  int64_t label(int64_t image) const { return labels_[static_cast<size_t>(image)]; }
  /// Writes form.numbers() numbers. Throws Error, ValidationError that names the file.
  void read(int64_t image, const ImageForm& form, float* to) const;
  /// "28 x 28"; of files that of the first.
  std::string size_text() const;

 private:
  friend struct ImageSets;
  std::vector<int64_t> labels_;
  std::vector<std::string> files_;  ///< or, if there are none:
  Dataset idx_;
};

struct ImageSets {
  std::vector<std::string> classes;  ///< names
  LabelledImages training, test;
  int64_t height = 0, width = 0;   ///< of the first image
  std::vector<std::string> notes;  ///< what was left out, and why

  /// IDX files: those of `train` and of `t10k`. Pictures (PNG, JPEG): folder/CLASS/*, of which each tenth of
  /// a class, by name, is for testing; or folder/train/CLASS/* and folder/val/CLASS/* (or test). A folder
  /// without pictures is no class. Each picture is decoded once, on all cores: those that cannot be are left
  /// out if `skip_bad`, else they are listed in what is thrown. Throws BadInput, Error.
  static ImageSets read(const std::string& folder, bool skip_bad);
};

}  // namespace dlprim::cli
