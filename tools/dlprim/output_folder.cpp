#include "output_folder.hpp"

#include <fstream>

#include <dlprim/error.hpp>

namespace dlprim::cli {

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw Error("cannot write '" + path.string() + "'");
}

std::filesystem::path prepare_output(const std::string& out) {
  const std::filesystem::path directory(out);
  std::error_code code;
  std::filesystem::create_directories(directory, code);
  if (!std::filesystem::is_directory(directory, code)) throw Error("cannot make the directory '" + out + "'");
  const std::filesystem::path probe = directory / ".dlprim-write-test";
  write_file(probe, "");
  std::filesystem::remove(probe, code);
  return directory;
}

}  // namespace dlprim::cli
