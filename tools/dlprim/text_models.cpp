// Finding the networks in a folder.
#include <algorithm>
#include <cctype>
#include <filesystem>

#include <dlprim/onnx.hpp>

#include "ctc_text.hpp"
#include "text_reader.hpp"

namespace dlprim::cli {
namespace {

/// Whether the word stands in the name, between characters that are no letters.
bool has_word(const std::string& name, const std::string& word) {
  const auto letter = [&](size_t at) {
    return at < name.size() && std::isalpha(static_cast<unsigned char>(name[at]));
  };
  for (size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1))
    if ((at == 0 || !letter(at - 1)) && !letter(at + word.size())) return true;
  return false;
}

/// The path of the only file for this task; empty if there is none.
std::string find_model(const std::string& folder, const std::string& word) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".onnx" && has_word(entry.path().stem().string(), word))
      found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  if (found.size() > 1)
    throw ValidationError("models", "'" + folder + "' holds more than one model with '" + word +
                                        "' in its name: " + found[0].filename().string() + ", " +
                                        found[1].filename().string());
  return found.empty() ? "" : found[0].string();
}

std::string need_model(const std::string& folder, const std::string& word, const std::string& task) {
  const std::string path = find_model(folder, word);
  if (path.empty())
    throw ValidationError("models", "'" + folder + "' holds no " + task + ": an ONNX file with '" + word +
                                        "' as a word of its name, such as ch_PP-OCRv4_" + word +
                                        "_infer.onnx");
  return path;
}

Model load_model(const std::string& path) {
  try {
    return onnx::load(path);
  } catch (const ValidationError& error) {  // which of the files it is about
    throw ValidationError("models", "'" + path + "': " + error.what());
  }
}

}  // namespace

TextModels load_text_models(const std::string& folder, bool upright) {
  if (!std::filesystem::is_directory(folder))
    throw ValidationError("models", "'" + folder + "' is no folder");
  const std::string detector = need_model(folder, "det", "detector"),
                    recogniser = need_model(folder, "rec", "recogniser"),
                    classifier = upright ? "" : find_model(folder, "cls");
  TextModels models{load_model(detector), load_model(recogniser), std::nullopt, {}};
  if (!classifier.empty()) models.classifier = load_model(classifier);
  const auto& metadata = models.recogniser.graph().metadata;
  const auto characters = metadata.find("character");
  if (characters == metadata.end())
    throw ValidationError(
        "models", "'" + recogniser + "' does not tell its alphabet: its metadata have no 'character'");
  models.alphabet = ctc_alphabet(characters->second);
  return models;
}

}  // namespace dlprim::cli
