#include "common/io/file.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <vector>

#include "kernels/runtime/check.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST_CASE("a mapped file holds the file's bytes") {
  const std::string path = temporary("mapped");
  put(path, "twelve bytes");
  const MappedFile file(path);
  CHECK(std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()) ==
        "twelve bytes");
  put(path, "");
  CHECK(MappedFile(path).bytes().empty());
}

TEST_CASE("what cannot be mapped is the user's mistake") {
  using Catch::Contains;
  CHECK_THROWS_AS(MappedFile(temporary("nowhere")), UserError);
  CHECK_THROWS_WITH(MappedFile(temporary("nowhere")),
                    Contains("nowhere") && Contains("No such file"));
  CHECK_THROWS_AS(MappedFile(temporary("")), UserError);
  const std::string pipe = temporary("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(MappedFile(pipe), Contains("not a regular file"));
}

TEST_CASE("a file appears when it is committed, and only then") {
  const std::string path = temporary("fresh");
  {
    PartialFile file(path);
    file.write(bytes_of("hello "));
    file.write(bytes_of("world"));
    CHECK_FALSE(fs::exists(path));
    file.commit();
    CHECK(text_of(path) == "hello world");
    CHECK_THROWS_AS(file.write(bytes_of("more")), Error);
    CHECK_THROWS_AS(file.commit(), Error);
  }
  CHECK(text_of(path) == "hello world");
  CHECK_FALSE(fs::exists(path + ".partial"));
}

TEST_CASE("an unfinished file leaves the old one and no trace") {
  const std::string path = temporary("kept");
  put(path, "old");
  { PartialFile(path).write(bytes_of("new")); }
  CHECK(text_of(path) == "old");
  CHECK_FALSE(fs::exists(path + ".partial"));
}

TEST_CASE("a full disk is an Error and the old file stays") {
  const std::string path = temporary("full");
  put(path, "old");
  const std::string large(10'000, 'x');
  std::string message;
  {
    PartialFile file(path);
    const FullDisk full(4096);
    try {
      file.write(bytes_of(large));
    } catch (const Error& error) {
      message = error.what();
    }
  }
  CHECK_THAT(message, Catch::Contains("full.partial: write failed"));
  CHECK(text_of(path) == "old");
  CHECK_FALSE(fs::exists(path + ".partial"));
}

TEST_CASE("a name that is taken meanwhile is an Error") {
  const std::string path = temporary("taken");
  PartialFile file(path);
  file.write(bytes_of("text"));
  fs::create_directory(path);
  CHECK_THROWS_AS(file.commit(), Error);
}

TEST_CASE("a path that cannot be written is the user's mistake") {
  using Catch::Contains;
  CHECK_THROWS_AS(PartialFile(temporary("no/folder/file")), UserError);
  CHECK_THROWS_WITH(PartialFile(temporary("no/folder/file")),
                    Contains("no/folder/file") && Contains("No such file"));
  put(temporary("plain"), "");
  CHECK_THROWS_WITH(PartialFile(temporary("plain/file")), Contains("Not a directory"));
  fs::create_directory(temporary("folder"));
  CHECK_THROWS_WITH(PartialFile(temporary("folder")), Contains("not a regular file"));
}

}  // namespace
}  // namespace ladder
