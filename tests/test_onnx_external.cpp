// Data beside a model: what is read, and every way in which a model of other importers could name a file that
// did not come with it.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "catch.hpp"
#include "child.hpp"
#include "onnx/external.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::onnx;
using namespace dlprim::test;
namespace fs = std::filesystem;

namespace {

TensorMessage external(const std::vector<Entry>& entries) {
  TensorMessage tensor;
  tensor.name = "w";
  tensor.is_external = true;
  tensor.external = entries;
  return tensor;
}
TensorMessage at(const std::string& location) {
  return external({{"location", location}});
}

/// secret (4 bytes) beside the folder model/, in which model.onnx and w.bin ("0123456789") are.
class Layout {
 public:
  Layout() {
    fs::create_directories(folder_ / "model");
    put(folder_ / "secret", "keep");
    put(model(), "model");
    put(in("w.bin"), "0123456789");
  }
  std::string model() const { return in("model.onnx"); }
  std::string in(const std::string& name) const { return folder_ / ("model/" + name); }
  std::string outside(const std::string& name) const { return folder_ / name; }

  std::string refusal_of(const TensorMessage& tensor, uint64_t bytes = 4) const {
    ExternalFiles files(model());
    return error_of<Error>([&] { files.bytes(tensor, bytes); });
  }

 private:
  TempDir folder_;
};

std::string read(const std::string& model, const TensorMessage& tensor, uint64_t bytes) {
  ExternalFiles files(model);
  return std::string(files.bytes(tensor, bytes));
}

}  // namespace

TEST_CASE("a file's bytes are mapped") {
  const TempDir folder;
  put(folder / "x", "bytes");
  fs::create_symlink("x", folder / "link");
  CHECK(MappedFile(folder / "x").bytes() == "bytes");
  CHECK(MappedFile(folder / "link").bytes() == "bytes");
  MappedFile first(folder / "x");
  MappedFile second(std::move(first));
  CHECK(second.bytes() == "bytes");
  CHECK(first.bytes().empty());  // NOLINT(bugprone-use-after-move): what is left is defined
  put(folder / "y", "other");
  second = MappedFile(folder / "y");
  CHECK(second.bytes() == "other");
  fs::remove(folder / "y");
  CHECK(second.bytes() == "other");
}

TEST_CASE("what is no regular file is refused without waiting for it") {
  const TempDir folder;
  const auto refused = [](const std::string& path) {
    return error_of<Error>([&] { MappedFile file(path); });
  };
  CHECK(refused(folder / "none") == "cannot open '" + (folder / "none") + "': No such file or directory");
  CHECK(refused(folder / "") == "cannot read '" + (folder / "") + "': Is a directory");
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(refused(folder / "pipe") == "path: '" + (folder / "pipe") + "' is no regular file");
  CHECK(refused("/dev/zero") == "path: '/dev/zero' is no regular file");
  put(folder / "empty", "");
  CHECK(refused(folder / "empty") == "path: '" + (folder / "empty") + "' is empty");
  put(folder / "x", "bytes");
  CHECK(refused((folder / "x") + std::string("\0y", 2)) == "path: has a zero byte in it");
  fs::create_symlink("x", folder / "link");
  CHECK_THROWS_WITH(MappedFile(folder / "link", MappedFile::Names::one), contains("cannot open"));
  CHECK(MappedFile(folder / "x", MappedFile::Names::one).bytes() == "bytes");
  fs::create_hard_link(folder / "x", folder / "y");
  CHECK_THROWS_WITH(MappedFile(folder / "x", MappedFile::Names::one), contains("has 2 names"));
  CHECK(MappedFile(folder / "x").bytes() == "bytes");
}

TEST_CASE("a tensor has its part of the file") {
  const Layout layout;
  const auto entry = [](const std::string& key, const std::string& value) { return Entry{key, value}; };
  const Entry location = entry("location", "w.bin");
  CHECK(read(layout.model(), external({location}), 4) == "0123");
  CHECK(read(layout.model(), external({location, entry("offset", "3"), entry("length", "4")}), 4) == "3456");
  CHECK(read(layout.model(), external({entry("length", "10"), location}), 10) == "0123456789");
  CHECK(read(layout.model(), external({location, entry("offset", "6")}), 4) == "6789");
  CHECK(read(layout.model(),
             external({location, entry("checksum", "a"), entry("new", "b"), entry("new", "c")}), 1) == "0");
  CHECK(read(layout.model(), at("./w.bin"), 2) == "01");
  fs::create_directories(layout.in("sub/deep"));
  put(layout.in("sub/deep/..v"), "other");
  CHECK(read(layout.model(), at("sub/deep/..v"), 2) == "ot");
  // No file is needed for no bytes.
  CHECK(read(layout.model(), at("none"), 0).empty());
}

