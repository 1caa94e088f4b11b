#include "child.hpp"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace dlprim::test {
namespace {

namespace fs = std::filesystem;

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

[[maybe_unused]] const size_t kTakenAtStart = first_environment().size();

}  // namespace

bool poison_memory() {
  return setenv("DLPRIM_POISON", "1", 0) == 0;
}

const std::string& first_environment() {
  static const std::string command = [] {
    poison_memory();  // support.cpp may come later
    std::string text = "env -i";
    for (char** variable = environ; *variable; variable++) text += " " + quoted(*variable);
    return text + " ";
  }();
  return command;
}

TempDir::TempDir() {
  std::string name = (fs::temp_directory_path() / "dlprim-test-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a folder " + name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

void copy_vendors(const fs::path& target) {
  const char* folder = std::getenv("OCL_ICD_VENDORS");
  for (const auto& entry : fs::directory_iterator(folder && *folder ? folder : "/etc/OpenCL/vendors"))
    fs::copy_file(entry.path(), target / entry.path().filename());
}

Child run_child(const std::string& name, const std::vector<std::pair<std::string, std::string>>& variables,
                const std::vector<std::string>& without) {
  std::string command = first_environment() + "env -u DLPRIM_CACHE_MB";
  for (const std::string& variable : without) command += " -u " + variable;
  for (const auto& [variable, value] : variables) {
    // The other way to name OpenCL drivers must not add to what the test chose.
    if (variable == "OCL_ICD_VENDORS") command += " -u OCL_ICD_FILENAMES";
    command += " " + variable + "=" + quoted(value);
  }
  command += " " + quoted(fs::read_symlink("/proc/self/exe").string()) + " " + quoted(name);
  Child child = run_program(command);
  // Catch2 version 2 calls it a success when no case has that name.
  child.passed = child.passed && child.output.find("All tests passed") != std::string::npos;
  return child;
}

Child run_program(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot run " + command);
  Child child;
  char buffer[4096];
  while (const size_t got = fread(buffer, 1, sizeof buffer, pipe)) child.output.append(buffer, got);
  const int status = pclose(pipe);
  child.passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return child;
}

}  // namespace dlprim::test
