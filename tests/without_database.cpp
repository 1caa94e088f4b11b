// The build without SQLite (src/core/tune/database_none.cpp), beside one that has it: nothing is kept on
// disk, and everything else works.
#include <dlprim/gemm.hpp>
#include <dlprim/tune.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

TEST_CASE("without SQLite tuning says so and holds for its context") {
  CHECK(tune_database(context()).path.empty());
  CHECK(tune_database(context()).reason == "this build of dlprim has no SQLite");
  const TuneResult result = tune(context(), "gemm m=16 n=24 k=32");
  CHECK(!result.stored);
  CHECK(!result.best.engine.empty());
  const Gemm plan(context(), {TensorDesc({16, 32}), TensorDesc({32, 24}), TensorDesc({16, 24})});
  CHECK(plan.explain().find("the user's measurements, this problem") != std::string::npos);
  CHECK(tuning_json(context(), {result}).find("\"m\": 16, \"n\": 24, \"k\": 32") != std::string::npos);
}
