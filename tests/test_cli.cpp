// The `dlprim` program, run as a user runs it: exit codes, messages, broken data, and a training run on a
// small data set of its own that has to learn, repeat itself bit for bit, and compile nothing the second
// time.
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "child.hpp"
#include "cli.hpp"
#include "support.hpp"

using namespace dlprim::test;
namespace fs = std::filesystem;

namespace {

/// Images of 12 x 12 in which a bright row tells the label, under noise.
void write_part(const fs::path& folder, const std::string& part, uint32_t count, uint64_t seed) {
  Rng rng(seed);
  std::string pixels, labels;
  for (uint32_t i = 0; i < count; i++) {
    const int64_t label = rng.integer(0, 9);
    labels += static_cast<char>(label);
    for (int64_t p = 0; p < 144; p++)
      pixels += static_cast<char>(rng.integer(0, 100) + (p / 12 == label + 1 ? 120 : 0));
  }
  put(folder / (part + "-images-idx3-ubyte"), idx({count, 12, 12}, pixels));
  put(folder / (part + "-labels-idx1-ubyte"), idx({count}, labels));
}

struct SmallData {
  TempDir folder;
  SmallData() {
    write_part(folder.path(), "train", 600, 1);
    write_part(folder.path(), "t10k", 130, 2);
  }
  std::string option() const { return " --data '" + folder.path().string() + "'"; }
};

/// The line of `text` that holds `part`.
std::string line_with(const std::string& text, const std::string& part) {
  const size_t at = text.find(part);
  if (at == std::string::npos) return "";
  const size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

}  // namespace

TEST_CASE("help is printed, and wrong options say so") {
  const Result help = run("--help");
  CHECK(help.code == 0);
  for (const char* part : {"devices", "train", "eval", "tune", "read"}) CHECK(contains(help.out, part));
  const Result train_help = run("train --help");
  CHECK(train_help.code == 0);
  for (const char* part :
       {"--data", "--epochs", "--batch", "--device", "--seed", "--lr", "--solver", "--out"})
    CHECK(contains(train_help.out, part));
  const Result read_help = run("read --help");
  CHECK(read_help.code == 0);
  for (const char* part : {"PICTURE", "--models", "--device", "--upright", "--json", "--save"})
    CHECK(contains(read_help.out, part));
  for (const char* arguments :
       {"", "nonsense", "train --epochs 0", "train --epochs many", "train --batch 0", "train --lr 0",
        "train --lr -1", "train --solver magic", "train --seed -1", "train more", "eval", "train --unknown",
        "tune --quick --full", "tune --full --shapes x", "read", "read x", "read --models x"}) {
    INFO(arguments);
    const Result result = run(arguments);
    CHECK(result.code > 100);
    CHECK(contains(result.err, "--help"));
  }
}

TEST_CASE("without any OpenCL device the way to one is told") {
  const TempDir empty;
  for (const char* arguments : {"train", "eval --weights none", "devices", "tune"}) {
    INFO(arguments);
    const Result result =
        run(arguments, "OCL_ICD_FILENAMES= OCL_ICD_VENDORS='" + empty.path().string() + "'");
    CHECK(result.code == 2);
    CHECK(contains(result.out + result.err, "pocl-opencl-icd"));
  }
}

TEST_CASE("a table shows the devices, and a broken platform as broken") {
  const TempDir vendors;
  copy_vendors(vendors.path());
  put(vendors / "0_broken.icd", built_file("lib/libfake_icd.so") + "\n");
  const Result result =
      run("devices", "OCL_ICD_FILENAMES= OCL_ICD_VENDORS='" + vendors.path().string() + "/'");
  CHECK(result.code == 0);
  CHECK(contains(result.out, "\n*  "));  // the default
  for (const char* part : {"works", "sub-group", "matrix", "arch", "; driver "})
    CHECK(contains(result.out, part));
  CHECK(contains(result.out, ", A broken platform, is broken: clGetDeviceIDs failed: CL_OUT_OF_HOST_MEMORY"));
}

TEST_CASE("where no device works the reasons and the way to one are told") {
  const TempDir empty;
  const std::string variables = "DLPRIM_CACHE_DIR= DLPRIM_KERNEL_DIR='" + empty.path().string() + "'";
  for (const char* arguments : {"devices", "train", "eval --weights none"}) {
    INFO(arguments);
    const Result result = run(arguments, variables);
    CHECK(result.code == 2);
    CHECK(contains(result.out + result.err, ": cannot read "));
    CHECK(contains(result.out + result.err, "o OpenCL device works"));
    CHECK(contains(result.out + result.err, "pocl-opencl-icd"));
  }
}

TEST_CASE("a device that does not exist is refused by name") {
  const Result result = run("train --device no-such-device");
  CHECK(result.code == 1);
  CHECK(contains(complaint(result), "dlprim: device: 'no-such-device' fits none of:"));
}

TEST_CASE("read refuses pictures and models that are none, before it looks for a device") {
  const TempDir folder;
  const std::string picture = folder / "dot.png", models = folder.path().string();
  const auto refusal = [&] {
    const Result result = run("read '" + picture + "' --models '" + models + "'", "OCL_ICD_VENDORS=/none");
    CHECK(result.code == 1);
    CHECK(result.out.empty());
    return complaint(result);
  };
  CHECK(refusal() == "dlprim: cannot read '" + picture + "': No such file or directory\n");
  put(picture, "GIF89a");
  CHECK(refusal() ==
        "dlprim: input: '" + picture + "' is no picture that dlprim reads: it is neither PNG nor JPEG\n");
  const std::string dot = one_pixel_png();
  put(picture, dot.substr(0, 45));
  CHECK(contains(refusal(), "dlprim: input: '" + picture + "' is no picture that dlprim reads: "));
  put(picture, dot);
  CHECK(contains(refusal(), "dlprim: models: '" + models + "' holds no detector: an ONNX file with 'det'"));
  put(folder / "det.onnx", "no model");
  CHECK(contains(refusal(), "dlprim: models: '" + models + "' holds no recogniser: an ONNX file with 'rec'"));
  put(folder / "rec.onnx", "nor this");
  CHECK(contains(refusal(), "dlprim: models: '" + (folder / "det.onnx") + "': "));
  const Result nowhere = run("read '" + picture + "' --models '" + (folder / "none") + "'");
  CHECK(nowhere.code == 1);
  CHECK(complaint(nowhere) == "dlprim: models: '" + (folder / "none") + "' is no folder\n");
}

TEST_CASE("broken data is refused with the file and the reason") {
  const SmallData data;
  const std::string images = data.folder / "train-images-idx3-ubyte",
                    labels = data.folder / "train-labels-idx1-ubyte";
  const std::string good_images = bytes_of(images), good_labels = bytes_of(labels);
  const TempDir out;
  const auto refusal = [&] {
    const Result result =
        run("train --epochs 1 --out '" + (out / "run") + "'" + data.option() + device_option());
    CHECK(result.code == 1);
    CHECK(!fs::exists(out / "run"));  // the data is looked at before anything is made
    return complaint(result);
  };
  const auto refusal_of = [&](const std::string& path, const std::string& bytes) {
    const std::string before = bytes_of(path);
    put(path, bytes);
    const std::string text = refusal();
    put(path, before);
    const std::string head = "dlprim: '" + path + "' ";
    return text.substr(0, head.size()) == head ? text.substr(head.size()) : text;
  };
  CHECK(refusal_of(images, "") == "is too short for an IDX header\n");
  CHECK(refusal_of(images, good_images.substr(0, 15)) == "is too short for an IDX header\n");
  CHECK(refusal_of(images, good_labels) == "is no IDX file of unsigned bytes with 3 dimension(s)\n");
  CHECK(refusal_of(images, "this is some text") == "is no IDX file of unsigned bytes with 3 dimension(s)\n");
  CHECK(refusal_of(images, good_images.substr(0, 86415)) == "ends after 86399 of 86400 bytes\n");
  CHECK(refusal_of(images, good_images + "x") == "has more bytes than its header says\n");
  CHECK(refusal_of(images, idx({0, 12, 12}, "")) == "has a dimension of size 0\n");
  CHECK(refusal_of(images, idx({0xffffffffu, 12, 12}, "")) == "has a dimension of size 4294967295\n");
  CHECK(refusal_of(images, idx({600, 65536, 65536}, "")) == "has images with a side of 65536 pixels\n");
  CHECK(refusal_of(images, idx({100'000'000, 4096, 4096}, "abc")) ==
        "ends after 3 of 1677721600000000 bytes\n");
  CHECK(refusal_of(labels, idx({599}, good_labels.substr(8, 599))) == "has 599 labels for 600 images\n");
  std::string high = good_labels;
  high[8 + 7] = 10;
  CHECK(refusal_of(labels, high) == "has label 10 at place 7; labels are 0 to 9\n");

  REQUIRE(std::system(("gzip -k '" + images + "'").c_str()) == 0);  // the packed one is taken first
  const std::string packed = bytes_of(images + ".gz");
  CHECK(contains(refusal_of(images + ".gz", packed.substr(0, packed.size() / 2)), "cut off"));
  CHECK(contains(refusal_of(images + ".gz", packed.substr(0, packed.size() - 4)), "cut off"));
  std::string damaged = packed;
  damaged[packed.size() - 6] = static_cast<char>(damaged[packed.size() - 6] ^ 0x55);  // its checksum
  CHECK(refusal_of(images + ".gz", damaged) == "cannot be unpacked: incorrect data check\n");
  CHECK(refusal_of(images + ".gz", packed + "x") == "has bytes behind its packed data\n");
  fs::remove(images + ".gz");

  fs::remove(labels);
  CHECK(contains(refusal(), "there is no train-labels-idx1-ubyte or train-labels-idx1-ubyte.gz in '"));
  put(labels, good_labels);
  put(data.folder / "t10k-images-idx3-ubyte", idx({130, 10, 10}, std::string(13000, 'x')));
  CHECK(contains(refusal(), "are of another size than the training images"));
  const Result nowhere = run("train --data /no/such/folder" + device_option());
  CHECK(nowhere.code == 1);
  CHECK(contains(complaint(nowhere), "apt install dataset-fashion-mnist"));
}

TEST_CASE("an output folder that cannot be written is found out before training") {
  const SmallData data;
  put(data.folder / "file", "in the way");
  const Result result = run("train --out '" + (data.folder / "file") + "'" + data.option() + device_option());
  CHECK(result.code == 1);
  CHECK(complaint(result) == "dlprim: cannot make the directory '" + (data.folder / "file") + "'\n");
  CHECK(!contains(result.out, "epoch"));
}

TEST_CASE("training learns, repeats itself bit for bit, and eval agrees with it") {
  const SmallData data;
  const TempDir out;
  const auto train = [&](const std::string& name, const std::string& more) {
    return run(
        "train --epochs 4 --batch 50 --out '" + (out / name) + "' " + more + data.option() + device_option(),
        "DLPRIM_CACHE_DIR='" + (out / "cache") + "'");  // asked for, so programs are kept with any driver
  };
  const Result first = train("first", "--seed 5");
  INFO(first.err);
  REQUIRE(first.code == 0);
  CHECK(!contains(first.out, "\r"));  // no bar where there is no terminal
  CHECK(!contains(first.out, "\033"));
  CHECK(contains(first.out, "600 training and 130 test images of 12 x 12"));
  const std::string last = line_with(first.out, "epoch 4/4  100 %  ");
  for (const char* part : {" images/s  ", " left  loss ", "  accuracy "}) CHECK(contains(last, part));

  const auto log = nlohmann::json::parse(bytes_of(out / "first/log.json"));
  REQUIRE(log["epochs"].size() == 4);
  CHECK(log["step_losses"].size() == 48);
  const double accuracy = log["epochs"][3]["test_accuracy"];
  CHECK(accuracy > 0.6);  // by chance 0.1
  CHECK(log["epochs"][3]["train_loss"].get<double>() < 0.5 * log["epochs"][0]["train_loss"].get<double>());
  char text[64];
  std::snprintf(text, sizeof text, "test accuracy %.2f %%", 100 * accuracy);
  CHECK(contains(first.out, std::string("\n") + text + "\n"));

  const std::string picture = bytes_of(out / "first/curves.svg");
  CHECK(picture.substr(0, 4) == "<svg");
  CHECK(picture.substr(picture.size() - 7) == "</svg>\n");
  for (const char* part : {"<polyline", "<circle", "Loss", "Accuracy, %", "training, smoothed", "epoch"})
    CHECK(contains(picture, part));
  for (const char* part : {"nan", "inf", "href", "script"}) CHECK(!contains(picture, part));

  const Result second = train("second", "--seed 5");
  CHECK(contains(line_with(second.out, "programs:"), "programs: 0 compiled"));
  CHECK(bytes_of(out / "second/weights.safetensors") == bytes_of(out / "first/weights.safetensors"));
  const Result other = train("other", "--seed 6 --solver sgd");
  CHECK(other.code == 0);
  CHECK(bytes_of(out / "other/weights.safetensors") != bytes_of(out / "first/weights.safetensors"));

  const std::string weights = out / "first/weights.safetensors";
  const Result eval = run("eval --weights '" + weights + "'" + data.option() + device_option());
  CHECK(eval.code == 0);
  std::snprintf(text, sizeof text, "test accuracy  %.2f %%", 100 * accuracy);
  CHECK(contains(eval.out, text));
  const std::string bytes = bytes_of(weights);
  put(weights, bytes.substr(0, bytes.size() - 10));
  const Result broken = run("eval --weights '" + weights + "'" + data.option() + device_option());
  CHECK(broken.code == 1);
  CHECK(contains(complaint(broken), "cut off"));
  const Result missing = run("eval --weights '" + weights + "x'" + data.option() + device_option());
  CHECK(missing.code == 1);
  CHECK(contains(complaint(missing), "No such file"));
}

TEST_CASE("a loss that is no number ends the training with advice") {
  const SmallData data;
  const Result result = run("train --solver sgd --lr 1000 --epochs 20 --out '" + (data.folder / "out") + "'" +
                            data.option() + device_option());
  CHECK(result.code == 1);
  CHECK(contains(complaint(result), "a smaller --lr than 1000 may help"));
}

namespace {

/// Runs a shell command in a terminal of 100 columns; `out` has what it shows.
Result run_in_terminal(const std::string& command) {
  winsize size{};
  size.ws_row = 24;
  size.ws_col = 100;
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  REQUIRE(child >= 0);
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  std::string output;
  char buffer[4096];
  for (ssize_t got; (got = read(terminal, buffer, sizeof buffer)) > 0;)
    output.append(buffer, static_cast<size_t>(got));
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  close(terminal);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output, ""};
}

}  // namespace

