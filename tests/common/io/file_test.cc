#include "common/io/file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

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
  CHECK_THROWS_AS(MappedFile(temporary("nowhere")), UserError);
  CHECK_THROWS_WITH(MappedFile(temporary("nowhere")),
                    ContainsSubstring("nowhere") && ContainsSubstring("No such file"));
  CHECK_THROWS_AS(MappedFile(temporary("")), UserError);
  const std::string pipe = temporary("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(MappedFile(pipe), ContainsSubstring("is a pipe, expected a regular file"));
}

}  // namespace
}  // namespace ladder
