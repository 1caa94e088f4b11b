// safetensors files: what was written comes back, the bytes are as specified, broken files are refused with a
// reason, and a net's parameters change only when a file fits.
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include <dlprim/net.hpp>
#include <dlprim/safetensors.hpp>

#include "catch.hpp"
#include "child.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;
namespace fs = std::filesystem;

namespace {

/// A file of this header and data, the length being right unless given.
std::string file_of(const std::string& header, const std::string& data, int64_t length = -1) {
  const auto value = static_cast<uint64_t>(length < 0 ? static_cast<int64_t>(header.size()) : length);
  std::string bytes;
  for (int i = 0; i < 8; i++) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes + header + data;
}

/// Why a file of these bytes is refused, without the part that names it.
std::string refusal_of(const std::string& bytes) {
  const TempDir folder;
  const std::string path = folder / "x.safetensors";
  put(path, bytes);
  const std::string text = error_of<ValidationError>([&] { SafetensorsReader reader(path); });
  const std::string head = "path: '" + path + "' is no valid safetensors file: ";
  REQUIRE(text.substr(0, head.size()) == head);
  return text.substr(head.size());
}

std::string refusal_of_header(const std::string& header, const std::string& data = "12345678") {
  return refusal_of(file_of(header, data));
}

constexpr const char* kGood = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

}  // namespace

TEST_CASE("tensors of every dtype come back as they were") {
  const TempDir folder;
  const std::string path = folder / "all.safetensors";
  std::vector<HostTensor> tensors;
  for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16,
                      DType::i32, DType::i64, DType::boolean, DType::u16, DType::u32, DType::u64}) {
    HostTensor tensor{std::string("of ") + name_of(dtype), dtype, {3, 5}, {}};
    for (size_t i = 0; i < 15 * size_of(dtype); i++)
      tensor.data.push_back(static_cast<unsigned char>(i * 37 + tensors.size()));
    tensors.push_back(tensor);
  }
  tensors.push_back({"a \"name\"\n\xc3\xa9", DType::u8, {}, {7}});  // rank 0: one element
  tensors.push_back({"", DType::f64, {4, 0, 2}, {}});
  save_safetensors(path, tensors, {{"key", "value"}, {"\xe2\x82\xac", ""}});

  SafetensorsReader reader(path);
  CHECK(reader.metadata() == std::map<std::string, std::string>{{"key", "value"}, {"\xe2\x82\xac", ""}});
  REQUIRE(reader.entries().size() == tensors.size());
  for (const HostTensor& tensor : tensors) {
    bool found = false;
    for (const auto& entry : reader.entries()) {
      if (entry.name != tensor.name) continue;
      found = true;
      CHECK(entry.dtype == tensor.dtype);
      CHECK(entry.shape == tensor.shape);
      CHECK(reader.read(entry).data == tensor.data);
    }
    INFO(tensor.name);
    CHECK(found);
  }
}

TEST_CASE("a file is the header's length, the header padded to 8 bytes, and the data") {
  const TempDir folder;
  const std::string path = folder / "x.safetensors";
  save_safetensors(path, {{"a", DType::f32, {2}, {0, 0, 128, 63, 0, 0, 0, 64}}});
  std::string header = R"({"a":{"data_offsets":[0,8],"dtype":"F32","shape":[2]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  CHECK(bytes_of(path) == file_of(header, std::string("\0\0\x80\x3f\0\0\0\x40", 8)));
}

TEST_CASE("a file of another program's style is read") {
  const TempDir folder;
  const std::string path = folder / "x.safetensors";
  put(path, file_of("{ \"b\" : {\"shape\":[1,2],\"data_offsets\":[2,6],\"dtype\":\"I16\"},\n"
                    "\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"BOOL\",\"shape\":[2],"
                    "\"data_offsets\":[0,2]}}   ",
                    std::string("\1\0\5\0\7\0", 6)));
  SafetensorsReader reader(path);
  REQUIRE(reader.entries().size() == 2);
  CHECK(reader.entries()[0].name == "a");  // in the order of the data
  CHECK(reader.read(reader.entries()[1]).data == std::vector<unsigned char>{5, 0, 7, 0});
  CHECK(reader.read(reader.entries()[0]).data == std::vector<unsigned char>{1, 0});
  put(path, file_of("{}", ""));
  CHECK(SafetensorsReader(path).entries().empty());
}

