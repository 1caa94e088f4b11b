// A file as a model's input: arrays, pictures, sound, raw bytes. What had to be guessed is told.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <dlprim/net_model.hpp>

namespace dlprim::cli {

/// How bytes of a picture become numbers.
enum class Pixels : uint8_t {
  imagenet,  ///< (v / 255 - mean) / deviation, of ImageNet's colours
  unit,      ///< v / 255
  centred,   ///< v / 127.5 - 1
  bytes      ///< v
};
/// "imagenet", "unit", "centred", "bytes". Throws ValidationError.
Pixels parse_pixels(const std::string& name);

/// What the byte becomes, of colour 0, 1 or 2.
double pixel_value(Pixels pixels, unsigned char v, size_t colour);

/// By the end of its name: .npy, .png, .jpg, .jpeg, .wav (16 bits), .txt (its bytes), .raw (elements in
/// memory's order). `asked`: the shape that the user gave. Guesses are lines in `notes`. Throws
/// ValidationError, Error.
HostTensor read_input(const std::string& path, const Model::Port& port, const std::optional<Shape>& asked,
                      std::optional<Pixels> pixels, std::vector<std::string>& notes);

}  // namespace dlprim::cli
