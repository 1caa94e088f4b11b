#include "image_form.hpp"

#include <dlprim/net_model.hpp>

#include "commands.hpp"
#include "format.hpp"
#include "input_file.hpp"

namespace dlprim::cli {

std::string ImageForm::text() const {
  return format("%lld x %lld x %lld", static_cast<long long>(colours), static_cast<long long>(height),
                static_cast<long long>(width));
}

void write_pixels(const Picture& given, const ImageForm& form, float* to) {
  const bool fits = given.width == form.width && given.height == form.height;
  const Picture other = fits ? Picture{} : resized(given, form.width, form.height);
  const Picture& picture = fits ? given : other;
  const int64_t plane = form.height * form.width;
  for (int64_t i = 0; i < plane; i++) {
    const unsigned char* rgb = picture.rgb.data() + i * 3;
    for (int64_t c = 0; c < form.colours; c++)
      to[form.last ? i * form.colours + c : c * plane + i] =
          static_cast<float>(form.rule(form.colours == 1 ? grey_of(rgb) : rgb[c], static_cast<size_t>(c)));
  }
}

ImagePorts image_ports(const NetGraph& graph, const std::string& model) {
  const Model ports(graph);
  const std::vector<Model::Port> inputs = ports.inputs(), outputs = ports.outputs();
  if (inputs.size() != 1 || !inputs[0].shape || inputs[0].shape->size() != 4 || outputs.empty())
    throw BadInput("'" + model + "' must take one input, images f32[N, colours, height, width]");
  ImagePorts result{inputs[0].name, outputs[0].name, inputs[0].dtype.value_or(DType::f32), {}};
  for (const Dimension& d : *inputs[0].shape) result.sizes.push_back(d.size);
  const int64_t colours = result.sizes[colours_last(result.sizes) ? 3 : 1];
  if (colours != 1 && colours != 3 && colours >= 0)
    throw BadInput(format("'%s' takes images of %lld colours, must be 1 or 3", model.c_str(),
                          static_cast<long long>(colours)));
  return result;
}

ImageForm form_for(const ImagePorts& ports, const std::optional<ImageInput>& images,
                   const FormChoice& choice) {
  ImageForm form;
  form.last = colours_last(ports.sizes);
  const auto size = [&](int axis, int64_t asked, int64_t said, int64_t own) {
    const int64_t fixed = ports.sizes[static_cast<size_t>(axis)];
    return fixed > 0 ? fixed : asked > 0 ? asked : said > 0 ? said : own;
  };
  form.colours = size(form.last ? 3 : 1, 0, images ? images->channels : 0, 3);
  form.height = size(form.last ? 1 : 2, choice.size, images ? images->height : 0, choice.height);
  form.width = size(form.last ? 2 : 3, choice.size, images ? images->width : 0, choice.width);
  if (choice.pixels)
    form.rule = {*choice.pixels, form.colours};
  else if (images && images->channels == form.colours)
    form.rule = PixelRule(*images);
  else
    form.rule = {is_floating(ports.dtype) ? Pixels::imagenet : Pixels::bytes, form.colours};
  return form;
}

}  // namespace dlprim::cli
