// `dlprim read` on a photographed page with PaddleOCR's networks, where scripts/networks has put them. Of the
// page's 299 characters 10 are read wrong, 9 of them spaces that are left out (PoCL, 2026-11-26); onnxruntime
// reads the same boxes with 12.
#include <cstdlib>
#include <filesystem>

#include "catch.hpp"
#include "child.hpp"
#include "support.hpp"

using namespace dlprim::test;

TEST_CASE("the text of a photographed page") {
  const std::string page = source_file("build/networks/page.png"), models = source_file("build/networks/ocr");
  if (!std::filesystem::exists(page))
    return note_skipped("there are no networks: scripts/networks fetches them");
  const char* device = std::getenv("DLPRIM_TEST_DEVICE");
  const TempDir folder;
  const Child child = run_program("'" + built_file("bin/dlprim") + "' read '" + page + "' --models '" +
                                  models + "' --save '" + (folder / "boxes.png") + "'" +
                                  (device && *device ? " --device '" + std::string(device) + "'" : ""));
  INFO(child.output);
  CHECK(child.passed);
  // Commas and spaces differ with the least change of a picture.
  for (const char* part :
       {"Let us first determine markers of the coins and the\n", "markers are pixels that we can label\n",
        "unambiguously as either object or background", "are found at the two extreme parts of the\n",
        "values:\n"})
    CHECK_THAT(child.output, contains(part));
  CHECK(bytes_of(folder / "boxes.png").substr(0, 4) == "\x89PNG");
}
