// A folder that appears as a whole or not at all.
#include "common/io/partial_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

std::string refusal(const std::string& path) {
  try {
    const PartialFolder folder(path);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a folder gets its name when it is committed") {
  const TestFolder folder;
  const bool is_there = GENERATE(false, true);  // an empty one will do
  if (is_there) fs::create_directory(folder / "out");
  const std::string path = folder / GENERATE("out", "out/", "./out", "out//");
  {
    PartialFolder out(path);
    std::ofstream(out / "file") << "text";
    CHECK((!fs::exists(folder / "out") || fs::is_empty(folder / "out")));
    out.commit();
    CHECK(folder.list() == Names{"out"});
  }
  CHECK(folder.list("out") == Names{"file"});
  CHECK(text_of(folder / "out/file") == "text");
}

TEST_CASE("a folder that is not committed leaves nothing") {
  const TestFolder folder;
  {
    const PartialFolder out(folder / "out");
    std::ofstream(out / "file") << "text";
    CHECK(folder.list().size() == 1);
    CHECK(folder.list()[0].starts_with("out.partial-"));
  }
  CHECK(folder.list().empty());
}

TEST_CASE("only an empty folder may be in the way") {
  const TestFolder folder;
  folder.write("file", "text");
  fs::create_directory(folder / "full");
  folder.write("full/precious", "text");
  fs::create_directory(folder / "empty");
  fs::create_symlink("empty", folder / "link");
  fs::create_symlink("nowhere", folder / "dangling");
  const Names before = folder.list();
  const auto check_refused = [&](const std::string& path, const std::string& why) {
    CHECK(refusal(path) == path + ": cannot be written: " + why);
    CHECK(folder.list() == before);
    CHECK(folder.list("full") == Names{"precious"});
  };
  check_refused(folder / "file", "it is a file, expected a new folder");
  check_refused(folder / "full", "the folder is not empty; name a new one");
  check_refused(folder / "full/", "the folder is not empty; name a new one");
  check_refused(folder / "link", "it is a symbolic link, expected a new folder");
  check_refused(folder / "link/", "it is a symbolic link, expected a new folder");
  check_refused(folder / "dangling", "it is a symbolic link, expected a new folder");
  check_refused(folder / "none/out", "No such file or directory");
  check_refused(folder / "file/out", "Not a directory");
  for (const std::string path : {".", "..", "/", "", "empty/.", "empty/.."}) {
    check_refused(path, "expected the name of a new folder");
  }
  // Nobody, root included, makes folders there.
  CHECK_THAT(refusal("/proc/out"), StartsWith("/proc/out: cannot be written: "));
}

TEST_CASE("two runs do not write one folder, and what a killed run has left is removed") {
  const TestFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const PartialFolder out(folder / "out");
    fs::create_directory(out / "deep");
    std::ofstream(out / "deep/file") << "text" << std::flush;
    kill(getpid(), SIGKILL);
  }
  REQUIRE(waitpid(child, nullptr, 0) == child);
  REQUIRE(folder.list().size() == 1);
  const std::string left = folder / folder.list()[0];
  REQUIRE(text_of(left + "/deep/file") == "text");
  // What is only called like that is not ours, and neither is a copy.
  fs::create_directories(folder / "out.partial-backup/deep");
  fs::create_directory(folder / "out.partial-abcdefghijkl");
  fs::create_directory(folder / "other.partial-abc123");
  fs::create_directory(folder / "copies");
  fs::copy(left, fs::path(folder / "copies") / fs::path(left).filename(),
           fs::copy_options::recursive);
  {
    const PartialFolder first(folder / "out");
    CHECK_FALSE(fs::exists(left));
    CHECK(refusal(folder / "out") == folder / "out: cannot be written: another run is writing it");
    CHECK(refusal(folder / "other2") == "");
  }
  CHECK(folder.list() ==
        Names{"copies", "other.partial-abc123", "out.partial-abcdefghijkl", "out.partial-backup"});
  CHECK(refusal(folder / "copies/out") == "");
  CHECK(folder.list("copies").size() == 1);
  CHECK(refusal(folder / "out") == "");
}

TEST_CASE("where the name is taken at the end, what was written stays and is named") {
  const TestFolder folder;
  std::string message;
  {
    PartialFolder out(folder / "out");
    std::ofstream(out / "file") << "text";
    fs::create_directory(folder / "out");
    folder.write("out/other", "text");
    try {
      out.commit();
    } catch (const UserError&) {
      FAIL("it is not the user's mistake");
    } catch (const Error& error) {
      message = error.what();
    }
  }
  const Names names = folder.list();
  REQUIRE(names.size() == 2);
  CHECK(names[0] == "out");
  CHECK(folder.list("out") == Names{"other"});
  CHECK(folder.list(names[1]) == Names{"file"});
  CHECK(message == concat(folder / "out", ": rename failed: Directory not empty; what was written ",
                          "is in ", folder / names[1]));
  fs::remove_all(folder / "out");
  CHECK(refusal(folder / "out") == "");  // another run begins
  CHECK(folder.list(names[1]) == Names{"file"});
}

}  // namespace
}  // namespace ladder
