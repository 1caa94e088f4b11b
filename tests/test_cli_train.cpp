// `dlprim train MODEL DATA`, run as a user runs it: on IDX files and on folders of pictures written here.
#include <filesystem>
#include <nlohmann/json.hpp>

#include <dlprim/net_host.hpp>
#include <dlprim/net_json.hpp>

#include "cases/graph.hpp"
#include "catch.hpp"
#include "child.hpp"
#include "cli.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

/// Images of 6 x 6 whose bright row is their label, 0 to 4.
void write_part(const std::filesystem::path& folder, const std::string& part, uint32_t count, uint64_t seed) {
  Rng rng(seed);
  std::string pixels, labels;
  for (uint32_t i = 0; i < count; i++) {
    const int64_t label = rng.integer(0, 4);
    labels += static_cast<char>(label);
    for (int64_t p = 0; p < 36; p++)
      pixels += static_cast<char>(rng.integer(0, 80) + (p / 6 == label + 1 ? 150 : 0));
  }
  put(folder / (part + "-images-idx3-ubyte"), idx({count, 6, 6}, pixels));
  put(folder / (part + "-labels-idx1-ubyte"), idx({count}, labels));
}

/// Grey images of any size, a convolution, BatchNorm, and a product over a 6 x 6 plane.
void write_model(const std::string& path) {
  NetGraph g;
  Rng rng(4);
  const auto parameter = [&](const char* name, const Shape& shape, double low, double high) {
    return add_parameter(g, rng, name, shape, low, high);
  };
  const int x = g.add_input("image", DType::f32, {{-1, "batch"}, {1}, {6}, {6}});
  int h = g.add("conv", {x, parameter("conv.weight", {4, 1, 3, 3}, -0.5, 0.5)},
                {{"pad_begin", Attribute::Integers{1, 1}}});
  h = g.add("batch_norm", {h, parameter("bn.weight", {4}, 1, 1), parameter("bn.bias", {4}, 0, 0),
                           parameter("bn.mean", {4}, 0, 0), parameter("bn.var", {4}, 1, 1)});
  h = g.add("flatten", {g.add("elementwise", {h}, {{"function", "relu"}})});
  g.add_output("scores", g.add("matmul", {h, parameter("fc.weight", {144, 10}, -0.1, 0.1),
                                          parameter("fc.bias", {10}, 0, 0)}));
  save_json(path, g);
}

struct Files {
  TempDir folder;
  Files() {
    write_part(folder.path(), "train", 330, 1);
    write_part(folder.path(), "t10k", 70, 2);
    write_model(folder / "model.json");
  }
  std::string train(const std::string& out, const std::string& more) const {
    return "train '" + (folder / "model.json") + "' '" + folder.path().string() + "'" + device_option() +
           " --pixels unit --batch 20 --lr 0.01 --schedule constant --out '" + (folder / out) + "' " + more;
  }
};

std::vector<nlohmann::json> records(const std::string& text) {
  std::vector<nlohmann::json> list;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (text[at] == '{') list.push_back(nlohmann::json::parse(text.substr(at, end - at)));
    at = end + 1;
  }
  return list;
}

}  // namespace

TEST_CASE("a model learns from IDX files, and goes on after a break with the same bits", "[cli_train]") {
  const Files files;
  const Result whole = run(files.train("whole", "--epochs 4 --json --accumulate 2 --clip 1"));
  INFO(whole.err);
  REQUIRE(whole.code == 0);
  const auto epochs = records(whole.out);
  REQUIRE(epochs.size() == 4);
  CHECK(epochs[3]["test_accuracy"] > 0.9);
  CHECK(epochs[3]["train_loss"] < epochs[0]["train_loss"]);
  CHECK(epochs[3]["updates"] == 32);

  REQUIRE(run(files.train("part", "--epochs 2 --accumulate 2 --clip 1")).code == 0);
  const Result rest = run(files.train("rest", "--epochs 4 --accumulate 2 --clip 1 --resume '" +
                                                  (files.folder / "part/checkpoint.safetensors") + "'"));
  REQUIRE(rest.code == 0);
  CHECK_THAT(rest.out, Catch::Contains("resumed after epoch 2"));
  for (const char* file : {"model.safetensors", "model.json"}) {
    const std::string bytes = bytes_of(files.folder / (std::string("whole/") + file));
    CHECK(!bytes.empty());
    CHECK(bytes == bytes_of(files.folder / (std::string("rest/") + file)));
  }
  // Another solver's states mean something else, also where there are as many.
  const auto resumed = [&](const std::string& more) {
    const Result result = run(files.train(
        "other", "--epochs 4 --resume '" + (files.folder / "part/checkpoint.safetensors") + "' " + more));
    CHECK(result.code == 1);
    return complaint(result);
  };
  for (const auto& [solver, text] :
       {std::pair("sgd", "sgd, momentum"), std::pair("adamw", "adam, decoupled")})
    CHECK_THAT(
        resumed(std::string("--solver ") + solver),
        Catch::Contains(std::string("was written with the optimizer adam; this trainer's is ") + text));
  CHECK_THAT(resumed("--dtype f16"),
             Catch::Contains("was written without a scaled loss; this trainer has one"));
  // What was written runs.
  CHECK(run("run '" + (files.folder / "rest/model.json") + "'" + device_option() + " --shape 2x1x6x6").code ==
        0);
}

