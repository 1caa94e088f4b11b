// The version of the standard's opset that brought each operator. The importer reads some of them in older
// models too: there they are nobody's, and a function of the model's own may have their name.
#include <string_view>

#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

constexpr int64_t kOldest = 7;  ///< the oldest opset that is read

/// The operators that are younger than that.
constexpr struct {
  std::string_view name;
  int64_t since;
} kYounger[] = {
    {"Acosh", 9},
    {"AffineGrid", 20},
    {"Asinh", 9},
    {"Atanh", 9},
    {"Attention", 23},
    {"Bernoulli", 15},
    {"BitCast", 26},
    {"BitShift", 11},
    {"BitwiseAnd", 18},
    {"BitwiseNot", 18},
    {"BitwiseOr", 18},
    {"BitwiseXor", 18},
    {"BlackmanWindow", 17},
    {"CastLike", 15},
    {"CausalConvWithState", 27},
    {"Celu", 12},
    {"CenterCropPad", 18},
    {"Col2Im", 18},
    {"Compress", 9},
    {"ConcatFromSequence", 11},
    {"ConstantOfShape", 9},
    {"ConvInteger", 10},
    {"Cosh", 9},
    {"CumProd", 26},
    {"CumSum", 11},
    {"DFT", 17},
    {"DeformConv", 19},
    {"DequantizeLinear", 10},
    {"Det", 11},
    {"DynamicQuantizeLinear", 11},
    {"Einsum", 12},
    {"Erf", 9},
    {"Expand", 8},
    {"EyeLike", 9},
    {"GatherElements", 11},
    {"GatherND", 11},
    {"Gelu", 20},
    {"GreaterOrEqual", 12},
    {"GridSample", 16},
    {"GroupNormalization", 18},
    {"HammingWindow", 17},
    {"HannWindow", 17},
    {"HardSwish", 14},
    {"IsInf", 10},
    {"IsNaN", 9},
    {"LayerNormalization", 17},
    {"LessOrEqual", 12},
    {"LinearAttention", 27},
    {"MatMulInteger", 10},
    {"MaxUnpool", 9},
    {"MeanVarianceNormalization", 9},
    {"MelWeightMatrix", 17},
    {"Mish", 18},
    {"Mod", 10},
    {"NegativeLogLikelihoodLoss", 12},
    {"NonMaxSuppression", 10},
    {"NonZero", 9},
    {"OneHot", 9},
    {"QLinearConv", 10},
    {"QLinearMatMul", 10},
    {"QuantizeLinear", 10},
    {"RMSNormalization", 23},
    {"Range", 11},
    {"Resize", 10},
    {"ReverseSequence", 10},
    {"RoiAlign", 10},
    {"RotaryEmbedding", 23},
    {"Round", 11},
    {"STFT", 17},
    {"SequenceAt", 11},
    {"SequenceConstruct", 11},
    {"SequenceLength", 11},
    {"SplitToSequence", 11},
    {"Scan", 8},
    {"Scatter", 9},
    {"ScatterElements", 11},
    {"ScatterND", 11},
    {"Shrink", 9},
    {"Sign", 9},
    {"Sinh", 9},
    {"SoftmaxCrossEntropyLoss", 12},
    {"SwiGLU", 28},
    {"Swish", 24},
    {"TensorScatter", 24},
    {"TfIdfVectorizer", 9},
    {"ThresholdedRelu", 10},
    {"Trilu", 14},
    {"Unique", 11},
    {"Where", 9},
};

}  // namespace

bool is_standard(const std::string& domain, const std::string& name, int64_t opset) {
  if (!domain.empty() || name == "SimplifiedLayerNormalization") return !domain.empty();
  for (const auto& [known, since] : kYounger)
    if (known == name) return opset >= since;
  return opset >= kOldest;
}

}  // namespace dlprim::onnx
