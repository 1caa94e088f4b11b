// A folder of one's own for compiled programs: the second context loads what the first one compiled.
#include <cstdio>
#include <filesystem>

#include <dlprim/copy.hpp>

using namespace dlprim;

int main(int argc, char** argv) try {
  ContextConfig config;
  config.cache_folder = (std::filesystem::temp_directory_path() / "dlprim-example-cache").string();
  config.cache_bytes = 64 << 20;  // the oldest files go when there are more
  std::filesystem::remove_all(*config.cache_folder);
  ProgramStats stats;
  for (const char* time : {"first", "second"}) {
    const Context context(argc > 1 ? argv[1] : "", config);
    const Stream stream(context);
    fill(stream, 1, Tensor(stream, {1000}));
    stats = context.program_stats();
    std::printf("the %s context compiled %d programs and loaded %d\n", time, static_cast<int>(stats.built),
                static_cast<int>(stats.from_disk));
  }
  std::filesystem::remove_all(*config.cache_folder);
  return stats.built == 0 && stats.from_disk > 0 ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
