// The log's lines of one context, given to a function of one's own: here, how many operators ran.
#include <cstdio>

#include <dlprim/activation.hpp>
#include <dlprim/copy.hpp>

using namespace dlprim;

int main(int argc, char** argv) try {
  int operators = 0;
  ContextConfig config;
  config.log = [&](const std::string& line) { operators += line.find("op=") == 0; };
  const Context context(argc > 1 ? argv[1] : "", config);
  const Stream stream(context);
  const Tensor x(stream, {1000});
  fill(stream, -1, x);
  activation(stream, x, Activation::relu, x);
  stream.finish();  // an operator is logged when the device is done with it
  std::printf("%d operators\n", operators);
  return operators == 2 ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
