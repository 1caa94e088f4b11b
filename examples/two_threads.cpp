// Two threads on one context, each with a stream of its own: they share compiled programs, plans and memory.
#include <cstdio>
#include <thread>
#include <vector>

#include <dlprim/copy.hpp>
#include <dlprim/gemm.hpp>

using namespace dlprim;

int main(int argc, char** argv) try {
  const Context context(argc > 1 ? argv[1] : "");
  bool right[2] = {false, false};
  const auto multiply = [&](int i) {
    const Stream stream(context);
    const Tensor a(stream, {64, 32}), b(stream, {32, 16}), c(stream, {64, 16});
    fill(stream, i + 1, a);
    fill(stream, 1, b);
    gemm(stream, a, b, /*bias=*/{}, {}, c);
    right[i] = read<float>(stream, c) == std::vector<float>(64 * 16, 32.0f * static_cast<float>(i + 1));
  };
  std::thread other([&] { multiply(1); });
  multiply(0);
  other.join();
  std::printf("two threads, two products: %s\n", right[0] && right[1] ? "right" : "wrong");
  return right[0] && right[1] ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