TEST_CASE("a terminal gets a bar") {
  const SmallData data;
  const Result result =
      run_in_terminal("'" + program() + "' train --epochs 3 --out '" + (data.folder / "out") + "'" +
                      data.option() + device_option() + " 2>/dev/null");
  const std::string& output = result.out;
  CHECK(result.code == 0);
  for (const char* part : {"\r\033[Kepoch ", "[=", "images/s", "left  loss ", "test accuracy"})
    CHECK(contains(output, part));
  for (size_t at = 0; (at = output.find("\r\033[Kepoch", at)) != std::string::npos;) {
    const size_t end = output.find('\r', ++at);
    CHECK(end - at < 100 + 4);  // a bar never wraps
  }
}

TEST_CASE("an error takes the bar away before it speaks") {
  const SmallData data;
  // Goes wrong after some 70 steps; the bar is there after 20.
  const Result result = run_in_terminal("'" + program() + "' train --solver sgd --batch 2 --lr 10 --out '" +
                                        (data.folder / "out") + "'" + data.option() + device_option());
  CHECK(result.code == 1);
  CHECK(contains(result.out, "\r\033[Kepoch "));
  CHECK(contains(result.out, "\r\033[Kdlprim: the loss is no number"));
}

namespace {

/// `dlprim tune` with these lines as its problems and a database in the folder.
Result tune(const TempDir& folder, const std::string& problems, const std::string& more = "",
            const std::string& variables = "") {
  put(folder / "shapes", problems);
  return run("tune --shapes '" + (folder / "shapes") + "' " + more + device_option(),
             "DLPRIM_TUNE_DB='" + (folder / "tune.sqlite") + "' " + variables);
}

}  // namespace

