// A file as a model's input: arrays, pictures, sound, raw bytes. What had to be guessed is told.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <dlprim/net_model.hpp>

#include "pixel_rule.hpp"

namespace dlprim::cli {

/// What is said of an input beside its port. The user's word counts before the model's.
struct InputForm {
  std::optional<Shape> shape;        ///< that the user gave
  std::optional<Pixels> pixels;      ///< the same
  std::optional<ImageInput> images;  ///< what the model says of pictures
};

/// The sizes of an input that are known, -1 elsewhere: the user's, else the port's, and where that leaves a
/// picture's sizes open, those of the model's pictures.
std::vector<int64_t> known_sizes(const Model::Port& port, const InputForm& form);
/// Of sizes [N, C, H, W] or [N, H, W, C]: whether colours come last.
bool colours_last(const std::vector<int64_t>& sizes);

/// By the end of its name: .npy, .png, .jpg, .jpeg, .wav (16 bits), .txt (its bytes), .raw (elements in
/// memory's order). Guesses are lines in `notes`. Throws ValidationError, Error.
HostTensor read_input(const std::string& path, const Model::Port& port, const InputForm& form,
                      std::vector<std::string>& notes);

}  // namespace dlprim::cli