TEST_CASE("images that are mirrored and moved train the same each time, and are tested as they are",
          "[cli_train]") {
  const Files files;
  const std::string more = "--epochs 2 --json --flip --shift 1";
  const Result first = run(files.train("first", more)), again = run(files.train("again", more)),
               plain = run(files.train("plain", "--epochs 2 --json"));
  INFO(first.err);
  REQUIRE(first.code == 0);
  const std::string weights = bytes_of(files.folder / "first/model.safetensors");
  CHECK(!weights.empty());
  CHECK(weights == bytes_of(files.folder / "again/model.safetensors"));
  CHECK(weights != bytes_of(files.folder / "plain/model.safetensors"));
  CHECK(records(first.out).at(1)["train_loss"] > records(plain.out).at(1)["train_loss"]);  // rows move
  const Result refused = run(files.train("none", "--shift 6"));
  CHECK(refused.code != 0);
  CHECK_THAT(complaint(refused), Catch::Contains("--shift 6 leaves nothing of images of 6 x 6"));
}

TEST_CASE("a network by name learns from folders of pictures", "[cli_train]") {
  const TempDir folder;
  const std::string png = one_pixel_png();
  for (const char* kind : {"cat", "dog"}) {
    std::filesystem::create_directories(folder.path() / kind);
    for (int i = 0; i < 10; i++) put(folder / (std::string(kind) + "/" + std::to_string(i) + ".png"), png);
  }
  const std::string train = "train squeezenet1_0 '" + folder.path().string() + "'" + device_option();
  const Result result = run(train + " --size 33 --batch 4 --epochs 1 --out '" + (folder / "out") + "'");
  INFO(result.err << result.out);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Catch::Contains("18 training and 2 test images of 2 classes, 1 x 1, as 33 x 33"));
  put(folder / "dog/3.png", png.substr(0, 50));
  const Result broken = run(train + " --size 33 --batch 4 --epochs 1 --out '" + (folder / "out") + "'");
  CHECK(broken.code != 0);
  CHECK_THAT(complaint(broken), Catch::Contains("3.png"));
}

TEST_CASE("what cannot be trained on is told", "[cli_train]") {
  const Files files;
  const TempDir empty;
  const auto refused = [&](const std::string& arguments) {
    const Result result = run(arguments);
    CHECK(result.code != 0);
    return complaint(result);
  };
  const std::string model = "train '" + (files.folder / "model.json") + "' ";
  CHECK_THAT(refused(model + "'" + empty.path().string() + "'" + device_option()),
             Catch::Contains("neither train-images-idx3-ubyte nor a folder"));
  CHECK_THAT(refused(model + "/no/such/folder" + device_option()), Catch::Contains("is no folder"));
  CHECK_THAT(refused("train gpt2 '" + files.folder.path().string() + "'" + device_option()),
             Catch::Contains("must take one input, images"));
  CHECK(run("train '" + (files.folder / "model.json") + "'").code > 100);
  CHECK(run("train --accumulate 2").code > 100);
  CHECK(run("train --solver adamw").code > 100);
  CHECK(run(files.train("x", "--data " + empty.path().string())).code > 100);
  CHECK_THAT(refused(files.train("x", "--epochs 1 --resume '" + (files.folder / "model.safetensors") + "'")),
             Catch::Contains("is no checkpoint of a Trainer"));
  CHECK_THAT(refused(files.train("x", "--epochs 1 --accumulate 100")),
             Catch::Contains("330 training images make no update"));
}