TEST_CASE("tune measures problems of a file, keeps the best, and shows and exports them") {
  const TempDir folder;
  const std::string problems =
      "# small ones\n\ngemm m=48 n=40 k=32 a=n b=t  # one\ngemm m=8 n=8 k=8 dtype=bf16\n";
  const Result result = tune(folder, problems, "--export '" + (folder / "out.json") + "'");
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK(!contains(result.out, "\r"));
  CHECK(!contains(result.out, "\033"));
  CHECK(contains(result.out, "database  " + (folder / "tune.sqlite") + "\n"));
  CHECK(contains(result.out, "2/2  100 %  "));
  CHECK(contains(line_with(result.out, "best us"), "gain  engine"));
  CHECK(!line_with(result.out, "f32 mk-nk 48x40x32").empty());
  CHECK(!line_with(result.out, "bf16 mk-kn 8x8x8").empty());
  CHECK(contains(result.out, "over 2 problems"));

  const auto json = nlohmann::json::parse(bytes_of(folder / "out.json"));
  for (const char* name : {"device", "architecture", "vendor", "kind", "platform", "driver", "date"})
    CHECK(json[name].is_string());
  CHECK(json["op"] == "gemm");
  CHECK(json["sizes"] == nlohmann::json::array({"m", "n", "k", "batch"}));
  REQUIRE(json["rows"].size() == 2);
  const auto& row = json["rows"][0];
  CHECK(row["form"] == "mk-nk");
  CHECK(row["m"] == 48);
  CHECK(row["us"].get<double>() > 0);
  CHECK(row["second_us"].get<double>() > 0);
  CHECK(row["engine"] != row["second"]);

  // The measured choice is what the next run finds.
  const Result again = tune(folder, "gemm m=48 n=40 k=32 b=t\n");
  CHECK(again.code == 0);
  const std::string engine = row["engine"];
  CHECK(contains(line_with(again.out, "f32 mk-nk 48x40x32"), "  " + engine + " "));

  // The build reads what was exported.
  if (std::system("cmake --version >/dev/null 2>&1") != 0) return note_skipped("there is no cmake");
  const std::string script = source_file("cmake/TuningRows.cmake");
  const auto rows_of = [&](const std::string& file) {
    return std::system(("cmake -DDIRECTORY='" + folder.path().string() + "' -DFILE='" + file +
                        "' -DOUTPUT='" + (folder / "rows.cpp") + "' -P '" + script + "' >'" +
                        (folder / "log") + "' 2>&1")
                           .c_str());
  };
  CHECK(rows_of("out.json") == 0);
  const std::string rows = bytes_of(folder / "rows.cpp");
  CHECK(contains(rows, "{DType::f32, DType::f32, MathMode::standard, \"mk-nk\", \""));
  CHECK(contains(rows, ", {48, 40, 32, 1}},"));
  CHECK(contains(rows, ", {8, 8, 8, 1}},"));
  std::string broken = bytes_of(folder / "out.json");
  broken.replace(broken.find("bf16"), 4, "f8");
  put(folder / "broken.json", broken);
  CHECK(rows_of("broken.json") != 0);
  CHECK(contains(bytes_of(folder / "log"), "dtype 'f8' is none of"));
}

