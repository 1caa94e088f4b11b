// Running this test program again as another process, with other environment variables: for what is read once
// in a process (the log level, the cache's directory, the OpenCL loader's list) and for several processes at
// once.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace dlprim::test {

/// A folder of its own, removed with all it holds when the object goes.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// A file's contents, empty if there is none; and making a file of contents.
std::string bytes_of(const std::string& path);
void put(const std::string& path, const std::string& bytes);

/// Copies the OpenCL loader's configuration into `target`, so that a test can add to it.
void copy_vendors(const std::filesystem::path& target);

/// What reads memory that nobody wrote is to be wrong: DLPRIM_POISON=0 in the environment switches it off.
bool poison_memory();

/// A prefix for commands of the shell that sets the variables that this program was started with, and poison:
/// loading OpenCL drivers changes them, and a child that inherits that may find fewer devices.
const std::string& first_environment();

struct Child {
  bool passed = false;  ///< the case ran and passed; the program ended with 0
  std::string output;   ///< stdout and stderr
};

/// Runs the (hidden) test case `name` of this program in a new process and waits for it. Its environment is
/// ours with `variables` set and those named in `without` removed, the disk cache's limit among them. A case
/// that does not exist counts as failed.
Child run_child(const std::string& name,
                const std::vector<std::pair<std::string, std::string>>& variables = {},
                const std::vector<std::string>& without = {});

/// Runs a command of the shell and waits for it.
Child run_program(const std::string& command);

}  // namespace dlprim::test
