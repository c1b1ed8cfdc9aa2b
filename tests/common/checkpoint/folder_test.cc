// The folder of checkpoints: what counts as one, what is removed, and who may write.
#include "common/checkpoint/folder.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;
using Steps = std::vector<int64_t>;

// What is said of a folder that is to be written; "" if it can be.
std::string refusal(const std::string& path) {
  try {
    const CheckpointFolder folder(path);
  } catch (const UserError& error) {
    CHECK_THAT(error.what(), StartsWith(path) && !ContainsSubstring("\n"));
    return std::string(error.what()).substr(path.size());
  }
  return "";
}

// Makes a folder with a file in it.
void make(const TestFolder& folder, const std::string& name) {
  fs::create_directories(folder / name);
  folder.write(name + "/file", "x");
}

TEST_CASE("a checkpoint appears when it is published, as a whole") {
  const TestFolder folder;
  const std::string path = folder / "a/b";
  CheckpointFolder checkpoints(path);
  CHECK(checkpoints_in(path).empty());
  checkpoints.begin(50);
  CHECK(partial_checkpoint_path(path, 50) == path + "/.partial_step_00000050");
  folder.write("a/b/.partial_step_00000050/file", "x");
  CHECK(checkpoints_in(path).empty());
  checkpoints.publish(50);
  CHECK(checkpoints_in(path) == Steps{50});
  CHECK(checkpoint_path(path + "/", 50) == path + "/step_00000050");
  CHECK(folder.list("a/b") == Names{"step_00000050"});
  CHECK(folder.list("a/b/step_00000050") == Names{"file"});
}

TEST_CASE("a checkpoint that is there is not replaced") {
  const TestFolder folder;
  make(folder, "step_00000050");
  CheckpointFolder checkpoints(folder.path());
  checkpoints.begin(50);
  CHECK_THROWS_WITH(checkpoints.publish(50),
                    ContainsSubstring("rename failed: Directory not empty"));
  CHECK(folder.list("step_00000050") == Names{"file"});
}

TEST_CASE("steps are found by their names, in their order") {
  const TestFolder folder;
  for (const char* name :
       {"step_00000100", "step_00000020", "step_123456789", "step_9223372036854775807",
        "step_00000000", "step_9223372036854775808", "step_99999999999999999999", "step_20",
        "step_000000020", "step_-0000002", "step_0000002x", "step_", "xstep_00000020",
        ".partial_step_00000030", ".removed_step_00000010", "other"}) {
    make(folder, name);
  }
  CHECK(checkpoints_in(folder.path()) == Steps{20, 100, 123'456'789, INT64_MAX});
  CHECK(checkpoints_in(folder / "none").empty());
}

TEST_CASE("what is in the way of a checkpoint is named") {
  const TestFolder folder;
  const std::string path = folder / "step_00000020";
  SECTION("a file") {
    folder.write("step_00000020", "");
    CHECK_THROWS_WITH(checkpoints_in(folder.path()), path + ": is a file, expected a folder");
  }
  SECTION("a link") {
    make(folder, "other");
    fs::create_symlink("other", path);
    CHECK_THROWS_WITH(checkpoints_in(folder.path()), path + ": is a link; name the folder itself");
  }
  CHECK_THROWS_AS(checkpoints_in(folder.path()), UserError);
}

TEST_CASE("a path that is no folder is refused, for reading and for writing") {
  const TestFolder folder;
  fs::create_directory(folder / "real");
  fs::create_symlink("real", folder / "link");
  fs::create_symlink("nowhere", folder / "dangling");
  folder.write("file", "");
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const auto [name, why] = GENERATE(table<std::string, std::string>({
      {"link", ": is a link; name the folder itself"},
      {"dangling", ": is a link; name the folder itself"},
      {"file", ": is a file, expected a folder"},
      {"pipe", ": is a pipe, expected a folder"},
  }));
  CHECK(refusal(folder / name) == why);
  CHECK_THROWS_WITH(checkpoints_in(folder / name), folder / name + why);
  CHECK_THROWS_WITH(checkpoints_in(folder / name + "/"), folder / name + why);
  CHECK_THAT(refusal(folder / "file/c"), ContainsSubstring("Not a directory"));
}

TEST_CASE("a folder has one writer at a time, and any number of readers") {
  const TestFolder folder;
  {
    const CheckpointFolder first(folder.path());
    CHECK(refusal(folder.path()) == ": another run is writing there; name a folder for each");
    CHECK(checkpoints_in(folder.path()).empty());
  }
  CHECK(refusal(folder.path()) == "");
}

TEST_CASE("what a killed run has left is removed, and nothing else") {
  const TestFolder folder;
  for (const char* name :
       {".partial_step_00000030", ".partial_step_00000001", ".removed_step_00000010"}) {
    make(folder, name);
  }
  const Names others = {".partial_",
                        ".partial_notes",
                        ".partial_step_3",
                        ".removed_step_00000010.txt",
                        "partial_step_00000030",
                        "step_00000020",
                        "step_x"};
  for (const std::string& name : others) make(folder, name);
  { const CheckpointFolder checkpoints(folder.path()); }
  CHECK(folder.list() == others);
  for (const std::string& name : others) CHECK(folder.list(name) == Names{"file"});
}

TEST_CASE("a link with the name of a leftover is removed, not what it leads to") {
  const TestFolder folder;
  make(folder, "precious");
  fs::create_symlink("precious", folder / ".partial_step_00000030");
  { const CheckpointFolder checkpoints(folder.path()); }
  CHECK(folder.list() == Names{"precious"});
  CHECK(folder.list("precious") == Names{"file"});
}

TEST_CASE("a folder that was missing goes again if nothing comes into it") {
  const TestFolder folder;
  { const CheckpointFolder checkpoints(folder / "a/b"); }
  CHECK(folder.list().empty());
  {
    CheckpointFolder checkpoints(folder / "a/b");
    checkpoints.begin(5);
  }
  CHECK(folder.list().empty());
}

TEST_CASE("the newest are kept") {
  const TestFolder folder;
  for (const char* name : {"step_00000010", "step_00000020", "step_00000030", "other"}) {
    make(folder, name);
  }
  CheckpointFolder checkpoints(folder.path());
  checkpoints.remove_all_but(5);
  CHECK(checkpoints_in(folder.path()) == Steps{10, 20, 30});
  checkpoints.remove_all_but(2);
  CHECK(checkpoints_in(folder.path()) == Steps{20, 30});
  checkpoints.remove_all_but(1);
  CHECK(folder.list() == Names{"other", "step_00000030"});
}

TEST_CASE("a folder that cannot be written is refused before anything is computed") {
  const TestFolder folder;
  fs::create_directory(folder / "c");
  if (geteuid() != 0) {
    REQUIRE(chmod((folder / "c").c_str(), 0500) == 0);
    CHECK(refusal(folder / "c") == ": cannot be written: Permission denied");
    CHECK(refusal(folder / "c/d") == ": cannot be written: Permission denied");
    return;
  }
  // Root may write anywhere, except to a file system that is mounted to be read only.
  const std::string path = folder / "c";
  const bool is_mounted = unshare(CLONE_NEWNS) == 0 &&
                          mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                          mount("none", path.c_str(), "tmpfs", MS_RDONLY, nullptr) == 0;
  if (!is_mounted) {
    WARN("skipped: root writes anywhere, and this root may not mount a file system");
    return;
  }
  CHECK(refusal(path) == ": cannot be written: Read-only file system");
  CHECK(refusal(path + "/d") == ": cannot be written: Read-only file system");
  CHECK(umount(path.c_str()) == 0);
}

}  // namespace
}  // namespace ladder
