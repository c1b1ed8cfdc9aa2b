#include "common/io/file.h"

#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

TEST_CASE("an input file has the file's bytes, any part of them") {
  const std::string path = temporary("read");
  put(path, "twelve bytes");
  const InputFile file(path);
  CHECK(file.size() == 12);
  CHECK(file.path() == path);
  CHECK(file.text(0, 6) == "twelve");
  CHECK(file.text(7, 100) == "bytes");
  CHECK(file.text(12, 1).empty());
  CHECK(file.text(13, 1).empty());
  CHECK(read_file(path) == "twelve bytes");
  put(path, "");
  CHECK(read_file(path).empty());
}

TEST_CASE("a file that is written to while it is open is an error that names flag and file") {
  const std::string path = temporary("changing");
  put(path, "twelve bytes");
  // Longer ago than any clock's tick.
  const auto before = fs::file_time_type::clock::now() - std::chrono::seconds(10);
  fs::last_write_time(path, before);
  const auto [change, now] = GENERATE(table<std::string, size_t>(
      {{"empty", 0}, {"shorten", 5}, {"save the same", 12}, {"save another", 12}, {"add", 16}}));
  CAPTURE(change);
  const InputFile file(path, "--data");
  CHECK(file.text(0, 6) == "twelve");
  if (change == "empty") fs::resize_file(path, 0);
  if (change == "shorten") fs::resize_file(path, 5);
  if (change == "save the same") put(path, "twelve bytes");
  if (change == "save another") put(path, "twelve notes");
  if (change == "add") std::ofstream(path, std::ios::app) << "more";
  if (change == "add") fs::last_write_time(path, before);  // as some tools do
  for (const size_t begin : {0, 6}) {
    CHECK_THROWS_AS(file.text(begin, 6), Error);
    CHECK_THROWS_WITH(file.text(begin, 6),
                      StartsWith(concat("--data ", path,
                                        ": was written to while it was being read: it had 12 bytes "
                                        "and now has ",
                                        now, "; ")));
  }
}

TEST_CASE("a file that is renamed, replaced or removed stays the same file for who has it open") {
  const std::string path = temporary("open"), other = temporary("other");
  put(path, "twelve bytes");
  const InputFile file(path);
  put(other, "");
  fs::rename(other, path);
  CHECK(file.text(0, 12) == "twelve bytes");
  fs::remove(path);
  CHECK(file.text(7, 5) == "bytes");
}

TEST_CASE("what cannot be read is the user's mistake") {
  CHECK_THROWS_AS(InputFile(temporary("nowhere")), UserError);
  CHECK_THROWS_WITH(InputFile(temporary("nowhere")),
                    StartsWith(temporary("nowhere")) && ContainsSubstring("No such file"));
  CHECK_THROWS_WITH(InputFile(temporary("nowhere"), "--data"),
                    StartsWith("--data " + temporary("nowhere")));
  CHECK_THROWS_AS(InputFile(temporary("")), UserError);
  const std::string pipe = temporary("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(InputFile(pipe), ContainsSubstring("is a pipe, expected a regular file"));
}

}  // namespace
}  // namespace ladder
