// Locks that another run comes between: after a file or folder has been opened, and before it is
// locked.
#include <filesystem>

#include "common/io/file.h"
#include "common/io/locked_folder.h"
#include "common/io/partial_folder.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"
#include "tests/common/io/watched_files.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

TEST_CASE("a folder that goes before it is locked is made again and then locked") {
  const TestFolder folder;
  const std::string path = folder / "a/b";
  const bool is_made_again = GENERATE(false, true);  // by a third run
  watched_files.before_lock = [&] {
    fs::remove(path);
    if (is_made_again) fs::create_directory(path);
  };
  {
    const LockedFolder first(path);
    CHECK_THROWS_WITH(LockedFolder(path),
                      path + ": another run is writing there; name a folder for each");
    folder.write("a/b/file", "text");
    CHECK(first.names() == Names{"file"});
  }
  CHECK_NOTHROW(LockedFolder(path));
}

TEST_CASE("a partial file or folder is not taken for abandoned before it is locked") {
  const TestFolder folder;
  const std::string path = folder / "x";
  const auto check_whole = [&](auto other, auto own) {
    watched_files.before_lock = [&] { other(); };
    own();
    CHECK(folder.list() == Names{"x"});
  };
  SECTION("a file") {
    check_whole([&] { const PartialFile other(path); },
                [&] {
                  PartialFile own(path);
                  own.write("text");
                  own.commit();
                });
    CHECK(text_of(path) == "text");
  }
  SECTION("a folder") {
    check_whole([&] { const PartialFolder other(path); }, [&] { PartialFolder(path).commit(); });
    CHECK(folder.list("x").empty());
  }
}

}  // namespace
}  // namespace ladder
