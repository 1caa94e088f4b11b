// The user's database through SQLite. Each call opens the file, does its work in one transaction and closes
// it: stores are rare, and no lock outlives a call.
#include <sqlite3.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/text.hpp"
#include "core/tune/database.hpp"
#include "core/tune/problem_line.hpp"

namespace dlprim::detail {
namespace {

namespace fs = std::filesystem;

constexpr int kMark = 0x646c7072;  // "dlpr", SQLite's application_id
constexpr int kVersion = 3;        // of the schema, SQLite's user_version
constexpr int kMarkAt = 68;        // where the file's head has the mark
constexpr int kPatience = 5000;    // milliseconds to wait for another process
constexpr const char* kSchema =
    "CREATE TABLE tuning (platform TEXT NOT NULL, device TEXT NOT NULL, op TEXT NOT NULL,"
    " dtype TEXT NOT NULL, result TEXT NOT NULL, math TEXT NOT NULL, form TEXT NOT NULL, sizes TEXT NOT NULL,"
    " engine TEXT NOT NULL, us REAL NOT NULL, second TEXT NOT NULL, second_us REAL NOT NULL,"
    " driver TEXT NOT NULL, date TEXT NOT NULL, exhaustive INTEGER NOT NULL DEFAULT 0,"
    " spread REAL NOT NULL DEFAULT 0,"
    " PRIMARY KEY (platform, device, op, dtype, result, math, form, sizes)) WITHOUT ROWID;";
/// From the version before, to 2 and to 3.
constexpr const char* kUpgrades[] = {"ALTER TABLE tuning ADD COLUMN exhaustive INTEGER NOT NULL DEFAULT 0;",
                                     "ALTER TABLE tuning ADD COLUMN spread REAL NOT NULL DEFAULT 0;"};

/// What went wrong: SQLite's code, and words.
struct Failure {
  int code;
  std::string text;
};

class Statement {
 public:
  Statement(sqlite3* handle, const char* sql) : handle_(handle) {
    check(sqlite3_prepare_v2(handle, sql, -1, &statement_, nullptr));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(const std::string& text) {
    check(sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()),
                            SQLITE_TRANSIENT));
    return *this;
  }
  Statement& bind(double value) {
    check(sqlite3_bind_double(statement_, ++bound_, value));
    return *this;
  }
  /// True if there is a row.
  bool step() {
    const int code = sqlite3_step(statement_);
    if (code != SQLITE_ROW && code != SQLITE_DONE) check(code);
    return code == SQLITE_ROW;
  }
  std::string text(int column) const {
    const unsigned char* bytes = sqlite3_column_text(statement_, column);
    return bytes ? reinterpret_cast<const char*>(bytes) : "";
  }
  double number(int column) const { return sqlite3_column_double(statement_, column); }
  int integer(int column) const { return sqlite3_column_int(statement_, column); }

