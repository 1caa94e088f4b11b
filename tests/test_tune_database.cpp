// The user's tuning database: what one process stores another finds, and nothing that a file can hold is an
// error.
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "catch.hpp"
#include "child.hpp"
#include "core/binary_cache.hpp"
#include "core/tune/database.hpp"

using namespace dlprim;
using namespace dlprim::detail;
using namespace dlprim::test;
namespace fs = std::filesystem;

namespace {

UserDatabase of_environment() {
  return UserDatabase::configured({}, BinaryCache::user().directory(), {});
}

DeviceFacts device(const char* name = "Chip", const char* platform = "Platform") {
  DeviceFacts facts;
  facts.name = name;
  facts.platform = platform;
  facts.driver = "1.0";
  return facts;
}

UserRow row(int64_t m, const std::string& engine = "fast:x=1") {
  UserRow result;
  result.problem.op = "gemm";
  result.problem.result = DType::i32;
  result.problem.math = MathMode::tf32;
  result.problem.form = "it's \"quoted\"";
  result.problem.sizes = {{"m", m}, {"n", 7}};
  result.best = {engine, 1.5};
  result.second = {"slow", 2.5};
  return result;
}

void execute(const std::string& path, const char* sql) {
  sqlite3* handle = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &handle) == SQLITE_OK);
  char* error = nullptr;
  sqlite3_exec(handle, sql, nullptr, nullptr, &error);
  INFO((error ? error : ""));
  CHECK(error == nullptr);
  sqlite3_close(handle);
}

}  // namespace

TEST_CASE("tune database: what is stored is found, by this device alone") {
  const TempDir folder;
  const std::string path = folder / "deep/down/t.sqlite";
  UserDatabase database(path, true);
  CHECK(database.load(device()).empty());
  CHECK(!fs::exists(path));  // looking makes nothing
  CHECK(database.store(device(), row(64)));
  CHECK(database.store(device(), row(65, "other")));
  CHECK(database.store(device(), row(64, "better")));  // replaces
  CHECK(database.store(device("Chip", "Other platform"), row(66)));
  CHECK(database.reason().empty());
  const std::vector<UserRow> rows = UserDatabase(path, true).load(device());
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].problem == row(64).problem);
  CHECK(rows[0].best.engine == "better");
  CHECK(rows[0].best.microseconds == 1.5);
  CHECK(rows[0].second.engine == "slow");
  CHECK(rows[1].problem == row(65).problem);
  CHECK(UserDatabase(path, true).load(device("Chip 2")).empty());
}

TEST_CASE("tune database: no path, no database") {
  UserDatabase database("", true);
  CHECK(database.load(device()).empty());
  CHECK(!database.store(device(), row(64)));
}

TEST_CASE("tune database: a damaged file of ours is set aside") {
  const TempDir folder;
  const std::string path = folder / "t.sqlite";
  for (int i = 0; i < 200; i++) REQUIRE(UserDatabase(path, true).store(device(), row(i + 1)));
  const std::string good = bytes_of(path);
  REQUIRE(good.size() > 3 * 4096);
  std::string scrambled = good;
  for (size_t i = 4096; i < scrambled.size(); i++) scrambled[i] = static_cast<char>(i * 7);
  struct {
    const char* what;
    std::string bytes;
    bool ours;
  } const damages[] = {
      {"no database",
       "this is some text, long enough to be no header of a database at all, " + good.substr(0, 60), true},
      {"a short text", "text", true},
      {"cut off", good.substr(0, good.size() / 2), true},
      {"cut off, known by its mark", good.substr(0, good.size() / 2), false},
      {"scrambled", scrambled, false},
      {"cut off in its head", good.substr(0, 50), true}};
  for (const auto& damage : damages) {
    INFO(damage.what);
    put(path, damage.bytes);
    UserDatabase database(path, damage.ours);
    CHECK(database.load(device()).empty());
    CHECK(database.reason().find("was set aside as '" + path + ".damaged'") != std::string::npos);
    CHECK(bytes_of(path + ".damaged") == damage.bytes);
    CHECK(!fs::exists(path));
    CHECK(database.store(device(), row(5)));
    CHECK(UserDatabase(path, true).load(device()).size() == 1);
    // Found out while storing, it is the same.
    put(path, damage.bytes);
    CHECK(UserDatabase(path, damage.ours).store(device(), row(5)));
    CHECK(UserDatabase(path, true).load(device()).size() == 1);
  }
  put(path, "");  // an empty file is a new database
  CHECK(UserDatabase(path, false).load(device()).empty());
  CHECK(UserDatabase(path, false).store(device(), row(5)));
}

