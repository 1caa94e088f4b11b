// What `dlprim read` is made of: regions of a map to boxes, boxes to pictures of lines, probabilities to
// text; and the whole with networks of a few nodes, whose answers are known.
#include <cmath>
#include <filesystem>
#include <limits>

#include <dlprim/onnx.hpp>

#include "cases/onnx_writer.hpp"
#include "catch.hpp"
#include "child.hpp"
#include "ctc_text.hpp"
#include "support.hpp"
#include "text_boxes.hpp"
#include "text_crop.hpp"
#include "text_reader.hpp"

using namespace dlprim;
using namespace dlprim::test;
using namespace dlprim::cli;
namespace writer = dlprim::test::onnx_writer;

namespace {

struct Rectangle {
  int64_t x, y, width, height;
};

/// A map of 0 with a rectangle of one value.
ProbabilityMap map_with(int64_t width, int64_t height, const std::vector<Rectangle>& rectangles,
                        float value) {
  ProbabilityMap map{width, height, std::vector<float>(static_cast<size_t>(width * height))};
  for (const Rectangle& r : rectangles)
    for (int64_t y = r.y; y < r.y + r.height; y++)
      for (int64_t x = r.x; x < r.x + r.width; x++) map.values[static_cast<size_t>(y * width + x)] = value;
  return map;
}

void check_quad(const Quad& made, const Quad& expected) {
  for (size_t i = 0; i < 4; i++) {
    CHECK(made[i].x == Approx(expected[i].x).margin(1e-9));
    CHECK(made[i].y == Approx(expected[i].y).margin(1e-9));
  }
}

Quad upright(double x, double y, double width, double height) {
  return {Point{x, y}, Point{x + width, y}, Point{x + width, y + height}, Point{x, y + height}};
}

/// The numbers 1, 2, 3, ... as pixels of a picture, a third apart in its colours.
Picture numbered(int64_t width, int64_t height) {
  Picture picture{width, height, {}};
  for (int64_t i = 0; i < width * height; i++)
    for (int64_t c = 0; c < 3; c++) picture.rgb.push_back(static_cast<unsigned char>(i + 1 + 80 * c));
  return picture;
}

/// The red of each pixel.
std::vector<int> reds(const Picture& picture) {
  std::vector<int> values;
  for (size_t i = 0; i < picture.rgb.size(); i += 3) values.push_back(picture.rgb[i]);
  return values;
}

}  // namespace

TEST_CASE("the convex hull has the outermost points, clockwise", "[small]") {
  const std::vector<Point> hull =
      convex_hull({{2, 2}, {0, 0}, {4, 0}, {2, 0}, {4, 4}, {0, 4}, {4, 4}, {1, 3}});
  REQUIRE(hull.size() == 4);
  check_quad({hull[0], hull[1], hull[2], hull[3]}, upright(0, 0, 4, 4));
  CHECK(convex_hull({{1, 1}, {1, 1}}).size() == 1);
  CHECK(convex_hull({{0, 0}, {1, 1}, {2, 2}}).size() == 2);
}

TEST_CASE("the smallest rectangle lies as its points do", "[small]") {
  check_quad(smallest_rectangle({{3, 2}, {13, 2}, {13, 6}, {3, 6}, {8, 4}}), upright(3, 2, 10, 4));
  // 10 x 5, turned by the angle of the triangle of 3, 4 and 5.
  const Quad askew{Point{10, 10}, Point{18, 16}, Point{15, 20}, Point{7, 14}};
  check_quad(smallest_rectangle({askew[2], askew[0], askew[3], askew[1], {12, 14}}), askew);
  // The other way, and steep: the side that is most nearly horizontal is the upper one.
  const Quad rising{Point{10, 10}, Point{18, 4}, Point{21, 8}, Point{13, 14}};
  check_quad(smallest_rectangle({rising[0], rising[1], rising[2], rising[3]}), rising);
  check_quad(smallest_rectangle({{10, 10}, {13, 14}, {5, 20}, {2, 16}}),
             {Point{2, 16}, Point{10, 10}, Point{13, 14}, Point{5, 20}});
  for (int i = 1; i <= 8; i++) {  // whichever of its equal sides is tried last
    const double by = i / 3.0;
    Quad steep{Point{6, 0}, Point{10, 3}, Point{4, 11}, Point{0, 8}};
    for (Point& p : steep) p = {p.x * by, p.y * by};
    check_quad(smallest_rectangle({steep[3], steep[0], steep[1], steep[2]}), steep);
  }
  check_quad(smallest_rectangle({{5, 7}}), upright(5, 7, 0, 0));
}

