// Memory of one's own: the pool takes its buffers from the program, and gives them back.
#include <cstdio>

#include <dlprim/copy.hpp>

using namespace dlprim;

int main(int argc, char** argv) try {
  const Device device = Device::find(argc > 1 ? argv[1] : "");
  const cl::Context opencl(device.cl());
  int live = 0;
  ContextConfig config;
  config.allocate = [&](uint64_t bytes) { return live++, cl::Buffer(opencl, CL_MEM_READ_WRITE, bytes); };
  config.free = [&](const cl::Buffer&) { live--; };
  {
    const Context context(opencl, device, config);
    const Stream stream(context);
    const Tensor x(stream, {1000});
    fill(stream, 1, x);
    std::printf("%d buffer holds a tensor\n", live);
  }
  std::printf("%d are left\n", live);
  return live;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
