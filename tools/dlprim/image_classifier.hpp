// A model that classifies pictures, on a device: batches of pictures in, a number for each class out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <dlprim/context.hpp>
#include <dlprim/net_model.hpp>
#include <dlprim/stream.hpp>

#include "image_form.hpp"
#include "model_commands.hpp"
#include "waiting.hpp"

namespace dlprim::cli {

class ImageClassifier {
 public:
  /// `size`: of pictures whose size neither the model nor its file says; 0: such a model is refused. Throws
  /// BadInput, and what load_graph throws.
  ImageClassifier(const ModelOptions& options, int64_t size);

  const Context& context() const { return context_; }
  const ImageForm& form() const { return form_; }
  /// What the model's file calls its classes; may be empty.
  const std::vector<std::string>& classes() const { return classes_; }

  /// Calls `read(i, to)`, from a thread of its own, for each of `count` pictures, to write form().numbers()
  /// numbers, and `take(i, scores)` with the model's numbers for them, in order. Batches are of --batch
  /// pictures, or of as many as the model demands.
  void run(int64_t count, const std::function<void(int64_t i, float* to)>& read,
           const std::function<void(int64_t i, const std::vector<double>& scores)>& take) const;

 private:
  ImageClassifier(const ModelOptions& options, int64_t size, NetGraph graph);

  Options options_;
  ImagePorts ports_;
  ImageForm form_;
  std::vector<std::string> classes_;
  int64_t batch_;
  Model model_;
  Context context_;
  Stream stream_;
  Waiting waiting_;
};

/// The row as probabilities: itself, if its numbers are 0 and more with a sum of 1 within 0.001; else its
/// softmax.
std::vector<double> probabilities(const std::vector<double>& scores);
/// The places of the `top` largest numbers, the largest first; of equal ones the first.
std::vector<size_t> largest(const std::vector<double>& numbers, size_t top);

}  // namespace dlprim::cli