 private:
  void check(int code) const {
    if (code != SQLITE_OK) throw Failure{code, sqlite3_errmsg(handle_)};
  }
  sqlite3* handle_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

class Connection {
 public:
  Connection(const std::string& path, bool writes) {
    // SQLite would wait for a pipe's other end.
    for (const char* beside : {"", "-journal", "-wal", "-shm"}) {
      std::error_code ignored;
      const fs::file_status status = fs::status(path + beside, ignored);
      if (fs::exists(status) && !fs::is_regular_file(status))
        throw Failure{SQLITE_CANTOPEN, cat("'", path, beside, "' is no regular file")};
    }
    const int flags = writes ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    const int code = sqlite3_open_v2(path.c_str(), &handle_, flags, nullptr);
    if (code != SQLITE_OK) {
      const Failure failure{code, handle_ ? sqlite3_errmsg(handle_) : "no memory"};
      sqlite3_close(handle_);
      throw failure;
    }
    sqlite3_busy_timeout(handle_, kPatience);
  }
  ~Connection() { sqlite3_close(handle_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void execute(const char* sql) {
    if (const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr); code != SQLITE_OK)
      throw Failure{code, sqlite3_errmsg(handle_)};
  }
  Statement statement(const char* sql) { return Statement(handle_, sql); }

  /// The version of its tables, 0 for a new file. Throws Failure if the file holds something else than ours.
  int version_of_tables() {
    const auto number = [&](const char* sql) {
      Statement query(handle_, sql);
      query.step();
      return query.integer(0);
    };
    const int mark = number("PRAGMA application_id"), version = number("PRAGMA user_version");
    if (mark == kMark && version >= 1 && version <= kVersion) return version;
    if (mark == 0 && version == 0 && number("SELECT count(*) FROM sqlite_master") == 0) return 0;
    throw Failure{SQLITE_SCHEMA, mark == kMark ? cat("is of version ", version, ", not ", kVersion)
                                               : "is a database of some other program"};
  }

 private:
  sqlite3* handle_ = nullptr;
};

/// As the file's head says; it need not be readable beyond.
bool is_marked(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  unsigned char mark[4] = {};
  file.seekg(kMarkAt).read(reinterpret_cast<char*>(mark), sizeof mark);
  return file && (mark[0] << 24 | mark[1] << 16 | mark[2] << 8 | mark[3]) == kMark;
}

/// Renames a damaged file that is ours, and its journal: a journal must not be played into a new file.
std::string set_aside(const std::string& path, bool ours, const std::string& what) {
  if (!ours && !is_marked(path)) return cat(what, "; it is not known to be ours and stays as it is");
  std::error_code error, ignored;
  fs::rename(path + "-journal", path + "-journal.damaged", ignored);
  fs::rename(path, path + ".damaged", error);
  return error ? cat(what, "; it cannot be set aside: ", error.message())
               : cat(what, "; it was set aside as '", path, ".damaged'");
}

bool is_damage(int code) {
  return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

std::vector<UserRow> read_rows(Connection& connection, const DeviceFacts& device) {
  const int version = connection.version_of_tables();
  if (version == 0) return {};
  Statement query =
      connection.statement(cat("SELECT op, dtype, result, math, form, sizes, engine, us, second, second_us, ",
                               version == 1 ? "0" : "exhaustive", ", ", version < 3 ? "0" : "spread",
                               " FROM tuning WHERE platform = ? AND device = ?")
                               .c_str());
  query.bind(device.platform).bind(device.name);
  std::vector<UserRow> rows;
  while (query.step()) {
    UserRow row;
    row.problem.op = query.text(0);
    row.problem.form = query.text(4);
    row.best = {query.text(6), query.number(7)};
    row.second = {query.text(8), query.number(9)};
    row.exhaustive = query.integer(10) != 0;
    row.spread = query.number(11);
    try {
      row.problem.dtype = parse_dtype(query.text(1));
      row.problem.result = parse_dtype(query.text(2));
      row.problem.math = parse_math(query.text(3));
      row.problem.sizes = parse_sizes(query.text(5));
      rows.push_back(row);
    } catch (const ValidationError&) {  // words of a later version, or of an editor: no row of ours
    }
  }
  return rows;
}

void write_row(Connection& connection, const DeviceFacts& device, const UserRow& row) {
  connection.execute("BEGIN IMMEDIATE");
  if (const int version = connection.version_of_tables(); version != kVersion) {
    if (version == 0) connection.execute(kSchema);
    for (int from = version; version != 0 && from < kVersion; from++) connection.execute(kUpgrades[from - 1]);
    connection.execute(cat("PRAGMA application_id = ", kMark, "; PRAGMA user_version = ", kVersion).c_str());
  }
  const TuneProblem& p = row.problem;
  Statement insert =
      connection.statement("INSERT OR REPLACE INTO tuning VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  insert.bind(device.platform).bind(device.name).bind(p.op).bind(name_of(p.dtype)).bind(name_of(p.result));
  insert.bind(name_of(p.math)).bind(p.form).bind(sizes_text(p));
  insert.bind(row.best.engine).bind(row.best.microseconds);
  insert.bind(row.second.engine).bind(row.second.microseconds).bind(device.driver).bind(today());
  insert.bind(row.exhaustive ? 1.0 : 0.0).bind(row.spread);
  insert.step();
  connection.execute("COMMIT");
}

}  // namespace

std::vector<UserRow> UserDatabase::load(const DeviceFacts& device) {
  std::error_code error;
  if (path_.empty() || !fs::exists(path_, error)) return {};
  try {
    Connection connection(path_, false);
    reason_.clear();
    return read_rows(connection, device);
  } catch (const Failure& failure) {
    complain(is_damage(failure.code) ? set_aside(path_, ours_, failure.text) : failure.text);
    return {};
  }
}

bool UserDatabase::store(const DeviceFacts& device, const UserRow& row) {
  if (path_.empty()) return false;
  std::error_code ignored;
  fs::create_directories(fs::path(path_).parent_path(), ignored);
  for (int attempt = 0; attempt < 2; attempt++) {
    try {
      Connection connection(path_, true);
      write_row(connection, device, row);
      reason_.clear();
      return true;
    } catch (const Failure& failure) {
      if (!is_damage(failure.code)) {
        complain(failure.text);
        return false;
      }
      complain(set_aside(path_, ours_, failure.text));
    }
  }
  return false;
}

}  // namespace dlprim::detail