TEST_CASE("tune database: what is not ours stays as it is") {
  const TempDir folder;
  const std::string path = folder / "t.sqlite";
  const auto stays = [&](const std::string& part, const std::string& part_of_store) {
    const std::string before = bytes_of(path);
    UserDatabase database(path, false);
    CHECK(database.load(device()).empty());
    CHECK(database.reason().find(part) != std::string::npos);
    CHECK(!database.store(device(), row(64)));
    CHECK(database.reason().find(part_of_store) != std::string::npos);
    CHECK(bytes_of(path) == before);
    CHECK(!fs::exists(path + ".damaged"));
  };
  put(path, "a text that somebody keeps under this name, and that is no database of any program");
  const std::string unknown = "it is not known to be ours and stays as it is";
  stays(unknown, unknown);
  fs::remove(path);
  execute(path, "CREATE TABLE tuning (a INTEGER)");
  stays("is a database of some other program", "is a database of some other program");
  execute(path, "PRAGMA application_id = 1684828274; PRAGMA user_version = 4");
  stays("is of version 4, not 3", "is of version 4, not 3");
  execute(path, "PRAGMA user_version = 3");  // our mark on another table
  stays("no such column: op", "table tuning has 1 columns but 16 values");
  fs::remove(path);
  fs::create_directory(path);
  UserDatabase database(path, true);
  CHECK(database.load(device()).empty());
  CHECK(!database.store(device(), row(64)));
  CHECK(!database.reason().empty());
}

TEST_CASE("tune database: what is no regular file is not waited for",
          "[.]") {  // in the environment: the path
  alarm(30);        // ends this process where one waits
  UserDatabase database(std::getenv("DLPRIM_TUNE_DB"), true);
  CHECK(database.load(device()).empty());
  CHECK_FALSE(database.store(device(), row(64)));
}

TEST_CASE("tune database: pipes in its place, or its journal's, keep nobody waiting") {
  const TempDir folder;
  for (const char* beside : {"", "-journal", "-wal"}) {
    const std::string path = folder / (std::string("t") + beside + ".sqlite");
    if (*beside) {
      UserDatabase database(path, true);
      REQUIRE(database.store(device(), row(1)));
    }
    REQUIRE(mkfifo((path + beside).c_str(), 0600) == 0);
    const Child child =
        run_child("tune database: what is no regular file is not waited for", {{"DLPRIM_TUNE_DB", path}});
    INFO(beside << child.output);
    CHECK(child.passed);
  }
}

TEST_CASE("tune database: a file of version 1 is read, and changed by the first store") {
  const TempDir folder;
  const std::string path = folder / "t.sqlite";
  REQUIRE(UserDatabase(path, true).store(device(), row(1)));
  execute(
      path,
      "ALTER TABLE tuning RENAME TO new; CREATE TABLE tuning (platform TEXT NOT NULL, device TEXT NOT NULL,"
      " op TEXT NOT NULL, dtype TEXT NOT NULL, result TEXT NOT NULL, math TEXT NOT NULL, form TEXT NOT NULL,"
      " sizes TEXT NOT NULL, engine TEXT NOT NULL, us REAL NOT NULL, second TEXT NOT NULL,"
      " second_us REAL NOT NULL, driver TEXT NOT NULL, date TEXT NOT NULL,"
      " PRIMARY KEY (platform, device, op, dtype, result, math, form, sizes)) WITHOUT ROWID;"
      "INSERT INTO tuning SELECT platform, device, op, dtype, result, math, form, sizes, engine, us, second,"
      " second_us, driver, date FROM new; DROP TABLE new; PRAGMA user_version = 1");
  UserDatabase database(path, true);
  REQUIRE(database.load(device()).size() == 1);
  CHECK(!database.load(device())[0].exhaustive);
  UserRow thorough = row(2);
  thorough.exhaustive = true;
  thorough.spread = 0.5;
  CHECK(database.store(device(), thorough));
  const std::vector<UserRow> rows = database.load(device());
  CHECK(database.reason().empty());
  REQUIRE(rows.size() == 2);
  CHECK(!rows[0].exhaustive);
  CHECK(rows[1].exhaustive);
  CHECK((rows[0].spread == 0 && rows[1].spread == 0.5));
}

TEST_CASE("tune database: a file of version 2 is read, and changed by the first store") {
  const TempDir folder;
  const std::string path = folder / "t.sqlite";
  REQUIRE(UserDatabase(path, true).store(device(), row(1)));
  execute(path, "ALTER TABLE tuning DROP COLUMN spread; PRAGMA user_version = 2");
  UserDatabase database(path, true);
  REQUIRE(database.load(device()).size() == 1);
  UserRow unsteady = row(2);
  unsteady.spread = 0.25;
  CHECK(database.store(device(), unsteady));
  const std::vector<UserRow> rows = database.load(device());
  CHECK(database.reason().empty());
  REQUIRE(rows.size() == 2);
  CHECK((rows[0].spread == 0 && rows[1].spread == 0.25));
}

