// What a network that classifies pictures expects of them, and what its classes are called. It is part of the
// graph's metadata, so JSON models and ONNX files (metadata_props) carry it: docs/model_format.md.
//
//   NetGraph graph = load_json("run/model.json");
//   const std::optional<ImageInput> images = image_input(graph);  // 3 x 32 x 32, mean, deviation, classes
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/net_graph.hpp>

namespace dlprim {

/// A picture is resized to `height` x `width`; each byte v of colour c then becomes
/// (v / 255 - mean[c]) / deviation[c]. Colours are red, green and blue, or the brightness alone.
struct ImageInput {
  int64_t channels = 3;                 ///< 1 or 3
  int64_t height = 0, width = 0;        ///< 1 to 65536
  std::vector<double> mean, deviation;  ///< one for each channel; no deviation is 0
  std::vector<std::string> classes;     ///< the name of each class; empty: not known
};

/// Writes the description of the graph's first input into its metadata, in place of an earlier one. Throws
/// ValidationError: a number out of range; a class's name that is empty or holds a line break.
DLPRIM_API void set_image_input(NetGraph& graph, const ImageInput& images);

/// The description that the graph's metadata hold; none if they have no key "dlprim.image". Throws
/// ValidationError that names the key whose text is no such description.
DLPRIM_API std::optional<ImageInput> image_input(const NetGraph& graph);

}  // namespace dlprim