TEST_CASE("tune measures convolutions") {
  const TempDir folder;
  const std::string problem =
      "conv direction=backward_data n=2 c=8 size=9x7 k=16 window=3x3 stride=2 math=strict";
  const Result result = tune(folder, problem + " layout=nhwc\n",
                             "--op conv --exhaustive --export '" + (folder / "out.json") + "'");
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK(!line_with(result.out, "f32 strict backward_data-nhwc-window3x3-stride2x2 2x8x16x9x7  ").empty());
  const auto json = nlohmann::json::parse(bytes_of(folder / "out.json"));
  CHECK(json["op"] == "conv");
  CHECK(json["sizes"] == nlohmann::json::array({"n", "c", "k", "h", "w", "groups", "d"}));
  REQUIRE(json["rows"].size() == 1);
  CHECK(json["rows"][0]["engine"] != "naive");
  CHECK(json["rows"][0]["second"] != "naive");
}

TEST_CASE("tune refuses what it does not know, before it measures") {
  const TempDir folder;
  const auto refusal = [&](const std::string& problems, const std::string& more = "") {
    const Result result = tune(folder, problems, more);
    CHECK(result.code == 2);
    CHECK(!std::filesystem::exists(folder / "tune.sqlite"));
    return complaint(result);
  };
  const std::string shapes = "'" + (folder / "shapes") + "'";
  CHECK(refusal("gemm m=4 n=4 k=4\n", "--op gemn") ==
        "dlprim: --op 'gemn' is not tuned; these are: gemm, conv\n");
  CHECK(refusal("# none\n") == "dlprim: " + shapes + " holds no problem\n");
  CHECK(refusal("gemm m=4 n=4 k=4\nconv m=4\n") ==
        "dlprim: " + shapes + ": 'conv m=4' is no problem of 'gemm'\n");
  CHECK(refusal("gemm m=4 n=4 k=4\ngemm m=4 n=4\n") ==
        "dlprim: " + shapes + ": problem: 'gemm m=4 n=4': has no k=\n");
  const Result missing = run("tune --shapes /no/such/file" + device_option());
  CHECK(missing.code == 2);
  CHECK(complaint(missing) == "dlprim: cannot read '/no/such/file'\n");
  const Result unwritable = tune(folder, "gemm m=4 n=4 k=4\n", "--export /no/such/folder/x");
  CHECK(unwritable.code == 1);
  CHECK(complaint(unwritable) == "dlprim: cannot write '/no/such/folder/x': No such file or directory\n");
  const Result lost = tune(folder, "gemm m=4 n=4 k=4\n", "", "DLPRIM_TUNE_DB=");
  CHECK(lost.code == 1);
  CHECK(contains(complaint(lost), "what is measured would be lost"));
}

TEST_CASE("tune, interrupted, keeps what it measured") {
  const TempDir folder;
  std::string problems = "gemm m=48 n=40 k=32 b=t\n";  // compiled before
  for (int i = 0; i < 3000; i++) problems += "gemm m=64 n=64 b=t k=" + std::to_string(64 + i) + "\n";
  put(folder / "shapes", problems);
  const Result result =
      run_in_terminal("DLPRIM_TUNE_DB='" + (folder / "tune.sqlite") + "' timeout --foreground -s INT 15 '" +
                      program() + "' tune --shapes '" + (folder / "shapes") + "' --export '" +
                      (folder / "out.json") + "'" + device_option() + " 2>/dev/null; echo code $?");
  CHECK(contains(result.out, "\r\033[K1/3001 ["));  // a terminal gets a bar
  CHECK(contains(result.out, "interrupted: "));
  CHECK(contains(result.out, "gain, geometric mean"));
  CHECK(contains(result.out, "problems were measured and are kept"));
  CHECK(!nlohmann::json::parse(bytes_of(folder / "out.json"))["rows"].empty());
  CHECK(std::filesystem::file_size(folder / "tune.sqlite") > 0);
}
