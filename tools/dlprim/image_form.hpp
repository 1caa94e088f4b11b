// Pictures as a model that classifies them takes them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <dlprim/net_graph.hpp>
#include <dlprim/net_images.hpp>

#include "picture.hpp"
#include "pixel_rule.hpp"

namespace dlprim::cli {

/// What pictures become: so many colours (1 or 3) of that size.
struct ImageForm {
  int64_t colours = 3, height = 0, width = 0;
  PixelRule rule{Pixels::imagenet, 3};
  bool last = false;  ///< [height, width, colours], not [colours, height, width]

  int64_t numbers() const { return colours * height * width; }
  /// "3 x 32 x 32"
  std::string text() const;
};

/// Writes form.numbers() numbers; a picture of another size is resized.
void write_pixels(const Picture& picture, const ImageForm& form, float* to);

/// What a model takes and gives, if it classifies pictures.
struct ImagePorts {
  std::string input, output;
  DType dtype = DType::f32;    ///< of the input
  std::vector<int64_t> sizes;  ///< of the input, [N, C, H, W] or [N, H, W, C]; -1: open
};
/// Throws BadInput with what the model lacks. `model`: its name, for the message.
ImagePorts image_ports(const NetGraph& graph, const std::string& model);

/// What the command line says of a form; what it leaves open the model's file says, and what both leave open
/// is `height` x `width` and ImageNet's rule, or v itself for a model of whole numbers.
struct FormChoice {
  int64_t size = 0;  ///< of both sides; 0: not said
  std::optional<Pixels> pixels;
  int64_t height = 0, width = 0;
};
ImageForm form_for(const ImagePorts& ports, const std::optional<ImageInput>& images,
                   const FormChoice& choice);

}  // namespace dlprim::cli
