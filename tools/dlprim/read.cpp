// `dlprim read`: the text of a picture.
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include <dlprim/context.hpp>

#include "clock.hpp"
#include "commands.hpp"
#include "device_choice.hpp"
#include "format.hpp"
#include "output_folder.hpp"
#include "text_reader.hpp"
#include "waiting.hpp"

namespace dlprim::cli {
namespace {

std::string json_line(const TextLine& line) {
  nlohmann::json corners = nlohmann::json::array();
  for (Point p : line.corners) corners.push_back({p.x, p.y});
  return nlohmann::json{{"text", line.text}, {"score", line.score}, {"corners", corners}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// A red line, 1 pixel thick; what lies outside of the picture is left out.
void draw_line(Picture& picture, Point from, Point to) {
  const auto steps = static_cast<int64_t>(2 * distance(from, to)) + 1;
  for (int64_t i = 0; i <= steps; i++) {
    const double share = static_cast<double>(i) / static_cast<double>(steps);
    const double x = from.x + share * (to.x - from.x), y = from.y + share * (to.y - from.y);
    if (x < 0 || y < 0 || x >= static_cast<double>(picture.width) || y >= static_cast<double>(picture.height))
      continue;
    unsigned char* rgb = &picture.rgb[static_cast<size_t>(
        (static_cast<int64_t>(y) * picture.width + static_cast<int64_t>(x)) * 3)];
    rgb[0] = 255, rgb[1] = 0, rgb[2] = 0;
  }
}

}  // namespace

int run_read(const ReadOptions& options) {
  require_writable(options.save);
  Picture picture = read_picture(options.picture);
  const TextModels models = load_text_models(options.models, options.upright);
  const Context context(choose_device(options.device));
  const Stream stream(context);
  std::optional<Waiting> waiting(std::in_place, compiling());
  const auto begin = Clock::now();
  const std::vector<TextLine> lines = read_text(stream, models, picture);
  const double seconds = seconds_since(begin);
  waiting.reset();
  for (const TextLine& line : lines) std::cout << (options.json ? json_line(line) : line.text) << "\n";
  std::cout << std::flush;
  if (!options.save.empty()) {
    for (const TextLine& line : lines)
      for (size_t i = 0; i < 4; i++) draw_line(picture, line.corners[i], line.corners[(i + 1) % 4]);
    write_png(options.save, picture);
  }
  std::cerr << format("%zu lines of text in %.1f s", lines.size(), seconds) << std::endl;
  return 0;
}

}  // namespace dlprim::cli
