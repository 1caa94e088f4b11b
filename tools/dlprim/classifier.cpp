// The small convolutional network: 207 thousand parameters, 1.2 million multiply-adds for an image of 28
// x 28.
#include "classifier.hpp"

#include <algorithm>
#include <numeric>

#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>

namespace dlprim::cli {

Classifier::Classifier(const Stream& stream, uint64_t seed, int64_t rows, int64_t columns)
    : net(stream, seed) {
  if (rows < 4 || columns < 4)
    throw Error("the images are " + std::to_string(rows) + " x " + std::to_string(columns) +
                " pixels; this network needs at least 4 x 4");
  images = net.input({1, rows, columns}, DType::f32, "images");
  labels = net.input({}, DType::u8, "labels");
  Value h = images;
  for (int64_t filters : {16, 32}) {
    h = net.batch_norm(net.conv(h, ConvLayer(filters, 3).pad(1).without_bias()));
    h = net.relu(
        net.max_pool(h, 2));  // relu commutes with the maximum, and has a quarter of the work behind it
  }
  h = net.relu(net.linear(net.flatten(h), 128));
  const Value logits = net.linear(net.dropout(h, 0.25), kClasses);
  loss = net.cross_entropy(logits, labels);
  correct = net.count_correct(logits, labels);
}

Pass forward(const Stream& stream, const Classifier& classifier, Mode mode, const Dataset& data,
             const uint32_t* places, int64_t count) {
  const auto size = static_cast<size_t>(data.image_size());
  std::vector<unsigned char> pixels(static_cast<size_t>(count) * size), labels(static_cast<size_t>(count));
  for (size_t i = 0; i < labels.size(); i++) {
    std::copy_n(data.pixels.begin() + static_cast<std::ptrdiff_t>(places[i] * size), size,
                pixels.begin() + static_cast<std::ptrdiff_t>(i * size));
    labels[i] = data.labels[places[i]];
  }
  // The bytes travel; they become floats of about mean 0 and deviation 1 on the device.
  const Tensor bytes(stream, {count, 1, data.rows, data.columns}, DType::u8),
      target(stream, {count}, DType::u8);
  const Tensor x(stream, bytes.shape());
  write(stream, bytes, pixels);
  write(stream, target, labels);
  constexpr double kMean = 0.2860, kDeviation = 0.3530;  // of Fashion-MNIST's training images, in [0, 1]
  pointwise(stream, {bytes}, {x}, {1 / (255 * kDeviation), kMean / kDeviation}, "y0 = x0 * s0 - s1");
  return classifier.net.forward(stream, mode, {{classifier.images, x}, {classifier.labels, target}},
                                {classifier.loss, classifier.correct});
}

Score evaluate(const Stream& stream, const Classifier& classifier, const Dataset& data, int64_t batch) {
  std::vector<uint32_t> places(static_cast<size_t>(data.count));
  std::iota(places.begin(), places.end(), 0u);
  // The results are collected on the device, so that there is one read instead of one a batch.
  const int64_t batches = (data.count + batch - 1) / batch;
  const Tensor losses(stream, {batches}), corrects(stream, {batches});
  for (int64_t i = 0; i < batches; i++) {
    const int64_t start = i * batch, count = std::min(batch, data.count - start);
    const Pass pass = forward(stream, classifier, Mode::evaluation, data, places.data() + start, count);
    copy(stream, pass[classifier.loss], losses.slice(0, i, i + 1));
    copy(stream, pass[classifier.correct], corrects.slice(0, i, i + 1));
  }
  const std::vector<float> loss = read<float>(stream, losses), correct = read<float>(stream, corrects);
  Score score;
  for (int64_t i = 0; i < batches; i++) {
    const int64_t count = std::min(batch, data.count - i * batch);
    score.loss += loss[static_cast<size_t>(i)] * static_cast<double>(count) / static_cast<double>(data.count);
    score.correct += static_cast<int64_t>(correct[static_cast<size_t>(i)]);
    score.count += count;
  }
  return score;
}

}  // namespace dlprim::cli