TEST_CASE("enlarging moves each side", "[small]") {
  check_quad(enlarged(upright(3, 2, 10, 4), 2), upright(1, 0, 14, 8));
  const Quad askew{Point{10, 10}, Point{18, 16}, Point{15, 20}, Point{7, 14}};
  check_quad(enlarged(askew, 5), {Point{9, 3}, Point{25, 15}, Point{16, 27}, Point{0, 15}});
}

TEST_CASE("a region becomes a box, enlarged by its area over its perimeter", "[small]") {
  const auto boxes = find_text(map_with(20, 12, {{3, 2, 10, 4}}, 0.75F));
  REQUIRE(boxes.size() == 1);
  CHECK(boxes[0].score == 0.75);
  const double d = 1.6 * 40 / 28;
  check_quad(boxes[0].corners, upright(3 - d, 2 - d, 10 + 2 * d, 4 + 2 * d));
  // At the map's edges too, and all of it.
  BoxRules plain;
  plain.growth = 0;
  for (const Rectangle& r : {Rectangle{0, 0, 5, 3}, Rectangle{15, 9, 5, 3}, Rectangle{0, 0, 20, 12}}) {
    const auto found = find_text(map_with(20, 12, {r}, 1), plain);
    REQUIRE(found.size() == 1);
    check_quad(found[0].corners, upright(static_cast<double>(r.x), static_cast<double>(r.y),
                                         static_cast<double>(r.width), static_cast<double>(r.height)));
  }
}

TEST_CASE("regions touch over sides and corners, and a hollow one is one", "[small]") {
  CHECK(find_text(map_with(20, 12, {{0, 0, 5, 4}, {5, 4, 5, 4}}, 1)).size() == 1);
  CHECK(find_text(map_with(20, 12, {{0, 0, 5, 4}, {6, 4, 5, 4}}, 1)).size() == 2);
  CHECK(find_text(map_with(20, 12, {{0, 0, 5, 4}, {5, 5, 5, 4}}, 1)).size() == 2);
  // Down to the left, and up again.
  CHECK(find_text(map_with(20, 12, {{10, 0, 5, 4}, {2, 3, 9, 4}}, 1)).size() == 1);
  CHECK(find_text(map_with(20, 12, {{0, 0, 3, 8}, {0, 6, 10, 3}, {8, 0, 3, 8}}, 1)).size() == 1);
  // The end of one row and the beginning of the next are no neighbours.
  CHECK(find_text(map_with(20, 12, {{0, 4, 5, 4}, {15, 3, 5, 4}}, 1)).size() == 2);
  ProbabilityMap hollow = map_with(20, 12, {{2, 2, 10, 8}}, 1);
  for (int64_t y = 4; y < 8; y++)
    for (int64_t x = 4; x < 10; x++) hollow.values[static_cast<size_t>(y * 20 + x)] = 0;
  const auto boxes = find_text(hollow);
  REQUIRE(boxes.size() == 1);
  CHECK(boxes[0].score == 1);  // the hole is no part of it
}