TEST_CASE("each file is mapped once and its bytes stay") {
  const Layout layout;
  fs::create_symlink("w.bin", layout.in("link"));
  ExternalFiles files(layout.model());
  const std::string_view first = files.bytes(at("w.bin"), 4);
  fs::remove(layout.in("w.bin"));
  put(layout.in("w.bin"), "another file");
  CHECK(files.bytes(at("w.bin"), 4).data() == first.data());
  CHECK(files.bytes(at("link"), 4).data() == first.data());
  CHECK(first == "0123");
}

TEST_CASE("a model's folder is found from relative paths as well") {
  const Layout layout;
  const fs::path before = fs::current_path();
  fs::current_path(layout.in(""));
  const std::string plain = read("model.onnx", at("w.bin"), 2);
  const std::string dotted = read("../model/./model.onnx", at("w.bin"), 2);
  fs::current_path(before);
  CHECK(plain == "01");
  CHECK(dotted == "01");
  CHECK_THROWS_WITH(ExternalFiles(layout.in("none")), contains("No such file or directory"));
  ExternalFiles nowhere;
  CHECK_THROWS_WITH(nowhere.bytes(at("w.bin"), 4), contains("the model was not read from a folder"));
}

TEST_CASE("a location must be a relative name without '..'") {
  const Layout layout;
  fs::create_directories(layout.in("a"));
  const std::string head = "external_data: tensor 'w': ";
  CHECK(layout.refusal_of(external({})) == head + "has no location");
  CHECK(layout.refusal_of(at("")) == head + "has no location");
  for (const char* name :
       {"..", "../secret", "a/../../secret", "a/../w.bin", "a/..", "./../secret", "../model/w.bin"})
    CHECK(layout.refusal_of(at(name)) == head + "location '" + name + "' must not have '..' in it");
  for (const std::string& name : {layout.outside("secret"), layout.in("w.bin"), "//" + layout.in("w.bin")})
    CHECK(layout.refusal_of(at(name)) == head + "location '" + name + "' must be relative");
  CHECK(layout.refusal_of(at(std::string("w.bin\0x", 7))) == head + "its location has a zero byte in it");
  CHECK_THAT(layout.refusal_of(at("none")), contains("No such file or directory"));
  CHECK_THAT(layout.refusal_of(at("w.bin/")), contains("location 'w.bin/'"));
  CHECK_THAT(layout.refusal_of(at("w.bin/x")), contains("Not a directory"));
  CHECK_THAT(layout.refusal_of(at(std::string(5000, 'x'))), contains("File name too long"));
  // Before the file system is asked, even where nothing is to be read.
  CHECK_THAT(layout.refusal_of(at("../secret"), 0), contains("must not have '..'"));
}

TEST_CASE("links must not lead out of the model's folder") {
  const Layout layout;
  fs::create_directories(layout.outside("elsewhere"));
  put(layout.outside("elsewhere/w.bin"), "elsewhere");
  fs::create_directories(layout.outside("model_of_others"));
  put(layout.outside("model_of_others/w.bin"), "others");

  fs::create_symlink(layout.outside("secret"), layout.in("absolute"));
  fs::create_symlink("../secret", layout.in("relative"));
  fs::create_symlink("relative", layout.in("link_to_link"));
  fs::create_symlink(layout.outside("elsewhere"), layout.in("parent"));
  fs::create_symlink("..", layout.in("up"));
  fs::create_symlink("../model_of_others", layout.in("others"));  // its name begins as the folder's does
  for (const char* name :
       {"absolute", "relative", "link_to_link", "parent/w.bin", "up/secret", "others/w.bin"})
    CHECK_THAT(layout.refusal_of(at(name)), contains("out of the model's folder"));
  fs::create_symlink("loop", layout.in("loop"));
  CHECK_THAT(layout.refusal_of(at("loop")), contains("Too many levels of symbolic links"));
  fs::create_symlink("nowhere", layout.in("dangling"));
  CHECK_THAT(layout.refusal_of(at("dangling")), contains("No such file or directory"));

  // Those that lead to the folder, or come back to it, are its files.
  fs::create_symlink("w.bin", layout.in("inside"));
  CHECK(read(layout.model(), at("inside"), 2) == "01");
  CHECK(read(layout.model(), at("up/model/w.bin"), 2) == "01");
  fs::create_directory_symlink(layout.in(""), layout.outside("name_of_model"));
  CHECK(read(layout.outside("name_of_model/model.onnx"), at("w.bin"), 2) == "01");
}

