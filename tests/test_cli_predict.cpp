// Pictures in `dlprim train`, `run`, `predict` and `eval`: a model's file says how they become its input;
// files that cannot be read are told before training starts; pictures are turned as EXIF says.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include <dlprim/net_images.hpp>
#include <dlprim/net_json.hpp>

#include "cases/graph.hpp"
#include "catch.hpp"
#include "child.hpp"
#include "cli.hpp"
#include "pictures.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kClasses = {"broad", "fine", "middle"};

/// Upright stripes, 3, 12 or 6 across the picture, from a place by chance: what a picture is when it is 32
/// wide it is at no other size.
std::string photo(const std::string& kind, int width, int height, Rng& rng) {
  const double stripes = kind == "broad" ? 3 : kind == "middle" ? 6 : 12, from = rng.real(0, 6.28);
  return png_picture(width, height, [&](int x, int) {
    const double v = 128 + 100 * std::sin(from + 6.283185 * stripes * (x + 0.5) / width);
    const auto byte = static_cast<unsigned char>(v);
    return Colour{byte, byte, static_cast<unsigned char>(byte / 2)};
  });
}

/// Photos of each class in a folder of its own, of odd sizes.
void write_photos(const fs::path& root, int count, uint64_t seed) {
  Rng rng(seed);
  for (const std::string& kind : kClasses) {
    fs::create_directories(root / kind);
    for (int i = 0; i < count; i++)
      put(root / kind / (std::to_string(i) + ".png"), photo(kind, 150 + 10 * (i % 3), 40 + i % 5, rng));
  }
}

/// Images of any size: a convolution, the mean of each channel, a product.
void write_model(const std::string& path, int64_t colours = 3) {
  NetGraph g;
  Rng rng(4);
  const auto parameter = [&](const char* name, const Shape& shape, double bound) {
    return add_parameter(g, rng, name, shape, -bound, bound);
  };
  const int x = g.add_input("image", DType::f32, {{-1, "batch"}, {colours}, {-1, "height"}, {-1, "width"}});
  int h = g.add("conv", {x, parameter("conv.weight", {16, colours, 5, 5}, 0.2)},
                {{"pad_begin", Attribute::Integers{2, 2}}});
  h = g.add("elementwise", {h}, {{"function", "relu"}});
  h = g.add("reduce", {h}, {{"function", "mean"}, {"axes", Attribute::Integers{2, 3}}, {"keep", 0}});
  g.add_output("scores",
               g.add("matmul", {h, parameter("fc.weight", {16, 3}, 0.5), parameter("fc.bias", {3}, 0.1)}));
  save_json(path, g);
}

std::vector<nlohmann::json> records(const std::string& text) {
  std::vector<nlohmann::json> list;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) list.push_back(nlohmann::json::parse(line));
  return list;
}

std::string quoted(const std::string& path) {
  return " '" + path + "' ";
}

}  // namespace

TEST_CASE("a trained model classifies photos of any size as in training", "[cli_predict]") {
  const TempDir folder;
  write_photos(folder.path() / "photos", 20, 1);
  write_photos(folder.path() / "new", 4, 2);
  write_model(folder / "net.json");
  const Result trained = run(
      "train" + quoted(folder / "net.json") + quoted(folder / "photos") + device_option() +
      " --size 32 --pixels centred --batch 18 --epochs 30 --lr 0.02 --json --out" + quoted(folder / "out"));
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const std::vector<nlohmann::json> epochs = records(trained.out);  // nothing but JSON
  REQUIRE(epochs.size() == 30);
  REQUIRE(epochs.back()["test_accuracy"] == 1);
  CHECK(epochs[0]["compile_seconds"] > 0);
  CHECK(epochs[1]["compile_seconds"] == 0);
  CHECK(epochs[1]["images_per_second"] > 0);

  const std::string model = folder / "out/model.json";
  const std::optional<ImageInput> images = image_input(load_json(model));
  REQUIRE(images);
  CHECK((images->channels == 3 && images->height == 32 && images->width == 32));
  CHECK((images->mean == std::vector<double>(3, 0.5) && images->deviation == std::vector<double>(3, 0.5)));
  CHECK(images->classes == kClasses);

  int right = 0;
  for (const std::string& kind : kClasses)
    for (int i = 0; i < 4; i++) {
      const Result one = run("run" + quoted(model) + device_option() + " --json --input" +
                             quoted(folder / ("new/" + kind + "/" + std::to_string(i) + ".png")));
      REQUIRE(one.code == 0);
      CHECK_THAT(one.err, Catch::Contains("resized to 32 x 32") &&
                              Catch::Contains("v / 127.5 - 1, as the model's file"));
      right += records(one.out).at(0)["top"][0][0]["label"] == kind;
    }
  CHECK(right == 12);

  const Result predicted = run("predict" + quoted(model) + quoted(folder / "new") + device_option() +
                               " --json --batch 5 --topk 2 --save" + quoted(folder / "a.csv") + "--save" +
                               quoted(folder / "a.json"));
  INFO(predicted.err);
  REQUIRE(predicted.code == 0);
  CHECK_THAT(predicted.err,
             Catch::Contains("pictures become 3 x 32 x 32, RGB, each byte v as v / 127.5 - 1"));
  const std::vector<nlohmann::json> lines = records(predicted.out);
  REQUIRE(lines.size() == 12);
  for (const nlohmann::json& line : lines) {
    CHECK(fs::path(line["file"].get<std::string>()).parent_path().filename().string() ==
          line["predictions"][0]["label"].get<std::string>());
    CHECK(line["predictions"].size() == 2);
    CHECK(line["predictions"][0]["probability"] > 0.5);
  }
  CHECK(nlohmann::json::parse(bytes_of(folder / "a.json")) == nlohmann::json(lines));
  const std::string csv = bytes_of(folder / "a.csv");
  CHECK(csv.rfind("file,rank,class,label,score,probability,error\n", 0) == 0);
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 25);
  CHECK_THAT(csv, Catch::Contains("broad/0.png,1,0,broad,"));

  const Result measured =
      run("eval" + quoted(model) + quoted(folder / "photos") + device_option() + " --json");
  REQUIRE(measured.code == 0);
  CHECK(records(measured.out).at(0)["test_accuracy"] == 1);
  CHECK(records(measured.out).at(0)["images"] == 6);
  CHECK_THAT(run("bench" + quoted(model) + device_option() + " --seconds 0.1").err,
             Catch::Contains("[1, 3, 32, 32] is taken, with the sizes of pictures from the model's file"));
  // Trained on, it keeps its size and its rule.
  const Result again = run("train" + quoted(model) + quoted(folder / "photos") + device_option() +
                           " --epochs 1 --batch 18 --lr 1e-6 --out" + quoted(folder / "again"));
  CHECK(again.code == 0);
  CHECK_THAT(again.out, Catch::Contains("as 32 x 32") && Catch::Contains("v / 127.5 - 1"));
}