TEST_CASE("what is too thin, too low or no number is no text", "[small]") {
  CHECK(find_text({}).empty());
  CHECK(find_text(map_with(20, 12, {}, 0)).empty());
  CHECK(find_text(map_with(20, 12, {{3, 3, 10, 2}}, 1)).empty());
  CHECK(find_text(map_with(20, 12, {{3, 3, 10, 3}}, 1)).size() == 1);
  CHECK(find_text(map_with(20, 12, {{3, 3, 10, 3}}, 0.5F)).size() == 1);
  CHECK(find_text(map_with(20, 12, {{3, 3, 10, 3}}, 0.49F)).empty());
  BoxRules all;
  all.threshold = 0.25, all.least_score = 0;
  CHECK(find_text(map_with(20, 12, {{3, 3, 10, 3}}, 0.25F), all).empty());
  CHECK(find_text(map_with(20, 12, {{3, 3, 10, 3}}, 0.26F), all).size() == 1);
  CHECK(find_text(map_with(20, 12, {{3, 3, 10, 3}}, std::numeric_limits<float>::quiet_NaN())).empty());
}

TEST_CASE("boxes are read by rows, and from left to right", "[small]") {
  CHECK(reading_order({}).empty());
  // Two rows, the upper one slightly falling; the heights differ.
  CHECK(reading_order({upright(50, 21, 10, 10), upright(0, 40, 10, 10), upright(20, 24, 10, 8),
                       upright(0, 20, 10, 10), upright(50, 38, 10, 14)}) ==
        std::vector<size_t>{3, 2, 0, 1, 4});
  // Half the height lower is the next row.
  CHECK(reading_order({upright(50, 20, 10, 10), upright(0, 25, 10, 10)}) == std::vector<size_t>{0, 1});
  CHECK(reading_order({upright(50, 20, 10, 10), upright(0, 24, 10, 10)}) == std::vector<size_t>{1, 0});
}

TEST_CASE("CTC: repeated classes stand once, blanks part them", "[small]") {
  const std::vector<std::string> alphabet = ctc_alphabet("a\r\n\xc3\xa4\nb");
  CHECK(alphabet == std::vector<std::string>{"", "a", "\xc3\xa4", "b", " "});
  CHECK(ctc_alphabet("a\nb\n") == std::vector<std::string>{"", "a", "b", " "});
  const auto read = [&](const std::vector<int>& classes, const std::vector<float>& probabilities) {
    std::vector<float> rows(classes.size() * 5, 0.0625F);
    for (size_t i = 0; i < classes.size(); i++)
      rows[i * 5 + static_cast<size_t>(classes[i])] = probabilities[i];
    return ctc_read(rows.data(), static_cast<int64_t>(classes.size()), alphabet);
  };
  const ReadText word = read({0, 1, 1, 0, 1, 2, 2, 4, 3, 0}, {1, 0.5F, 1, 1, 0.75F, 1, 0.5F, 0.5F, 1, 1});
  CHECK(word.text == "aa\xc3\xa4 b");
  CHECK(word.score == (0.5 + 0.75 + 1 + 0.5 + 1) / 5);  // of repeated ones the first counts
  const ReadText nothing = read({0, 0}, {1, 1});
  CHECK((nothing.text.empty() && nothing.score == 0));
  CHECK(ctc_read(nullptr, 0, alphabet).text.empty());
  const std::vector<float> equal(5, 0.25F);
  CHECK(ctc_read(equal.data(), 1, alphabet).text.empty());
}

TEST_CASE("a box is cut out, turned if its text runs down, and its edge goes on", "[small]") {
  const Picture picture = numbered(5, 4);
  const Picture part = cut_out(picture, upright(1, 1, 3, 2));
  CHECK((part.width == 3 && part.height == 2));
  CHECK(reds(part) == std::vector<int>{7, 8, 9, 12, 13, 14});
  CHECK(part.rgb[1] == 7 + 80);
  CHECK(part.rgb[2] == 7 + 160);
  CHECK(reds(cut_out(picture, upright(-1, 0, 2, 2))) == std::vector<int>{1, 1, 6, 6});
  CHECK(reds(cut_out(picture, upright(4, 3, 2, 2))) == std::vector<int>{20, 20, 20, 20});
  const Picture tall = cut_out(picture, upright(1, 0, 2, 4));  // its right side becomes the upper one
  CHECK((tall.width == 4 && tall.height == 2));
  CHECK(reds(tall) == std::vector<int>{3, 8, 13, 18, 2, 7, 12, 17});
  CHECK(reds(turned(part)) == std::vector<int>{14, 13, 12, 9, 8, 7});
  CHECK(turned(part).rgb[2] == 14 + 160);
  CHECK_THAT(refusal([&] { cut_out(picture, upright(1, 1, 3, 0.25)); }),
             dlprim::test::contains("corners: the sides must be half a pixel or longer"));
}

