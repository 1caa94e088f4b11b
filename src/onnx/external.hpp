// Tensors' bytes that lie in files beside a model. A model is somebody else's data, and must not be able to
// name a file that did not come with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/file.hpp"
#include "onnx/proto.hpp"

namespace dlprim::onnx {

/// The files of one model, each mapped once and kept. Not for several threads at a time.
///
/// A location is a relative name without "..". It is looked for in the folder where the model's path says
/// that it lies; then, if the path is a symbolic link, in the folder where the model really lies. Wherever
/// links lead, the file must really lie in one of these two folders or below: model hubs keep a snapshot's
/// files as links into a folder of blobs, the model among them. It must be a regular file of one name: a hard
/// link might be to a file of somebody else. Who can change the folders while they are read can get around
/// this.
class ExternalFiles {
 public:
  /// Of a model that is no file: each look-up is refused.
  ExternalFiles() = default;
  /// Throws Error if there is no such file.
  explicit ExternalFiles(const std::string& model_path);

  /// The bytes of a tensor that is external: `expected_bytes` of them, valid as long as this object. Throws
  /// ValidationError of "external_data" that names the tensor and says what is wrong with its description,
  /// and MappedFile's errors.
  std::string_view bytes(const TensorMessage& tensor, uint64_t expected_bytes);

 private:
  std::string_view file_at(const std::string& tensor, const std::string& location);

  std::vector<std::filesystem::path> folders_;  ///< without links; at most two
  std::map<std::string, MappedFile> files_;     ///< by their paths without links
};

}  // namespace dlprim::onnx
