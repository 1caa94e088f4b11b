// What the reader and the writer of JSON models have in common. docs/model_format.md specifies the format.
#pragma once

#include <cstdint>

namespace dlprim::detail {

constexpr const char* kModelFormat = "dlprim-model";
constexpr int64_t kModelVersion = 1;
constexpr int kDeepestBody = 32;              // bodies in one another, as in ONNX models
constexpr int64_t kMostModelNodes = 1 << 18;  // with those of bodies
constexpr char kUnnamed = '%';                // begins what a value without a name is called in the file
constexpr const char* kJsonEnding = ".json";
constexpr const char* kWeightsEnding = ".safetensors";

}  // namespace dlprim::detail
