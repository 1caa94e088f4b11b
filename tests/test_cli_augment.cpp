// Training images that are mirrored and moved by chance.
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "augment.hpp"
#include "catch.hpp"

using namespace dlprim::cli;

namespace {

using Image = std::vector<float>;

constexpr int64_t kHeight = 4, kWidth = 5;
const Image kBlack{-1, -2};

ImageForm form() {
  ImageForm f;
  f.colours = 2, f.height = kHeight, f.width = kWidth;
  return f;
}

/// All numbers differ.
Image numbered() {
  Image x;
  for (int64_t i = 0; i < form().numbers(); i++) x.push_back(static_cast<float>(i));
  return x;
}

Image moved(const Image& x, bool flip, int64_t down, int64_t right) {
  Image y;
  for (int64_t c = 0; c < 2; c++)
    for (int64_t i = 0; i < kHeight; i++)
      for (int64_t j = 0; j < kWidth; j++) {
        const int64_t row = i - down, column = j - right;
        const bool inside = row >= 0 && row < kHeight && column >= 0 && column < kWidth;
        const int64_t from = flip ? kWidth - 1 - column : column;
        y.push_back(inside ? x[static_cast<size_t>((c * kHeight + row) * kWidth + from)]
                           : kBlack[static_cast<size_t>(c)]);
      }
  return y;
}

Image augmented(const Augmentation& by, uint64_t epoch, uint64_t image) {
  Image x = numbered();
  augment(by, form(), epoch, image, x.data());
  return x;
}

}  // namespace

TEST_CASE("augmentation: images are mirrored and moved, as often one way as another") {
  for (const bool flip : {false, true})
    for (const int64_t shift : {0, 1, 3}) {
      CAPTURE(flip, shift);
      std::map<Image, int> seen;
      const int count = 3000;
      for (int i = 0; i < count; i++)
        seen[augmented({flip, shift, 7, kBlack}, 2, static_cast<uint64_t>(i))]++;
      size_t ways = 0;
      const auto wanted = static_cast<double>(count) /
                          static_cast<double>((flip ? 2 : 1) * (2 * shift + 1) * (2 * shift + 1));
      for (int mirrored = 0; mirrored <= (flip ? 1 : 0); mirrored++)
        for (int64_t down = -shift; down <= shift; down++)
          for (int64_t right = -shift; right <= shift; right++) {
            const auto found = seen.find(moved(numbered(), mirrored == 1, down, right));
            REQUIRE(found != seen.end());
            CHECK((found->second > 0.3 * wanted && found->second < 2 * wanted));
            ways++;
          }
      CHECK(seen.size() == ways);  // and nothing else
    }
}

TEST_CASE("augmentation: what an image becomes depends on the seed, the epoch and the image") {
  const Augmentation by{true, 2, 3, kBlack};
  CHECK(augmented(by, 1, 5) == augmented(by, 1, 5));
  std::set<Image> images, epochs, seeds;
  for (uint64_t i = 0; i < 20; i++) {
    images.insert(augmented(by, 1, i));
    epochs.insert(augmented(by, i, 5));
    seeds.insert(augmented({true, 2, i, kBlack}, 1, 5));
  }
  for (const auto* set : {&images, &epochs, &seeds}) CHECK(set->size() > 8);
}
