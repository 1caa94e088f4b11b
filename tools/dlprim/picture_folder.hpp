// Folders of pictures: which files they hold, by class, and which of them cannot be read.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace dlprim::cli {

/// PNG or JPEG, by its name.
bool has_picture_name(const std::string& path);
/// The pictures that a path names: itself, or all in the folder and in its folders, sorted. Throws BadInput
/// if there is no such path, or no picture.
std::vector<std::string> pictures_at(const std::string& path);

/// A file that is no picture, and why.
struct BadPicture {
  std::string path, reason;
};
/// Decodes all files, on all cores, and gives those that cannot be, in their order. On a terminal, or after
/// two seconds, the standard error shows how far it is.
std::vector<BadPicture> bad_pictures(const std::vector<std::string>& paths);

class PictureFolder {
 public:
  struct Class {
    std::string name;
    std::vector<std::string> training, test;
  };

  /// See ImageSets::read. Throws BadInput if there is no picture for training.
  explicit PictureFolder(const std::string& folder);
  /// Decodes all. Bad ones are taken out if `skip`; else they are listed in the BadInput that is thrown.
  void check(bool skip);
  /// Those that have pictures for training.
  const std::vector<Class>& classes() const { return classes_; }
  /// What was left out.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void drop_empty_classes();

  std::string folder_;
  bool split_ = false;  ///< into folders train and val, or test
  std::vector<Class> classes_;
  std::vector<std::string> notes_;
};

}  // namespace dlprim::cli