TEST_CASE("tune database: rows with words of another time are passed over") {
  const TempDir folder;
  const std::string path = folder / "t.sqlite";
  for (int i = 1; i <= 4; i++) REQUIRE(UserDatabase(path, true).store(device(), row(i)));
  execute(path, "UPDATE tuning SET dtype = 'f8' WHERE sizes = 'm=1 n=7'");
  execute(path, "UPDATE tuning SET sizes = 'm=x' WHERE sizes = 'm=2 n=7'");
  execute(path, "UPDATE tuning SET math = 'loose' WHERE sizes = 'm=3 n=7'");
  const std::vector<UserRow> rows = UserDatabase(path, true).load(device());
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].problem == row(4).problem);
}

TEST_CASE("tune database: writes many rows", "[.]") {  // in the environment: the path, and which rows
  const int first = std::atoi(std::getenv("DLPRIM_TEST_FIRST"));
  UserDatabase database = of_environment();
  for (int i = 0; i < 40; i++) {
    CHECK(database.store(device(), row(first + i)));
    CHECK(!database.load(device()).empty());
  }
  INFO(database.reason());
  CHECK(database.reason().empty());
}

TEST_CASE("tune database: several processes at once lose nothing") {
  const TempDir folder;
  const std::string path = folder / "t.sqlite";
  std::vector<std::thread> threads;
  std::vector<Child> children(4);
  for (size_t i = 0; i < children.size(); i++)
    threads.emplace_back([&, i] {
      children[i] = run_child("tune database: writes many rows",
                              {{"DLPRIM_TUNE_DB", path}, {"DLPRIM_TEST_FIRST", std::to_string(1 + 40 * i)}});
    });
  for (std::thread& thread : threads) thread.join();
  for (const Child& child : children) {
    INFO(child.output);
    CHECK(child.passed);
  }
  CHECK(UserDatabase(path, true).load(device()).size() == 160);
}

TEST_CASE("tune database: reads and cannot write", "[.]") {
  if (geteuid() == 0) REQUIRE(seteuid(65534) == 0);  // root may write anywhere
  UserDatabase database = of_environment();
  CHECK(database.load(device()).size() == 1);
  CHECK(!database.store(device(), row(65)));
  CHECK(!database.reason().empty());
  CHECK(database.load(device()).size() == 1);
  UserDatabase nowhere(fs::path(database.path()).parent_path().string() + "/new/t.sqlite", true);
  CHECK(nowhere.load(device()).empty());
  CHECK(!nowhere.store(device(), row(65)));
  CHECK(!nowhere.reason().empty());
}

TEST_CASE("tune database: a folder that cannot be written is read, with a line in the log") {
  const TempDir folder;
  const std::string path = folder / "t.sqlite";
  REQUIRE(UserDatabase(path, true).store(device(), row(64)));
  chmod(path.c_str(), 0444);
  chmod(folder.path().c_str(), 0555);
  // As another user it may not look for leaks.
  const Child child =
      run_child("tune database: reads and cannot write",
                {{"DLPRIM_TUNE_DB", path}, {"DLPRIM_LOG", "1"}, {"ASAN_OPTIONS", "detect_leaks=0"}});
  chmod(folder.path().c_str(), 0755);
  INFO(child.output);
  CHECK(child.passed);
  CHECK(child.output.find("dlprim: tuning database '" + path + "': attempt to write a readonly database") !=
        std::string::npos);
}

TEST_CASE("tune database: its place", "[.]") {
  CHECK(of_environment().path() == std::getenv("DLPRIM_TEST_EXPECTED"));
}

TEST_CASE("tune database: lies with the compiled programs unless told otherwise") {
  const auto place = [](const std::vector<std::pair<std::string, std::string>>& variables,
                        const std::vector<std::string>& without) {
    const Child child = run_child("tune database: its place", variables, without);
    INFO(child.output);
    CHECK(child.passed);
  };
  place({{"DLPRIM_CACHE_DIR", "/c"}, {"DLPRIM_TEST_EXPECTED", "/c/tuning.sqlite"}}, {"DLPRIM_TUNE_DB"});
  place({{"DLPRIM_CACHE_DIR", ""}, {"DLPRIM_TEST_EXPECTED", ""}}, {"DLPRIM_TUNE_DB"});
  place({{"DLPRIM_CACHE_DIR", "/c"}, {"DLPRIM_TUNE_DB", "/d/x"}, {"DLPRIM_TEST_EXPECTED", "/d/x"}}, {});
  place({{"DLPRIM_CACHE_DIR", "/c"}, {"DLPRIM_TUNE_DB", ""}, {"DLPRIM_TEST_EXPECTED", ""}}, {});
}
