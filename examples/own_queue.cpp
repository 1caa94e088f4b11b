// An operator on OpenCL objects of one's own: a matrix product between buffers that the program made, on the
// queue that it made, with a kernel of its own before it. dlprim adds commands to that queue and nothing
// else.
#include <cstdio>
#include <vector>

#include <dlprim/gemm.hpp>

using namespace dlprim;

namespace {

/// x[i] = i % 5, by the program's own kernel.
cl::Kernel make_kernel(const cl::Context& context, const cl::Device& device) {
  const cl::Program program(
      context, "__kernel void count(__global float* x) { x[get_global_id(0)] = get_global_id(0) % 5; }");
  if (program.build({device}) != CL_SUCCESS) std::printf("the program's own kernel does not build\n");
  return cl::Kernel(program, "count");
}

}  // namespace

int main(int argc, char** argv) try {
  constexpr int64_t m = 40, n = 30, k = 20;

  // What a program that uses OpenCL has anyway. Device::find is only a convenience.
  const cl::Device device = Device::find(argc > 1 ? argv[1] : "").cl();
  const cl::Context context(device);
  const cl::CommandQueue queue(context, device);
  const cl::Buffer a(context, CL_MEM_READ_WRITE, m * k * sizeof(float));
  const cl::Buffer b(context, CL_MEM_READ_WRITE, k * n * sizeof(float));
  const cl::Buffer c(context, CL_MEM_READ_WRITE, m * n * sizeof(float));
  cl::Kernel count = make_kernel(context, device);
  for (const auto& [buffer, size] : {std::pair(a, m * k), std::pair(b, k * n)}) {
    count.setArg(0, buffer);
    queue.enqueueNDRangeKernel(count, cl::NullRange, cl::NDRange(static_cast<size_t>(size)));
  }

  // dlprim around them. Tensors retain the buffers; strides and offsets may say anything that fits.
  const Context ours(context, Device(device));
  const Stream stream(ours, queue);
  gemm(stream, Tensor::wrap(ours, a, {m, k}), Tensor::wrap(ours, b, {k, n}), /*bias=*/{}, {},
       Tensor::wrap(ours, c, {m, n}));

  // The queue is in order: this read comes after the product.
  std::vector<float> result(m * n);
  queue.enqueueReadBuffer(c, CL_TRUE, 0, result.size() * sizeof(float), result.data());
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      int64_t expected = 0;
      for (int64_t l = 0; l < k; l++) expected += (i * k + l) % 5 * ((l * n + j) % 5);
      const float got = result[static_cast<size_t>(i * n + j)];
      if (got != static_cast<float>(expected)) {
        std::printf("c[%d][%d] is %g, not %d\n", static_cast<int>(i), static_cast<int>(j), got,
                    static_cast<int>(expected));
        return 1;
      }
    }
  std::printf("%d x %d product on the program's own queue: right\n", static_cast<int>(m),
              static_cast<int>(n));
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
