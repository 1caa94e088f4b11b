// The same with dlprim::onnx: a file that is not there is an error that names it.
#include <cstdio>
#include <cstring>

#include <dlprim/onnx.hpp>

int main() {
  try {
    dlprim::onnx::load("no-such-model.onnx");
  } catch (const dlprim::Error& error) {
    std::printf("%s\n", error.what());
    return std::strstr(error.what(), "no-such-model.onnx") ? 0 : 1;
  }
  return 1;
}