TEST_CASE("a model hub's snapshot is read: the model and its data are links into a folder of blobs") {
  const TempDir folder;
  fs::create_directories(folder / "blobs");
  fs::create_directories(folder / "snapshots/1/onnx");
  put(folder / "blobs/aa", "model");
  put(folder / "blobs/bb", "weights");
  put(folder / "secret", "secret");
  fs::create_symlink("../../../blobs/aa", folder / "snapshots/1/onnx/model.onnx");
  fs::create_symlink("../../../blobs/bb", folder / "snapshots/1/onnx/model.onnx_data");
  fs::create_symlink("../../../secret", folder / "snapshots/1/onnx/other");
  const std::string model = folder / "snapshots/1/onnx/model.onnx";
  CHECK(read(model, at("model.onnx_data"), 7) == "weights");
  CHECK_THROWS_WITH(read(model, at("other"), 6), contains("out of the model's folder"));

  // The data may also lie where the model really is; the folder of the link comes first.
  CHECK(read(model, at("bb"), 7) == "weights");
  put(folder / "snapshots/1/onnx/bb", "nearest");
  CHECK(read(model, at("bb"), 7) == "nearest");
  // A model that is no link has no other folder.
  put(folder / "snapshots/1/onnx/plain.onnx", "model");
  CHECK_THROWS_WITH(read(folder / "snapshots/1/onnx/plain.onnx", at("model.onnx_data"), 7),
                    contains("out of the model's folder"));
}

TEST_CASE("only regular files of one name are read") {
  const Layout layout;
  fs::create_hard_link(layout.outside("secret"), layout.in("hard"));
  CHECK_THAT(layout.refusal_of(at("hard")), contains("has 2 names (hard links), must be 1"));
  fs::create_symlink("hard", layout.in("link"));
  CHECK_THAT(layout.refusal_of(at("link")), contains("has 2 names (hard links), must be 1"));
  REQUIRE(mkfifo(layout.in("pipe").c_str(), 0600) == 0);
  CHECK_THAT(layout.refusal_of(at("pipe")), contains("is no regular file"));
  fs::create_directories(layout.in("sub"));
  CHECK_THAT(layout.refusal_of(at("sub")), contains("Is a directory"));
  CHECK_THAT(layout.refusal_of(at(".")), contains("Is a directory"));
  put(layout.in("empty"), "");
  CHECK_THAT(layout.refusal_of(at("empty")), contains("is empty"));
}

TEST_CASE("offset and length must lie in the file, and the length be the tensor's") {
  const Layout layout;
  const auto refused = [&](const std::string& offset, const std::string& length, uint64_t bytes) {
    return layout.refusal_of(external({{"location", "w.bin"}, {"offset", offset}, {"length", length}}),
                             bytes);
  };
  CHECK_THAT(refused("7", "4", 4),
             contains("bytes 7 and the 4 from there on are not in 'w.bin', which has 10"));
  CHECK_THAT(refused("10", "4", 4), contains("are not in 'w.bin'"));
  CHECK_THAT(refused("11", "4", 4), contains("are not in 'w.bin'"));
  CHECK_THAT(refused("18446744073709551615", "4", 4), contains("are not in 'w.bin'"));
  CHECK_THAT(refused("18446744073709551612", "4", 4), contains("are not in 'w.bin'"));  // the sum would be 0
  CHECK_THAT(refused("9", "18446744073709551608", 18446744073709551608u), contains("are not in 'w.bin'"));
  CHECK_THAT(layout.refusal_of(at("w.bin"), 11), contains("are not in 'w.bin'"));
  CHECK_THAT(refused("0", "5", 4), contains("length 5 must be 4, as its type and shape say"));
  CHECK_THAT(refused("0", "4", 0), contains("length 4 must be 0"));
  for (const char* number : {"", "-1", "+1", " 1", "1 ", "0x1", "1.0", "18446744073709551616", "a"}) {
    CHECK_THAT(refused(number, "4", 4),
               contains(std::string("offset '") + number + "' is no number below 2^64"));
    CHECK_THAT(refused("0", number, 4),
               contains(std::string("length '") + number + "' is no number below 2^64"));
  }
}

TEST_CASE("a key that stands twice is refused") {
  const Layout layout;
  for (const char* key : {"location", "offset", "length"})
    CHECK_THAT(layout.refusal_of(external({{"location", "w.bin"},
                                           {"offset", "0"},
                                           {"length", "4"},
                                           {key, key == std::string("location") ? "w.bin" : "4"}})),
               contains(std::string("names '") + key + "' twice"));
}