TEST_CASE("tensors of other dtypes and ranks are listed apart, and read as bytes") {
  const TempDir folder;
  const std::string path = folder / "other.safetensors";
  const struct {
    const char *type, *shape;
    int bytes;
  } others[] = {{"F8_E4M3", "[2,3]", 6},    {"F8_E5M2", "[5]", 5},
                {"F8_E8M0", "[]", 1},       {"F8_E4M3FNUZ", "[0,7]", 0},
                {"F8_E5M2FNUZ", "[1]", 1},  {"F6_E2M3", "[4]", 3},
                {"F6_E3M2", "[2,2,2]", 6},  {"F4", "[3,2]", 3},
                {"C64", "[2]", 16},         {"F32", "[1,1,1,1,1,1,1,1,1,2]", 8},
                {"SOMETHING_NEW", "[3]", 5}};
  std::string header = R"({"known":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})",
              data = "\x01\x02\x03\x04";
  for (const auto& other : others) {
    header += std::string(",\"") + other.type + " stored\":{\"dtype\":\"" + other.type +
              "\",\"shape\":" + other.shape + ",\"data_offsets\":[" + std::to_string(data.size()) + ',' +
              std::to_string(data.size() + static_cast<size_t>(other.bytes)) + "]}";
    for (int i = 0; i < other.bytes; i++) data += static_cast<char>(data.size() * 7);
  }
  put(path, file_of(header + "}", data));
  SafetensorsReader reader(path);
  REQUIRE(reader.entries().size() == 1);
  CHECK(reader.entries()[0].type == "F32");
  CHECK(reader.read(reader.entries()[0]).data == std::vector<unsigned char>{1, 2, 3, 4});
  REQUIRE(reader.others().size() == std::size(others));
  for (const auto& other : others) {
    INFO(other.type);
    const auto& list = reader.others();
    const auto entry =
        std::find_if(list.begin(), list.end(), [&](const auto& e) { return e.type == other.type; });
    REQUIRE(entry != list.end());
    std::string sizes;
    for (int64_t size : entry->sizes) sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
    CHECK("[" + sizes + "]" == other.shape);
    const HostTensor tensor = reader.read(*entry);
    CHECK(tensor.dtype == DType::u8);
    CHECK(tensor.shape == Shape{other.bytes});
    const std::string bytes(tensor.data.begin(), tensor.data.end());
    CHECK(bytes == data.substr(entry->begin, static_cast<size_t>(other.bytes)));
  }
  CHECK(reader.why_lacking("F4 stored") == " (it is F4[3, 2], which dlprim does not have)");
  CHECK(reader.why_lacking("nothing").empty());
}