TEST_CASE("pixels become planes of B, G and R from -1 to 1", "[small]") {
  const Picture picture{2, 1, {255, 51, 0, 0, 102, 204}};
  std::vector<float> planes(3 * 2 * 3, 7);
  put_planes(picture, 3, 2, planes.data());
  const std::vector<float> expected{-1, 0.6F, 7, 7, 7, 7, -0.6F, -0.2F, 7, 7, 7, 7, 1, -1, 7, 7, 7, 7};
  for (size_t i = 0; i < planes.size(); i++) CHECK(planes[i] == Approx(expected[i]).margin(1e-6));
}

namespace {

writer::Message floats(const std::string& name, const std::vector<int64_t>& sizes,
                       const std::vector<float>& values) {
  return writer::tensor(name, writer::ElementType::f32, sizes, writer::raw_bytes(values));
}
writer::Message whole(const std::string& name, const std::vector<int64_t>& values) {
  return writer::tensor(name, writer::ElementType::i64, {static_cast<int64_t>(values.size())},
                        writer::raw_bytes(values));
}

writer::Message network(const std::vector<writer::Message>& nodes,
                        const std::vector<writer::Message>& constants,
                        const std::vector<writer::Dimension>& output) {
  writer::Graph g;
  g.nodes = nodes;
  g.initializers = constants;
  g.inputs = {writer::value("x", writer::ElementType::f32, {"n", 3, "h", "w"})};
  g.outputs = {writer::value("y", writer::ElementType::f32, output)};
  return writer::model(writer::graph(g));
}

/// Text is where any colour is full.
writer::Message detector() {
  return network({writer::node("ReduceMax", {"x", "channels"}, {"y"})}, {whole("channels", {1})},
                 {"n", 1, "h", "w"});
}

/// Of the upper half of a line's columns: red reads "r", with the share of the height that it has, twice;
/// blue reads "b", with seven tenths of that; else nothing.
writer::Message recogniser(const std::string& characters = "r\nb\n") {
  std::vector<float> upper(48);
  for (size_t i = 0; i < 24; i++) upper[i] = 2;
  const std::vector<float> classes{0, -2, 1.4F, 0, 0, 0, 0, 0, 0, 2, -1.4F, 0};  // of B, G and R
  return network(
             {writer::node("Mul", {"x", "upper"}, {"u"}),
              writer::node("ReduceMean", {"u", "rows"}, {"m"}, {writer::attribute("keepdims", 0)}),
              writer::node("Transpose", {"m"}, {"t"},
                           {writer::attribute("perm", std::vector<int64_t>{0, 2, 1})}),
              writer::node("MatMul", {"t", "classes"}, {"p"}), writer::node("Add", {"p", "blank"}, {"y"})},
             {floats("upper", {1, 1, 48, 1}, upper), whole("rows", {2}), floats("classes", {3, 4}, classes),
              floats("blank", {4}, {0.6F, 0, 0, 0})},
             {"n", "w", 4})
      .message(14, writer::entry("character", characters));
}

/// All lines stand upside down.
writer::Message classifier() {
  return network(
      {writer::node("ReduceMean", {"x", "plane"}, {"m"}, {writer::attribute("keepdims", 0)}),
       writer::node("MatMul", {"m", "none"}, {"p"}), writer::node("Add", {"p", "turned"}, {"y"})},
      {whole("plane", {2, 3}), floats("none", {3, 2}, std::vector<float>(6)), floats("turned", {2}, {0, 1})},
      {"n", 2});
}

Model made(const writer::Message& message) {
  return Model(onnx::parse_graph(message.bytes()));
}

TextModels models() {
  return {made(detector()), made(recogniser()), std::nullopt, ctc_alphabet("r\nb\n")};
}

/// Black, of a size that the detector sees as it is.
Picture page() {
  return {1472, 736, std::vector<unsigned char>(1472 * 736 * 3)};
}
void paint(Picture& picture, const Rectangle& r, size_t colour) {
  for (int64_t y = r.y; y < r.y + r.height; y++)
    for (int64_t x = r.x; x < r.x + r.width; x++)
      picture.rgb[static_cast<size_t>((y * picture.width + x) * 3) + colour] = 255;
}

constexpr size_t kRed = 0, kBlue = 2;

}  // namespace

