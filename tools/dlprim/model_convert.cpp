// `dlprim convert`: any model as JSON, with its weights in a safetensors file. Needs no device.
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include <dlprim/net_json.hpp>

#include "commands.hpp"
#include "format.hpp"
#include "model_commands.hpp"
#include "model_input.hpp"

namespace dlprim::cli {

namespace fs = std::filesystem;

int run_convert(const ConvertModelOptions& options) {
  const fs::path out = options.out;
  if (out.extension() != ".json") throw BadInput("'" + options.out + "' must end in .json");
  const fs::path weights = fs::path(out).replace_extension(".safetensors");
  for (const fs::path& file : {out, weights})
    if (!options.force && fs::exists(fs::symlink_status(file)))
      throw BadInput("'" + file.string() + "' is there already; --force replaces it");
  for (const std::string& file : save_json(options.out, load_graph(options, false))) {
    const auto bytes = static_cast<int64_t>(fs::file_size(file));
    if (options.json)
      std::cout << nlohmann::json{{"file", file}, {"bytes", bytes}}.dump() << std::endl;
    else
      std::cout << "wrote " << file << format(", %.2f MB\n", static_cast<double>(bytes) / 1e6);
  }
  return 0;
}

}  // namespace dlprim::cli
