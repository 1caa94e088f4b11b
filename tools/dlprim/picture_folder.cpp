#include "picture_folder.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <exception>
#include <filesystem>
#include <set>
#include <thread>

#include "commands.hpp"
#include "format.hpp"
#include "picture.hpp"
#include "waiting.hpp"

namespace dlprim::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostListed = 20;  // files in a message
constexpr size_t kMostThreads = 16;

/// The folders in a folder, or the pictures, sorted: the same order on every machine. `others` counts files
/// with other names.
std::vector<fs::path> sorted_folders(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_directory()) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}
std::vector<std::string> sorted_pictures(const fs::path& folder, size_t& others) {
  std::vector<std::string> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    if (has_picture_name(entry.path().string()))
      entries.push_back(entry.path().string());
    else
      others++;
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::string listed(const std::vector<BadPicture>& bad) {
  std::string text;
  for (size_t i = 0; i < std::min(bad.size(), kMostListed); i++) text += "\n  " + bad[i].reason;
  if (bad.size() > kMostListed) text += "\n  and " + std::to_string(bad.size() - kMostListed) + " more";
  return text;
}

}  // namespace

bool has_picture_name(const std::string& path) {
  std::string end = fs::path(path).extension().string();
  std::transform(end.begin(), end.end(), end.begin(), [](unsigned char c) { return std::tolower(c); });
  return end == ".png" || end == ".jpg" || end == ".jpeg";
}

std::vector<std::string> pictures_at(const std::string& path) {
  if (!fs::exists(path)) throw BadInput("there is no file or folder '" + path + "'");
  if (!fs::is_directory(path)) return {path};
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file() && has_picture_name(entry.path().string()))
      found.push_back(entry.path().string());
  if (found.empty()) throw BadInput("'" + path + "' holds no PNG or JPEG file");
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<BadPicture> bad_pictures(const std::vector<std::string>& paths) {
  std::vector<std::string> reasons(paths.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i; (i = next++) < paths.size();) try {
        read_picture(paths[i]);
      } catch (const std::exception& error) {
        reasons[i] = error.what();
      }
  };
  {
    const Waiting waiting([&] {
      return format("reading pictures: %zu of %zu", std::min(next.load(), paths.size()), paths.size());
    });
    std::vector<std::thread> threads;
    const size_t most = std::min<size_t>({kMostThreads, paths.size(), std::thread::hardware_concurrency()});
    for (size_t i = 1; i < most; i++) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
  }
  std::vector<BadPicture> bad;
  for (size_t i = 0; i < paths.size(); i++)
    if (!reasons[i].empty()) bad.push_back({paths[i], reasons[i]});
  return bad;
}

PictureFolder::PictureFolder(const std::string& folder) : folder_(folder) {
  const fs::path root(folder);
  split_ = fs::is_directory(root / "train");
  const fs::path other = fs::is_directory(root / "val") ? root / "val" : root / "test";
  if (split_ && !fs::is_directory(other))
    throw BadInput("'" + folder + "' has a folder train, but neither val nor test");
  size_t others = 0;
  for (const fs::path& kind : sorted_folders(split_ ? root / "train" : root)) {
    const std::string name = kind.filename().string();
    if (name.find_first_of("\r\n") != std::string::npos)
      throw BadInput("the name of the folder '" + kind.string() + "' holds a line break");
    Class found{name, sorted_pictures(kind, others), {}};
    if (split_ && fs::is_directory(other / name)) found.test = sorted_pictures(other / name, others);
    classes_.push_back(std::move(found));
  }
  if (split_)
    for (const fs::path& kind : sorted_folders(other))
      if (!fs::is_directory(root / "train" / kind.filename()))
        notes_.push_back("'" + kind.string() + "' is left out: train has no such folder");
  if (others > 0)
    notes_.push_back(format("%zu files are left out: their names are none of PNG or JPEG files", others));
  drop_empty_classes();
  if (classes_.empty())
    throw BadInput(
        "'" + folder +
        "' holds neither train-images-idx3-ubyte nor a folder of PNG or JPEG files for each class");
}

void PictureFolder::drop_empty_classes() {
  const auto empty = [](const Class& kind) { return kind.training.empty(); };
  for (const Class& kind : classes_)
    if (empty(kind))
      notes_.push_back("the folder '" + kind.name + "' is no class: it holds no picture for training");
  classes_.erase(std::remove_if(classes_.begin(), classes_.end(), empty), classes_.end());
}

void PictureFolder::check(bool skip) {
  std::vector<std::string> all;
  for (const Class& kind : classes_)
    for (const auto* files : {&kind.training, &kind.test})
      all.insert(all.end(), files->begin(), files->end());
  const std::vector<BadPicture> bad = bad_pictures(all);
  if (!bad.empty()) {
    const std::string counted =
        format("%zu of %zu pictures in '", bad.size(), all.size()) + folder_ + "' cannot be read";
    if (!skip)
      throw BadInput(counted + ". Mend or remove them, or leave them out with --skip-bad:" + listed(bad));
    notes_.push_back(counted + " and are left out:" + listed(bad));
  }
  std::set<std::string> left_out;
  for (const BadPicture& picture : bad) left_out.insert(picture.path);
  const auto is_bad = [&](const std::string& file) { return left_out.count(file) != 0; };
  for (Class& kind : classes_)
    for (auto* files : {&kind.training, &kind.test})
      files->erase(std::remove_if(files->begin(), files->end(), is_bad), files->end());
  drop_empty_classes();
  if (classes_.empty()) throw BadInput("'" + folder_ + "' holds no picture that can be read");
  if (split_) return;
  for (Class& kind : classes_) {  // each tenth, by name, is for testing
    std::vector<std::string> training;
    for (size_t i = 0; i < kind.training.size(); i++)
      (i % 10 == 9 ? kind.test : training).push_back(std::move(kind.training[i]));
    kind.training = std::move(training);
  }
}

}  // namespace dlprim::cli