TEST_CASE("a picture that cannot be read is told before training starts", "[cli_predict]") {
  const TempDir folder;
  write_photos(folder.path() / "photos", 10, 1);
  write_model(folder / "net.json");
  fs::create_directories(folder.path() / "photos/.empty");
  const std::string whole = jpeg_picture(64, 48, [](int x, int y) {
    return Colour{static_cast<unsigned char>(4 * x), static_cast<unsigned char>(5 * y), 0};
  });
  put(folder / "photos/fine/cut.jpg", whole.substr(0, whole.size() * 2 / 3));
  put(folder / "photos/broad/text.png", "hello");
  put(folder / "photos/broad/notes.txt", "hello");
  const std::string train = "train" + quoted(folder / "net.json") + quoted(folder / "photos") +
                            device_option() + " --size 32 --batch 18 --epochs 1 --out" +
                            quoted(folder / "out");
  const Result refused = run(train);
  CHECK(refused.code == 2);
  CHECK_THAT(complaint(refused), Catch::Contains("2 of 32 pictures") && Catch::Contains("cut.jpg") &&
                                     Catch::Contains("text.png") && Catch::Contains("--skip-bad"));
  CHECK(!fs::exists(folder.path() / "out"));
  const Result skipped = run(train + " --skip-bad");
  INFO(skipped.err);
  CHECK(skipped.code == 0);
  CHECK_THAT(skipped.err, Catch::Contains("2 of 32 pictures") && Catch::Contains("cut.jpg") &&
                              Catch::Contains("'.empty' is no class") &&
                              Catch::Contains("1 files are left out"));
  CHECK_THAT(skipped.out, Catch::Contains("27 training and 3 test images of 3 classes"));
  const Result predicted =
      run("predict" + quoted(folder / "out/model.json") + quoted(folder / "photos/fine") + device_option() +
          " --save" + quoted(folder / "a.csv"));
  CHECK(predicted.code == 1);
  CHECK_THAT(predicted.err,
             Catch::Contains("cut.jpg") && Catch::Contains("1 of 11 pictures could not be read"));
  CHECK_THAT(bytes_of(folder / "a.csv"), Catch::Contains("cut.jpg,,,,,,"));
}

TEST_CASE("a cut JPEG is refused wherever it ends", "[cli_predict]") {
  const TempDir folder;
  write_model(folder / "net.json");
  fs::create_directories(folder.path() / "cut");
  int count = 0;
  for (const bool progressive : {false, true}) {
    const std::string whole = jpeg_picture(
        64, 48,
        [](int x, int y) {
          return Colour{static_cast<unsigned char>(x * y), static_cast<unsigned char>(x), 9};
        },
        0, progressive);
    for (const double share : {0.3, 0.7, 0.99, 1.0})
      put(folder / ("cut/" + std::to_string(count++) + ".jpg"),
          whole.substr(0, share == 1 ? whole.size() - 2
                                     : static_cast<size_t>(share * static_cast<double>(whole.size()))));
  }
  const Result result = run("predict" + quoted(folder / "net.json") + quoted(folder / "cut") +
                            device_option() + " --size 32 --json");
  CHECK(result.code == 1);
  for (const nlohmann::json& line : records(result.out)) {
    INFO(line.dump());
    CHECK(line.count("error") == 1);
  }
}

