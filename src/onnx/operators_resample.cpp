// Resizing, sampling at places, pooling of regions.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

using detail::cat;

/// The net's word for ONNX's.
struct Word {
  const char *onnx, *net;
  int64_t since = 1, until = INT64_MAX;  ///< opsets
};
template <size_t N>
std::string translated(NodeImport& node, const char* name, const char* standard, const Word (&words)[N]) {
  const std::string value = node.text(name, standard);
  for (const Word& word : words)
    if (value == word.onnx && node.opset >= word.since && node.opset <= word.until) return word.net;
  node.refuse(cat("has ", name, " '", value, "'"));
}

constexpr Word kCoordinates[] = {
    {"half_pixel", "half_pixel"},
    {"half_pixel_symmetric", "half_pixel_symmetric", 19},
    {"pytorch_half_pixel", "pytorch_half_pixel"},
    {"align_corners", "align_corners"},
    {"asymmetric", "asymmetric"},
    {"tf_half_pixel_for_nn", "half_pixel_for_nearest", 11, 12},
    {"tf_crop_and_resize", "crop"},
};
constexpr Word kNearest[] = {
    {"round_prefer_floor", "prefer_floor"},
    {"round_prefer_ceil", "prefer_ceil"},
    {"floor", "floor"},
    {"ceil", "ceil"},
};
constexpr Word kResizeModes[] = {{"nearest", "nearest"}, {"linear", "linear"}, {"cubic", "cubic", 11}};
constexpr Word kKeepAspect[] = {{"stretch", "no"}, {"not_larger", "smallest"}, {"not_smaller", "largest"}};

void resize(NodeImport& node) {
  Attributes attributes{
      {"mode", translated(node, "mode", "nearest", kResizeModes)},
      {"coordinates", translated(node, "coordinate_transformation_mode", "half_pixel", kCoordinates)},
      {"nearest", translated(node, "nearest_mode", "round_prefer_floor", kNearest)},
      {"cubic_a", node.number("cubic_coeff_a", -0.75)},
      {"exclude_outside", node.integer("exclude_outside", 0)},
      {"outside", node.number("extrapolation_value", 0)},
  };
  if (node.opset >= 18) {
    attributes.emplace("antialias", node.integer("antialias", 0));
    if (node.has("axes")) attributes.emplace("axes", node.integers("axes"));
    attributes.emplace("keep_aspect", translated(node, "keep_aspect_ratio_policy", "stretch", kKeepAspect));
  }
  node.result(node.emit("resize", {node.in(0), node.in(1), node.in(2), node.in(3)}, std::move(attributes)));
}

/// Resize of opset 10, and Upsample: places are quotients. Of smaller results the nearest is the next, as
/// ONNX Runtime has it, and ONNX's test of that time.
Attributes plain_resize(NodeImport& node) {
  return {{"mode", translated(node, "mode", "nearest", kResizeModes)},
          {"coordinates", "asymmetric"},
          {"nearest", "simple"}};
}
void resize_by_scales(NodeImport& node) {
  node.result(
      node.emit("resize", {node.in(0), NetGraph::kNone, node.in(1), NetGraph::kNone}, plain_resize(node)));
}
/// Scales are an attribute before opset 9.
void upsample_by_attribute(NodeImport& node) {
  const std::vector<double> scales = node.numbers("scales");
  const std::vector<float> elements(scales.begin(), scales.end());
  HostTensor tensor{{}, DType::f32, {static_cast<int64_t>(elements.size())}, {}};
  const auto* bytes = reinterpret_cast<const unsigned char*>(elements.data());
  tensor.data.assign(bytes, bytes + elements.size() * sizeof(float));
  const int by = node.constant(std::move(tensor));
  node.result(node.emit("resize", {node.in(0), NetGraph::kNone, by, NetGraph::kNone}, plain_resize(node)));
}