TEST_CASE("every way a file can be broken has its message") {
  CHECK(refusal_of("") == "it has 0 bytes, less than the 8 of the header's length");
  CHECK(refusal_of("1234567") == "it has 7 bytes, less than the 8 of the header's length");
  CHECK(refusal_of(file_of("{}", "", 3)) ==
        "a header of 3 bytes does not fit into a file of 10: it was cut off");
  CHECK(refusal_of(file_of("{}", "", 100'000'001)) == "a header of 100000001 bytes is larger than 100000000");
  CHECK(refusal_of(std::string(16, '\xff')) ==
        "a header of 18446744073709551615 bytes is larger than 100000000");
  CHECK(refusal_of(file_of("", "", 0)) == "the header does not begin with '{'");
  CHECK(refusal_of_header("[]") == "the header does not begin with '{'");
  CHECK(refusal_of_header("{]").substr(0, 25) == "the header is not JSON: [");
  CHECK(refusal_of_header("{\"\xff\":1}").substr(0, 25) == "the header is not JSON: [");
  CHECK(refusal_of_header(R"({"a":1})") == "'a' is not a JSON object");
  CHECK(refusal_of_header(R"({"__metadata__":1})") == "'__metadata__' is not a JSON object");
  CHECK(refusal_of_header(R"({"__metadata__":{"k":1}})") ==
        "'__metadata__' has something other than text in 'k'");
  CHECK(refusal_of_header(R"({"a":{"shape":[2],"data_offsets":[0,8]}})") == "'a' has no text 'dtype'");
  CHECK(refusal_of_header(R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})") ==
        "'a' has no text 'dtype'");
  CHECK(refusal_of_header(R"({"a":{"dtype":"F8_E4M3","shape":[7],"data_offsets":[0,8]}})") ==
        "'a' spans bytes 0 to 8, but F8_E4M3[7] is another size");
  CHECK(refusal_of_header(R"({"a":{"dtype":"F6_E2M3","shape":[11],"data_offsets":[0,8]}})") ==
        "'a' spans bytes 0 to 8, but F6_E2M3[11] is another size");
  CHECK(refusal_of_header(R"({"a":{"dtype":"NEW","shape":[8],"data_offsets":[8,0]}})") ==
        "'a' spans bytes 8 to 0, but NEW[8] is another size");
  CHECK(refusal_of_header(R"({"a":{"dtype":"NEW","shape":[8],"data_offsets":[0,9]}})") ==
        "the header speaks of 9 bytes of data, the file has 8: it was cut off");
  CHECK(refusal_of_header(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})") == "'a' has no list 'shape'");
  CHECK(refusal_of_header(R"({"a":{"dtype":"F32","shape":[2]}})") == "'a' has no list 'data_offsets'");
  CHECK(refusal_of_header(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})") ==
        "'a' has -2 in 'shape'");
  CHECK(refusal_of_header(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})") ==
        "'a' has 2.0 in 'shape'");
  CHECK(refusal_of_header(R"({"a":{"dtype":"F32","shape":["2"],"data_offsets":[0,8]}})") ==
        "'a' has \"2\" in 'shape'");
  CHECK(refusal_of_header(R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8]}})") ==
        "'a' has 9223372036854775808 in 'shape'");
  CHECK(refusal_of_header(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})") ==
        "'a' has shape [4294967296, 4294967296]: too large");
  CHECK(refusal_of_header(R"({"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}})",
                          "") == "'a' has shape [4611686018427387904]: too large");
  CHECK(refusal_of_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})") ==
        "'a' has 1 data_offsets, must be 2");
  CHECK(refusal_of_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,7]}})") ==
        "'a' spans bytes 0 to 7, but F32[2] is another size");
  CHECK(refusal_of_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})") ==
        "'a' spans bytes 8 to 0, but F32[2] is another size");
  CHECK(refusal_of_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})") ==
        "'a' begins at byte 8 of the data, a gap behind what ends at 0");
  CHECK(refusal_of_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                          R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})") ==
        "'b' begins at byte 2 of the data, inside what ends at 4");
  CHECK(refusal_of_header(kGood, "1234567") ==
        "the header speaks of 8 bytes of data, the file has 7: it was cut off");
  CHECK(refusal_of_header(kGood, "123456789") == "the header speaks of 8 bytes of data, the file has 9");
  CHECK(refusal_of_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                          R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})") ==
        "the header names 'a' twice");
  CHECK(refusal_of_header(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})") ==
        "the header names 'dtype' twice");
  const std::string deep = "{\"a\":" + std::string(1'000'000, '[');
  CHECK(refusal_of_header(deep) == "the header is nested too deeply");
}

TEST_CASE("no prefix of a file and no changed byte of its header does harm") {
  const TempDir folder;
  const std::string path = folder / "x.safetensors";
  save_safetensors(path, {{"first", DType::f32, {2, 3}, std::vector<unsigned char>(24, 1)},
                          {"second", DType::i16, {4}, std::vector<unsigned char>(8, 2)}});
  const std::string whole = bytes_of(path);
  for (size_t length = 0; length < whole.size(); length++)
    CHECK(!refusal_of(whole.substr(0, length)).empty());
  int refused = 0;
  for (size_t at = 0; at < whole.size() - 32; at++)
    for (int bit = 0; bit < 8; bit++) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ 1 << bit);
      put(path, changed);
      try {
        SafetensorsReader reader(path);  // some changes only make another name
        for (const auto& entry : reader.entries())
          REQUIRE(reader.read(entry).data.size() == entry.end - entry.begin);
      } catch (const ValidationError&) {
        refused++;
      }
    }
  CHECK(refused > 500);
}

