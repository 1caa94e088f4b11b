// Labelled grey images on the host, read from the IDX files that MNIST and Fashion-MNIST come as.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dlprim::cli {

constexpr int64_t kClasses = 10;

struct Dataset {
  int64_t count = 0, rows = 0, columns = 0;
  std::vector<unsigned char> pixels;  ///< count x rows x columns
  std::vector<unsigned char> labels;  ///< below kClasses

  int64_t image_size() const { return rows * columns; }
};

/// Reads `directory`/`part`-images-idx3-ubyte and -labels-idx1-ubyte; each may be gzipped and end in ".gz".
/// `part` is "train" or "t10k". Throws dlprim::Error, naming the file and what is wrong with it.
Dataset read_dataset(const std::string& directory, const std::string& part);

/// The numbers 0 to count-1 in an order that depends on the seed and the epoch alone, the same on every
/// machine.
std::vector<uint32_t> shuffled(int64_t count, uint64_t seed, int64_t epoch);

}  // namespace dlprim::cli
