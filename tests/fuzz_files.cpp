// Feeds broken files to the readers beside ONNX's: fuzz_files SECONDS SEED FILES... changes them at random
// and reads what comes of it, by the ends of their names: .npy, .npz, .png, .jpg, .safetensors, .json (models
// without a file of weights), .idx3 and .idx1 (three images of 4 x 4, and their labels). Nothing but
// dlprim::Error may be thrown; build it with sanitizers. The same seed makes the same files.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <unistd.h>

#include <dlprim/net_json.hpp>
#include <dlprim/safetensors.hpp>

#include "cases/fuzz.hpp"
#include "dataset.hpp"
#include "npy.hpp"
#include "picture.hpp"

using namespace dlprim;
using namespace dlprim::test::fuzz;

namespace {

/// For readers that want a file.
std::string written(const std::string& bytes) {
  static const std::string path =
      std::filesystem::temp_directory_path() / ("fuzz" + std::to_string(getpid()));
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

void read_safetensors(const std::string& bytes) {
  SafetensorsReader reader(written(bytes));
  for (const auto& entry : reader.entries()) reader.read(entry);
}

/// Images, or with `labels` those of three images.
void read_idx(const std::string& bytes, bool labels) {
  static const std::string folder = [] {
    const auto made = std::filesystem::temp_directory_path() / ("fuzz_idx" + std::to_string(getpid()));
    std::filesystem::create_directory(made);
    return made.string();
  }();
  const std::string images("\0\0\x08\3\0\0\0\3\0\0\0\4\0\0\0\4", 16), three("\0\0\x08\1\0\0\0\3", 8);
  std::ofstream(folder + "/train-images-idx3-ubyte", std::ios::binary)
      << (labels ? images + std::string(48, 'x') : bytes);
  std::ofstream(folder + "/train-labels-idx1-ubyte", std::ios::binary)
      << (labels ? bytes : three + std::string("\1\2\3", 3));
  cli::read_dataset(folder, "train");
}

/// Whether a whole file came of it.
bool read_as(const std::string& ending, const std::string& bytes) {
  try {
    if (ending == ".npy") cli::parse_npy("file", bytes);
    if (ending == ".npz") cli::parse_npz("file", bytes);
    if (ending == ".png" || ending == ".jpg") cli::resized(cli::parse_picture("file", bytes), 7, 5);
    if (ending == ".safetensors") read_safetensors(bytes);
    if (ending == ".json") load_json(written(bytes)).check();
    if (ending == ".idx3" || ending == ".idx1") read_idx(bytes, ending == ".idx1");
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "fuzz_files SECONDS SEED FILES...\n");
    return 2;
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[1]));
  Random random(std::strtoull(argv[2], nullptr, 10));
  std::vector<std::pair<std::string, std::string>> files;
  for (int i = 3; i < argc; i++)
    files.emplace_back(std::filesystem::path(argv[i]).extension(), file_of(argv[i]));
  long executions = 0, whole = 0;
  while (std::chrono::steady_clock::now() < end) {
    const auto& [ending, original] = files[below(random, files.size())];
    std::string bytes = original;
    for (size_t changes = 1 + below(random, 6); changes-- > 0;)
      mutate(bytes, files[below(random, files.size())].second, random);
    whole += read_as(ending, bytes);
    executions++;
  }
  std::printf("%ld executions, %ld files read\n", executions, whole);
  return 0;
}
