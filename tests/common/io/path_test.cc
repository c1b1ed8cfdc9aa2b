// What paths lead to.
#include "common/io/path.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

struct stat status_of(const std::string& path) {
  struct stat status;
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status;
}

TEST_CASE("kinds of files have names") {
  const TestFolder folder;
  CHECK(kind_of(status_of(folder.path())) == "a folder");
  CHECK(kind_of(status_of(folder.write("file", ""))) == "a file");
  CHECK(kind_of(status_of("/dev/zero")) == "a device");
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(kind_of(status_of(folder / "pipe")) == "a pipe");
}

TEST_CASE("one file has one identity, whatever it is called") {
  const TestFolder folder;
  const std::string file = folder.write("file", "x");
  fs::create_directory(folder / "below");
  fs::create_symlink("file", folder / "link");
  fs::create_symlink("..", folder / "below/up");
  fs::create_hard_link(file, folder / "hard");
  folder.write("copy", "x");
  for (const std::string name : {"./file", "link", "hard", "below/../file", "below/up/file"}) {
    CHECK(identity_of(folder / name) == identity_of(file));
  }
  CHECK(identity_of(folder / "copy") != identity_of(file));
  CHECK(identity_of(folder / "below") != identity_of(file));
}

TEST_CASE("what is not there yet has an identity too") {
  const TestFolder folder;
  fs::create_directory(folder / "below");
  fs::create_symlink("..", folder / "below/up");
  fs::create_symlink("missing", folder / "dangling");
  for (const std::string name :
       {"./missing", "missing/", "new/../missing", "below/up/missing", "dangling"}) {
    CHECK(identity_of(folder / name) == identity_of(folder / "missing"));
  }
  CHECK(identity_of(folder / "new/missing") == identity_of(folder / "./new/./missing"));
  CHECK(identity_of(folder / "new/missing") != identity_of(folder / "missing"));
  CHECK(identity_of("some relative path") ==
        identity_of(fs::current_path() / "some relative path"));
  fs::create_symlink("loop", folder / "loop");
  CHECK(identity_of(folder / "loop") != identity_of(folder / "missing"));
}

}  // namespace
}  // namespace ladder