TEST_CASE("pictures are turned as EXIF says", "[cli_predict]") {
  // Seen upright: 4 x 3 blocks of 16 pixels, each of its own brightness.
  const auto seen = [](int x, int y) { return 20 + 20 * (x + 4 * y); };
  const TempDir folder;
  NetGraph g;
  g.add_output("y", g.add("elementwise", {g.add_input("x", DType::f32, {{1}, {1}, {-1}, {-1}})},
                          {{"function", "neg"}}));
  save_json(folder / "net.json", g);
  for (int orientation = 1; orientation <= 8; orientation++) {
    const bool swapped = orientation >= 5;
    const int width = swapped ? 3 : 4, height = swapped ? 4 : 3;
    // As EXIF's table has it: where the stored row 0 and column 0 are seen.
    const auto stored = [&](int px, int py) {
      const int x = px / 16, y = py / 16, right = width - 1 - x, below = height - 1 - y;
      const int bright = orientation == 1   ? seen(x, y)
                         : orientation == 2 ? seen(right, y)
                         : orientation == 3 ? seen(right, below)
                         : orientation == 4 ? seen(x, below)
                         : orientation == 5 ? seen(y, x)
                         : orientation == 6 ? seen(below, x)
                         : orientation == 7 ? seen(below, right)
                                            : seen(y, right);
      return Colour{static_cast<unsigned char>(bright), static_cast<unsigned char>(bright),
                    static_cast<unsigned char>(bright)};
    };
    put(folder / "p.png", png_picture(16 * width, 16 * height, stored, orientation));
    put(folder / "p.jpg", jpeg_picture(16 * width, 16 * height, stored, orientation));
    for (const char* name : {"p.png", "p.jpg"}) {
      CAPTURE(orientation, name);
      REQUIRE(run("run" + quoted(folder / "net.json") + device_option() + " --pixels bytes --input" +
                  quoted(folder / name) + "--save" + quoted(folder / "out"))
                  .code == 0);
      const std::string npy = bytes_of(folder / "out/y.npy");
      REQUIRE_THAT(npy, Catch::Contains("(1, 1, 48, 64, )"));
      std::vector<float> y(48 * 64);
      std::memcpy(y.data(), npy.data() + npy.size() - y.size() * sizeof(float), y.size() * sizeof(float));
      double most = 0;
      for (int i = 0; i < 48; i++)
        for (int j = 0; j < 64; j++)
          most =
              std::max(most, std::fabs(-double{y[static_cast<size_t>(i * 64 + j)]} - seen(j / 16, i / 16)));
      CHECK(most <= (std::string(name) == "p.png" ? 0 : 2));  // JPEG rounds
    }
  }
}

TEST_CASE("a description of pictures is checked as it is written and read", "[cli_predict]") {
  NetGraph g;
  CHECK(!image_input(g));
  const ImageInput good{3, 7, 9, {0.1, 0.2, 1.0 / 3}, {1, 2, 1e-3}, {"a b", "c,d"}};
  set_image_input(g, good);
  const ImageInput back = image_input(g).value();
  CHECK((back.channels == 3 && back.height == 7 && back.width == 9));
  CHECK((back.mean == good.mean && back.deviation == good.deviation && back.classes == good.classes));
  const auto refusal = [&](const std::function<void(ImageInput&)>& change) {
    ImageInput bad = good;
    change(bad);
    return error_of<ValidationError>([&] { set_image_input(g, bad); });
  };
  CHECK(refusal([](ImageInput& i) { i.channels = 4; }) == "channels: 4 must be 1 or 3");
  CHECK(refusal([](ImageInput& i) { i.height = 0; }) == "height: 0 must be 1 to 65536");
  CHECK(refusal([](ImageInput& i) { i.mean.pop_back(); }) == "mean: there are 2 numbers for 3 channels");
  CHECK(refusal([](ImageInput& i) { i.deviation[1] = 0; }) == "deviation: 0 must not be there");
  CHECK_THAT(refusal([](ImageInput& i) { i.classes[1] = "a\nb"; }), Catch::Contains("class 1"));
  const auto broken = [&](const char* key, const char* text) {
    NetGraph other = g;
    other.metadata[key] = text;
    return error_of<ValidationError>([&] { image_input(other); });
  };
  CHECK_THAT(broken("dlprim.image", "3 x 4"), Catch::Contains("'dlprim.image'"));
  CHECK_THAT(broken("dlprim.image", "3 4"), Catch::Contains("CHANNELS HEIGHT WIDTH"));
  CHECK_THAT(broken("dlprim.image.mean", "1 2 three"), Catch::Contains("'dlprim.image.mean' is '1 2 three'"));
  CHECK_THAT(broken("dlprim.image.deviation", "0 1 1"), Catch::Contains("0 must not be there"));
}
