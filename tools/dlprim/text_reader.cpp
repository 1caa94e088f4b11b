// The numbers here are those that the networks were trained with, or that PaddleOCR uses with them.
#include "text_reader.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <dlprim/copy.hpp>
#include <dlprim/error.hpp>

#include "ctc_text.hpp"
#include "text_boxes.hpp"
#include "text_crop.hpp"

namespace dlprim::cli {
namespace {

constexpr double kShortSide = 736, kLongSide = 2000;  ///< of what the detector looks at: at least, at most
constexpr double kLeastScore = 0.5;                   ///< of a line
constexpr double kLeastSide = 4;  ///< of a line, in the picture's pixels: lower ones hold no letters
constexpr int64_t kLineHeight = 48, kTurnWidth = 192;
constexpr int64_t kLeastWidth = 320, kMostWidth = 9600;  ///< of the recogniser's input
constexpr size_t kBatch = 8;

struct Output {
  Shape shape;
  std::vector<float> values;
};

/// Runs a network with one input and one output. `rank` is what the output must have.
Output run_one(const Stream& stream, const Model& model, const char* task, const Shape& shape,
               const std::vector<float>& values, int rank) {
  const auto inputs = model.inputs(), outputs = model.outputs();
  if (inputs.size() != 1 || outputs.size() != 1)
    throw ValidationError("models",
                          std::string("the ") + task + " must have one input and one output, but has " +
                              std::to_string(inputs.size()) + " and " + std::to_string(outputs.size()));
  const Tensor x(stream.context(), shape);
  write(stream, x, values);
  const Tensor y = model.run(stream, {{inputs[0].name, x}}).at(outputs[0].name);
  if (y.dtype() != DType::f32 || y.shape().size() != rank || y.shape()[0] != shape[0])
    throw ValidationError("models", std::string("the ") + task + " gives " + name_of(y.dtype()) +
                                        to_string(y.shape()) + " for " + to_string(shape) + ", not f32 of " +
                                        std::to_string(rank) + " dimensions, the first as of its input");
  return {y.shape(), read<float>(stream, y)};
}

int64_t to_32(double side) {
  return std::max<int64_t>(32, static_cast<int64_t>(std::round(side / 32)) * 32);
}

/// Boxes in the picture's pixels, in reading order.
std::vector<Quad> find_lines(const Stream& stream, const Model& detector, const Picture& picture) {
  const auto width = static_cast<double>(picture.width), height = static_cast<double>(picture.height);
  const double scale =
      std::min(std::max(1.0, kShortSide / std::min(width, height)), kLongSide / std::max(width, height));
  const int64_t w = to_32(width * scale), h = to_32(height * scale);
  std::vector<float> pixels(static_cast<size_t>(3 * w * h));
  put_planes(resized(picture, w, h), w, h, pixels.data());
  const Output map = run_one(stream, detector, "detector", {1, 3, h, w}, pixels, 4);
  if (map.shape != Shape{1, 1, h, w})
    throw ValidationError("models", "the detector gives " + to_string(map.shape) + " for a picture of " +
                                        to_string({1, 3, h, w}));
  std::vector<Quad> lines;
  for (const TextBox& box : find_text({w, h, map.values})) {
    Quad corners = box.corners;
    for (Point& p : corners)
      p = {p.x * width / static_cast<double>(w), p.y * height / static_cast<double>(h)};
    if (std::min(distance(corners[0], corners[1]), distance(corners[0], corners[3])) >= kLeastSide)
      lines.push_back(corners);
  }
  std::vector<Quad> sorted;
  for (size_t i : reading_order(lines)) sorted.push_back(lines[i]);
  return sorted;
}

double aspect(const Picture& line) {
  return static_cast<double>(line.width) / static_cast<double>(line.height);
}

/// A batch's input: lines as high as kLineHeight, as wide as that makes them, but at most `width`; 0 (grey)
/// behind them.
std::vector<float> batch_of(const std::vector<const Picture*>& lines, int64_t width) {
  const auto size = static_cast<size_t>(3 * kLineHeight * width);
  std::vector<float> values(lines.size() * size);
  for (size_t i = 0; i < lines.size(); i++) {
    const auto wide = static_cast<int64_t>(std::ceil(aspect(*lines[i]) * kLineHeight));
    put_planes(resized(*lines[i], std::min(width, wide), kLineHeight), width, kLineHeight, &values[i * size]);
  }
  return values;
}

/// The lines that may stand upside down.
std::vector<size_t> turned_lines(const Stream& stream, const Model& classifier,
                                 const std::vector<Picture>& lines) {
  std::vector<size_t> found;
  for (size_t first = 0; first < lines.size(); first += kBatch) {
    const size_t count = std::min(kBatch, lines.size() - first);
    std::vector<const Picture*> batch;
    for (size_t i = 0; i < count; i++) batch.push_back(&lines[first + i]);
    const Output scores =
        run_one(stream, classifier, "classifier", {static_cast<int64_t>(count), 3, kLineHeight, kTurnWidth},
                batch_of(batch, kTurnWidth), 2);
    if (scores.shape[1] != 2)
      throw ValidationError(
          "models", "the classifier must give 2 numbers for a line, not " + std::to_string(scores.shape[1]));
    for (size_t i = 0; i < count; i++)
      if (scores.values[2 * i + 1] > scores.values[2 * i]) found.push_back(first + i);
  }
  return found;
}

/// Lines of similar width are read together: a batch is as wide as its widest.
std::vector<ReadText> recognise(const Stream& stream, const TextModels& models,
                                const std::vector<Picture>& lines) {
  std::vector<size_t> order(lines.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return aspect(lines[a]) < aspect(lines[b]); });
  std::vector<ReadText> texts(lines.size());
  for (size_t first = 0; first < lines.size(); first += kBatch) {
    const size_t count = std::min(kBatch, lines.size() - first);
    std::vector<const Picture*> batch;
    for (size_t i = 0; i < count; i++) batch.push_back(&lines[order[first + i]]);
    const int64_t width =
        std::clamp(static_cast<int64_t>(aspect(*batch.back()) * kLineHeight), kLeastWidth, kMostWidth);
    const Output rows =
        run_one(stream, models.recogniser, "recogniser", {static_cast<int64_t>(count), 3, kLineHeight, width},
                batch_of(batch, width), 3);
    const auto classes = static_cast<int64_t>(models.alphabet.size());
    if (rows.shape[2] != classes)
      throw ValidationError("models", "the recogniser knows " + std::to_string(rows.shape[2]) +
                                          " classes, but its alphabet has " + std::to_string(classes));
    for (size_t i = 0; i < count; i++)
      texts[order[first + i]] = ctc_read(&rows.values[i * static_cast<size_t>(rows.shape[1] * classes)],
                                         rows.shape[1], models.alphabet);
  }
  return texts;
}

}  // namespace

std::vector<TextLine> read_text(const Stream& stream, const TextModels& models, const Picture& picture) {
  const std::vector<Quad> boxes = find_lines(stream, models.detector, picture);
  std::vector<Picture> lines;
  for (const Quad& box : boxes) lines.push_back(cut_out(picture, box));
  // The classifier errs, even where it is sure: such lines are read both ways, and what is read better stays.
  const std::vector<size_t> doubtful =
      models.classifier ? turned_lines(stream, *models.classifier, lines) : std::vector<size_t>();
  for (size_t i : doubtful) lines.push_back(turned(lines[i]));
  std::vector<ReadText> texts = recognise(stream, models, lines);
  for (size_t k = 0; k < doubtful.size(); k++)
    if (ReadText& other = texts[boxes.size() + k]; other.score > texts[doubtful[k]].score)
      texts[doubtful[k]] = std::move(other);
  std::vector<TextLine> read;
  for (size_t i = 0; i < boxes.size(); i++)
    if (texts[i].score >= kLeastScore) read.push_back({boxes[i], texts[i].text, texts[i].score});
  return read;
}

}  // namespace dlprim::cli
