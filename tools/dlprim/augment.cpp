#include "augment.hpp"

#include <algorithm>
#include <random>

namespace dlprim::cli {

void augment(const Augmentation& by, const ImageForm& form, uint64_t epoch, uint64_t image, float* x) {
  if (!by.any()) return;
  std::seed_seq seed{by.seed, epoch, image};
  std::mt19937_64 random(seed);
  const bool flipped = by.flip && random() % 2 == 1;
  const auto moved = [&] {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(2 * by.shift + 1)) - by.shift;
  };
  const int64_t down = moved(), right = moved(), plane = form.height * form.width;
  std::vector<float> rows(static_cast<size_t>(plane));
  for (int64_t c = 0; c < form.colours; c++, x += plane) {
    const float black = by.black.at(static_cast<size_t>(c));
    std::copy_n(x, plane, rows.begin());
    for (int64_t i = 0; i < form.height; i++)
      for (int64_t j = 0; j < form.width; j++) {
        const int64_t row = i - down, seen = j - right, column = flipped ? form.width - 1 - seen : seen;
        const bool inside = row >= 0 && row < form.height && seen >= 0 && seen < form.width;
        x[i * form.width + j] = inside ? rows[static_cast<size_t>(row * form.width + column)] : black;
      }
  }
}

}  // namespace dlprim::cli
