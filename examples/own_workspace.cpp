// A plan, made once and run often, with scratch memory that the program gives it.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <dlprim/copy.hpp>
#include <dlprim/sort.hpp>

using namespace dlprim;

int main(int argc, char** argv) try {
  const Context context(argc > 1 ? argv[1] : "");
  const Stream stream(context);
  std::vector<float> numbers(100000);
  for (size_t i = 0; i < numbers.size(); i++) numbers[i] = static_cast<float>(i * 7919 % 100003);
  const Tensor x(stream, {100000}), y(stream, {100000});
  write(stream, x, numbers);
  const Sort plan(context, {x, y, {}, 0});
  const Tensor workspace(context, {static_cast<int64_t>(plan.workspace_size())}, DType::u8);
  for (int i = 0; i < 10; i++) plan.run(stream, x, y, /*indices=*/{}, workspace);
  std::sort(numbers.begin(), numbers.end());
  const bool right = read<float>(stream, y) == numbers;
  std::printf("engine %s, %d bytes of workspace: %s\n", plan.engine().c_str(),
              static_cast<int>(workspace.bytes()), right ? "right" : "wrong");
  return right ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