TEST_CASE("files that cannot be read or written") {
  const TempDir folder;
  const std::string missing = folder / "missing";
  CHECK(error_of<Error>([&] { SafetensorsReader reader(missing); }) ==
        "cannot open '" + missing + "': No such file or directory");
  CHECK(error_of<Error>([&] { SafetensorsReader reader(folder.path().string()); }) ==
        "cannot read '" + folder.path().string() + "': Is a directory");
  const std::string nowhere = folder / "no/such/folder";
  CHECK(error_of<Error>([&] { save_safetensors(nowhere, {}); }) ==
        "cannot write '" + nowhere + "': No such file or directory");
  const std::string occupied = folder / "occupied";
  fs::create_directories(occupied + "/by a folder");
  CHECK(error_of<Error>([&] { save_safetensors(occupied, {}); }) ==
        "cannot write '" + occupied + "': Is a directory");
  CHECK(error_of<ValidationError>([&] {
          save_safetensors(folder / "x", {{"a", DType::f32, {2}, {1, 2, 3}}});
        }) == "tensors: 'a' has 3 bytes, f32[2] needs 8");
  const HostTensor byte{"a", DType::u8, {1}, {1}};
  CHECK(error_of<ValidationError>([&] {
          save_safetensors(folder / "x", {byte, byte});
        }) == "tensors: the name 'a' is taken");
  CHECK(error_of<ValidationError>([&] {
          save_safetensors(folder / "x", {{"\xff", DType::u8, {1}, {1}}});
        }).find("not UTF-8") != std::string::npos);
  // The folder in the way: no temporary files are left.
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("saving over a file replaces it whole") {
  const TempDir folder;
  const std::string path = folder / "x";
  save_safetensors(path, {{"old", DType::u8, {1000}, std::vector<unsigned char>(1000, 1)}});
  save_safetensors(path, {{"new", DType::u8, {1}, {9}}});
  SafetensorsReader reader(path);
  REQUIRE(reader.entries().size() == 1);
  CHECK(reader.entries()[0].name == "new");
}

TEST_CASE("a write that fails half way leaves the old file") {
  const TempDir folder;
  const std::string path = folder / "x";
  save_safetensors(path, {{"old", DType::u8, {3}, {1, 2, 3}}});
  const std::string before = bytes_of(path);
  rlimit unlimited{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &unlimited) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 16, unlimited.rlim_max};  // no file may grow beyond 64 KB now
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string text = error_of<Error>([&] {
    save_safetensors(path, {{"new", DType::u8, {1 << 20}, std::vector<unsigned char>(1 << 20, 1)}});
  });
  setrlimit(RLIMIT_FSIZE, &unlimited);
  std::signal(SIGXFSZ, handler);
  CHECK(text == "cannot write '" + path + "': File too large");
  CHECK(bytes_of(path) == before);
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

namespace {

struct SmallNet {
  Net net;
  explicit SmallNet(uint64_t seed, int64_t features = 3, const std::string& name = "head")
      : net(stream(), seed) {
    const Value x = net.input({2, 4, 4});
    const Value h = net.batch_norm(net.conv(x, ConvLayer(4, 3)));
    net.linear(net.flatten(h), LinearLayer(features).named(name));
  }
  std::vector<std::vector<float>> values() const {
    std::vector<std::vector<float>> all;
    for (const Parameter& p : net.parameters()) all.push_back(host_values(p.value));
    return all;
  }
};

}  // namespace

TEST_CASE("a net's parameters and statistics come back") {
  const TempDir folder;
  const std::string path = folder / "net.safetensors";
  const SmallNet a(1), b(2);
  for (const Parameter& p : a.net.parameters())
    if (!p.trained) fill(stream(), 0.125, p.value);
  a.net.save(stream(), path);
  CHECK(a.values() != b.values());
  b.net.load(stream(), path);
  CHECK(a.values() == b.values());
  b.net.save(stream(), folder / "again.safetensors");
  CHECK(bytes_of(path) == bytes_of(folder / "again.safetensors"));
  SafetensorsReader reader(path);
  CHECK(reader.entries().size() == 8);
  CHECK(reader.entries()[0].name == "conv1.weight");
  CHECK(reader.entries()[0].shape == Shape{4, 2, 3, 3});
}

TEST_CASE("a file that does not fit the net changes nothing") {
  const TempDir folder;
  const std::string path = folder / "net.safetensors";
  const SmallNet a(1);
  const auto before = a.values();
  const auto refusal = [&] {
    const std::string text = error_of<ValidationError>([&] { a.net.load(stream(), path); });
    CHECK(a.values() == before);
    const std::string head = "path: '" + path + "' ";
    return text.substr(0, head.size()) == head ? text.substr(head.size()) : text;
  };
  SmallNet(2, 5).net.save(stream(), path);
  CHECK(refusal() == "has 'head.weight' as f32[5, 16], the net as f32[3, 16]");
  SmallNet(2, 3, "tail").net.save(stream(), path);
  CHECK(refusal() == "lacks 'head.weight', which the net has");
  {
    SmallNet more(2);
    more.net.linear(more.net.input({2}), 2);
    more.net.save(stream(), path);
    CHECK(refusal() == "has 'linear1.weight', which the net lacks");
  }
  std::vector<HostTensor> tensors;
  for (const Parameter& p : a.net.parameters())
    tensors.push_back({p.name, p.value.dtype(), p.value.shape(), host_bytes(p.value)});
  tensors.back().dtype = DType::i32;
  save_safetensors(path, tensors);
  CHECK(refusal() == "has 'head.bias' as i32[3], the net as f32[3]");
  const std::string whole = bytes_of(path);
  put(path, whole.substr(0, whole.size() - 1));
  CHECK(refusal().find("cut off") != std::string::npos);
  fs::remove(path);
  CHECK(error_of<Error>([&] { a.net.load(stream(), path); }).find("No such file") != std::string::npos);
  CHECK(a.values() == before);
}