TEST_CASE("read: the lines of a page, by networks whose answers are known") {
  Picture picture = page();
  paint(picture, {100, 400, 100, 40}, kRed);
  paint(picture, {200, 400, 100, 40}, kBlue);
  paint(picture, {100, 100, 200, 40}, kRed);
  paint(picture, {600, 110, 200, 40}, kBlue);
  const std::vector<TextLine> lines = read_text(stream(), models(), picture);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].text == "r");
  CHECK(lines[1].text == "b");
  CHECK(lines[2].text == "rb");
  const double d = 1.6 * 200 * 40 / 480, share = 40 / (40 + 2 * d);
  check_quad(lines[0].corners, upright(100 - d, 100 - d, 200 + 2 * d, 40 + 2 * d));
  check_quad(lines[1].corners, upright(600 - d, 110 - d, 200 + 2 * d, 40 + 2 * d));
  // That of the first step, a little less: the edge is soft.
  CHECK(lines[0].score == Approx(4 * share).epsilon(0.1));
  CHECK(lines[1].score == Approx(2.8 * share).epsilon(0.1));
  CHECK(read_text(stream(), models(), page()).empty());
}

TEST_CASE("read: a smaller picture is enlarged for the detector, and boxes are its own") {
  Picture picture{368, 184, std::vector<unsigned char>(368 * 184 * 3)};
  paint(picture, {25, 25, 50, 10}, kRed);
  const std::vector<TextLine> lines = read_text(stream(), models(), picture);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].text == "r");
  const double d = 1.6 * 50 * 10 / 120;
  // Along soft edges 0.65 of full brightness is text.
  CHECK(lines[0].corners[0].x == Approx(25 - d).margin(0.7));
  CHECK(lines[0].corners[2].y == Approx(35 + d).margin(0.7));
}

TEST_CASE("read: what the detector looks at is neither small nor very long") {
  Picture large{1472, 960, std::vector<unsigned char>(1472 * 960 * 3)};
  paint(large, {100, 700, 200, 40}, kRed);
  const std::vector<TextLine> lines = read_text(stream(), models(), large);
  REQUIRE(lines.size() == 1);
  const double d = 1.6 * 200 * 40 / 480;
  check_quad(lines[0].corners, upright(100 - d, 700 - d, 200 + 2 * d, 40 + 2 * d));
  // A detector that is none tells the size.
  TextModels none = models();
  none.detector = made(network({writer::node("Relu", {"x"}, {"y"})}, {}, {"n", 3, "h", "w"}));
  const auto seen = [&](int64_t width, int64_t height) {
    const Picture picture{width, height, std::vector<unsigned char>(static_cast<size_t>(width * height * 3))};
    const std::string text = refusal([&] { read_text(stream(), none, picture); });
    return text.substr(text.find(" for a picture of "));
  };
  CHECK(seen(1, 1) == " for a picture of [1, 3, 736, 736]");
  CHECK(seen(384, 191) == " for a picture of [1, 3, 736, 1472]");
  CHECK(seen(8000, 200) == " for a picture of [1, 3, 64, 2016]");
  CHECK(seen(1, 3000) == " for a picture of [1, 3, 2016, 32]");
}