void grid_sample(NodeImport& node) {
  static constexpr Word kModes[] = {{"bilinear", "linear", 16, 19},
                                    {"linear", "linear", 20},
                                    {"nearest", "nearest"},
                                    {"bicubic", "cubic", 16, 19},
                                    {"cubic", "cubic", 20}};
  const char* standard = node.opset < 20 ? "bilinear" : "linear";
  node.result(node.emit("grid_sample", {node.in(0), node.in(1)},
                        {{"mode", translated(node, "mode", standard, kModes)},
                         {"padding", node.text("padding_mode", "zeros")},
                         {"align_corners", node.integer("align_corners", 0)}}));
}
void affine_grid(NodeImport& node) {
  node.result(node.emit("affine_grid", {node.in(0), node.in(1)},
                        {{"align_corners", node.integer("align_corners", 0)}}));
}

/// strides, dilations, pads.
Attributes window(NodeImport& node) {
  Attributes attributes;
  if (node.has("strides")) attributes.emplace("stride", node.integers("strides"));
  if (node.has("pads")) {
    const std::vector<int64_t> pads = node.integers("pads");
    if (pads.size() % 2 != 0) node.refuse(cat("has ", pads.size(), " pads, must be two for each axis"));
    const auto half = pads.begin() + static_cast<std::ptrdiff_t>(pads.size() / 2);
    attributes.emplace("pad_begin", std::vector<int64_t>(pads.begin(), half));
    attributes.emplace("pad_end", std::vector<int64_t>(half, pads.end()));
  }
  return attributes;
}

void max_unpool(NodeImport& node) {
  Attributes attributes = window(node);
  attributes.emplace("kernel", node.integers("kernel_shape"));
  std::vector<int> inputs{node.in(0), node.in(1)};
  if (node.has(2)) inputs.push_back(node.in(2));
  node.result(node.emit("max_unpool", inputs, std::move(attributes)));
}

/// `kernel_shape` repeats w's shape.
void deform_conv(NodeImport& node) {
  Attributes attributes = window(node);
  if (node.has("dilations")) attributes.emplace("dilation", node.integers("dilations"));
  node.ignore("kernel_shape");
  attributes.emplace("groups", node.integer("group", 1));
  attributes.emplace("offset_groups", node.integer("offset_group", 1));
  node.result(node.emit("deform_conv", {node.in(0), node.in(1), node.in(2), node.in(3), node.in(4)},
                        std::move(attributes)));
}

void col2im(NodeImport& node) {
  Attributes attributes = window(node);
  if (node.has("dilations")) attributes.emplace("dilation", node.integers("dilations"));
  node.result(node.emit("fold", {node.in(0), node.in(1), node.in(2)}, std::move(attributes)));
}

/// Regions are not moved by half an element before opset 16.
void roi_align(NodeImport& node) {
  const std::string mode = node.text("mode", "avg");
  if (mode != "avg" && mode != "max") node.refuse("has mode '" + mode + "', must be avg or max");
  std::string shift = "output_half_pixel";
  if (node.opset >= 16) shift = node.text("coordinate_transformation_mode", "half_pixel");
  if (shift != "half_pixel" && shift != "output_half_pixel")
    node.refuse("has coordinate_transformation_mode '" + shift + "'");
  const std::vector<int64_t> size{node.integer("output_height", 1), node.integer("output_width", 1)};
  node.result(node.emit("roi_align", {node.in(0), node.in(1), node.in(2)},
                        {{"size", size},
                         {"scale", node.number("spatial_scale", 1)},
                         {"samples", node.integer("sampling_ratio", 0)},
                         {"shift", shift == "half_pixel"},
                         {"maximum", mode == "max"}}));
}
void max_roi_pool(NodeImport& node) {
  node.result(
      node.emit("roi_max", {node.in(0), node.in(1)},
                {{"size", node.integers("pooled_shape")}, {"scale", node.number("spatial_scale", 1)}}));
}

constexpr OperatorEntry kOperators[] = {
    {"AffineGrid", affine_grid},
    {"Col2Im", col2im},
    {"DeformConv", deform_conv},
    {"GridSample", grid_sample},
    {"MaxRoiPool", max_roi_pool},
    {"MaxUnpool", max_unpool},
    {"Resize", resize_by_scales},
    {"Resize", resize, nullptr, 11},
    {"RoiAlign", roi_align},
    {"Upsample", upsample_by_attribute},
    {"Upsample", resize_by_scales, nullptr, 9},
};

}  // namespace

OperatorList resample_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
