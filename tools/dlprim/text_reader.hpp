// Reading the text of pictures with three networks, as PaddleOCR makes them: a detector finds lines, a
// classifier finds those that stand upside down, a recogniser reads each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <dlprim/net_model.hpp>
#include <dlprim/stream.hpp>

#include "picture.hpp"
#include "quad.hpp"

namespace dlprim::cli {

struct TextModels {
  Model detector, recogniser;
  std::optional<Model> classifier;
  std::vector<std::string> alphabet;  ///< see ctc_alphabet
};
/// The ONNX files of a folder that have "det", "rec" and "cls" as a word of their names, as in
/// ch_PP-OCRv4_det_infer.onnx. There may be no "cls"; `upright`: it is not looked for. Throws ValidationError
/// (no folder; no file, or two, of one kind; a recogniser without its alphabet) and what onnx::load does.
TextModels load_text_models(const std::string& folder, bool upright);

struct TextLine {
  Quad corners;  ///< in the picture's pixels; may reach over its edge a little
  std::string text;
  double score = 0;  ///< the recogniser's, 0 to 1
};
/// The lines that score 0.5 or more, as they are read: from top to bottom, from left to right. Throws
/// ValidationError if a network does not give what such a one gives, and what Model::run does.
std::vector<TextLine> read_text(const Stream& stream, const TextModels& models, const Picture& picture);

}  // namespace dlprim::cli