TEST_CASE("read: of lines that may be upside down the better reading stays") {
  Picture picture = page();
  paint(picture, {100, 100, 200, 20}, kBlue);
  paint(picture, {100, 120, 200, 20}, kRed);
  paint(picture, {100, 400, 200, 20}, kRed);
  paint(picture, {100, 420, 200, 20}, kBlue);
  TextModels some = models();
  const auto texts = [&] {
    std::string all;
    for (const TextLine& line : read_text(stream(), some, picture)) all += line.text + "\n";
    return all;
  };
  CHECK(texts() == "b\nr\n");
  some.classifier = made(classifier());
  CHECK(texts() == "r\nr\n");
}

TEST_CASE("read: many lines in several batches stay in order") {
  Picture picture = page();
  std::string expected;
  for (int64_t i = 0; i < 19; i++) {  // lengths fall and rise; a batch has those of similar length
    const bool red = i % 3 != 0;
    paint(picture, {40 + (i % 3) * 480, 20 + (i / 3) * 104, 100 + 60 * (i % 5), 20}, red ? kRed : kBlue);
    expected += red ? "r" : "b";
  }
  std::string text;
  for (const TextLine& line : read_text(stream(), models(), picture)) text += line.text;
  CHECK(text == expected);
}

TEST_CASE("read: networks of another kind are refused") {
  Picture picture = page();
  paint(picture, {100, 100, 200, 40}, kRed);
  const auto refused = [&](const TextModels& models) {
    return refusal([&] { read_text(stream(), models, picture); });
  };
  TextModels some = models();
  some.detector = made(classifier());
  CHECK(refused(some) ==
        "models: the detector gives f32[1, 2] for [1, 3, 736, 1472], not f32 of 4 dimensions, "
        "the first as of its input");
  some.detector = made(network({writer::node("Relu", {"x"}, {"y"})}, {}, {"n", 3, "h", "w"}));
  CHECK(refused(some) == "models: the detector gives [1, 3, 736, 1472] for a picture of [1, 3, 736, 1472]");
  some = models();
  some.alphabet.emplace_back("c");
  CHECK(refused(some) == "models: the recogniser knows 4 classes, but its alphabet has 5");
}

TEST_CASE("read: models are found by words of their names") {
  const TempDir folder;
  const auto refused = [&](const std::string& path) {
    return refusal([&] { load_text_models(path, false); });
  };
  const std::string path = folder.path().string();
  CHECK(refused(path + "/none") == "models: '" + path + "/none' is no folder");
  const std::string no_detector =
      "models: '" + path +
      "' holds no detector: an ONNX file with 'det' as a word of its name, such as "
      "ch_PP-OCRv4_det_infer.onnx";
  CHECK(refused(path) == no_detector);
  put(folder / "detail.onnx", "not this one");
  put(folder / "det.txt", "nor this");
  CHECK(refused(path) == no_detector);
  put(folder / "ch_det_infer.onnx", detector().bytes());
  CHECK_THAT(refused(path), dlprim::test::contains("holds no recogniser: an ONNX file with 'rec'"));
  put(folder / "rec2.onnx", recogniser().bytes());
  CHECK(!load_text_models(path, false).classifier);
  put(folder / "cls.onnx", classifier().bytes());
  CHECK(load_text_models(path, false).classifier);
  CHECK(!load_text_models(path, true).classifier);
  CHECK(load_text_models(path, true).alphabet == std::vector<std::string>{"", "r", "b", " "});
  put(folder / "rec2.onnx", detector().bytes());
  CHECK(refused(path) == "models: '" + path +
                             "/rec2.onnx' does not tell its alphabet: its metadata have no "
                             "'character'");
  put(folder / "det-2.onnx", detector().bytes());
  CHECK(refused(path) ==
        "models: '" + path +
            "' holds more than one model with 'det' in its name: ch_det_infer.onnx, det-2.onnx");
}
