// The `dlprim` program, run as a user runs it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dlprim::test {

struct Result {
  int code = -1;
  std::string out, err;
};

/// The program lies beside this test.
std::string program();
/// Runs a shell command with the program's path in front. Arguments are words without spaces.
Result run(const std::string& arguments, const std::string& variables = "");
/// The device under test, as an option.
std::string device_option();
bool contains(const std::string& text, const std::string& part);
/// What the program said last on stderr; OpenCL implementations write there as well.
std::string complaint(const Result& result);

/// A file as MNIST has them: of bytes, with these sizes.
std::string idx(const std::vector<uint32_t>& sizes, const std::string& data);
std::string one_pixel_png();

}  // namespace dlprim::test
