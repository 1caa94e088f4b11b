// The one main() of the benchmarks: options of their own, then Google Benchmark's; an error is a line, not an
// abort.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include <dlprim/error.hpp>

namespace dlprim::bench {

class Arguments {
 public:
  Arguments(int argc, char** argv) : argc_(argc), argv_(argv) {}

  /// Takes "--name=value" out; `otherwise` if there is none.
  std::string take(const std::string& name, const std::string& otherwise) {
    const std::string head = "--" + name + "=";
    for (int i = 1; i < argc_; i++)
      if (std::strncmp(argv_[i], head.c_str(), head.size()) == 0) {
        const std::string value = argv_[i] + head.size();
        std::rotate(argv_ + i, argv_ + i + 1, argv_ + argc_);
        argc_--;
        return value;
      }
    return otherwise;
  }
  /// The same for a number from 1 to a million. Throws Error for anything else.
  int64_t take_count(const std::string& name, int64_t otherwise) {
    const std::string text = take(name, std::to_string(otherwise));
    const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    const int64_t count = digits && text.size() < 8 ? std::stol(text) : 0;
    if (count < 1 || count > 1000000)
      throw Error("--" + name + "=" + text + ": must be a number from 1 to 1000000");
    return count;
  }

 private:
  template <class AddCases>
  friend int run_main(int argc, char** argv, const AddCases& add_cases);
  int argc_;
  char** argv_;
};

/// Calls add_cases(arguments), which registers the benchmarks, and runs them.
template <class AddCases>
int run_main(int argc, char** argv, const AddCases& add_cases) {
  try {
    Arguments arguments(argc, argv);
    add_cases(arguments);
    benchmark::Initialize(&arguments.argc_, argv);
    if (benchmark::ReportUnrecognizedArguments(arguments.argc_, argv)) return 1;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}

}  // namespace dlprim::bench
