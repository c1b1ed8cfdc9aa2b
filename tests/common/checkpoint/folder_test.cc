// The folder of checkpoints: what counts as one, what is removed, and who may write.
#include "common/checkpoint/folder.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/checkpoint/checkpoints.h"

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
  const std::string partial = checkpoints.begin(50);
  CHECK(partial == checkpoint_path(unfinished_path(path, checkpoints.unfinished_name()), 50));
  CHECK_THAT(partial, StartsWith(path + "/.unfinished.partial-"));
  std::ofstream(partial + "/file") << "x";
  CHECK(checkpoints_in(path).empty());
  checkpoints.publish(50);
  CHECK(checkpoints_in(path) == Steps{50});
  CHECK(checkpoint_path(path + "/", 50) == path + "/step_00000050");
  CHECK(folder.list("a/b").size() == 2);  // and the hidden folder
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
        ".step_00000030", "other"}) {
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

// Leaves what a run has when it is killed while it writes a checkpoint.
void leave(const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    CheckpointFolder checkpoints(path);
    std::ofstream(checkpoints.begin(5) + "/file") << "half" << std::flush;
    kill(getpid(), SIGKILL);
  }
  REQUIRE(waitpid(child, nullptr, 0) == child);
}

TEST_CASE("what a killed run has left is removed, and nothing else") {
  const TestFolder folder;
  const Names others = {".partial_step_00000030",
                        ".removed_step_00000010",
                        ".unfinished.partial-abcdef",
                        ".unfinished.partial-abcdefghijkl",
                        ".unfinished.partial-backup.txt",
                        "step_00000020",
                        "step_x"};
  for (const std::string& name : others) make(folder, name);
  leave(folder.path());
  REQUIRE(folder.list().size() == others.size() + 1);
  {
    const CheckpointFolder checkpoints(folder.path());
    CHECK(folder.list().size() == others.size() + 1);  // its own
    CHECK(checkpoints.left_over() == "");
  }
  CHECK(folder.list() == others);
  for (const std::string& name : others) CHECK(folder.list(name) == Names{"file"});
}

TEST_CASE("a start that cannot remove what a killed run has left says so and goes on") {
  const TestFolder folder;
  leave(folder.path());
  const std::string left = folder / folder.list().at(0), mounted = left + "/step_00000005";
  // A mounted folder cannot be removed, not even by root.
  const bool is_mounted = unshare(CLONE_NEWNS) == 0 &&
                          mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                          mount("none", mounted.c_str(), "tmpfs", 0, nullptr) == 0;
  if (!is_mounted) {
    WARN("skipped: this user may not mount a file system");
    return;
  }
  {
    CheckpointFolder checkpoints(folder.path());
    CHECK(checkpoints.left_over() == concat("  left     cannot remove what a killed run left: ",
                                            left, ": Device or resource busy\n"));
    checkpoints.begin(5);
    checkpoints.publish(5);
  }
  CHECK(umount(mounted.c_str()) == 0);
  CHECK(checkpoints_in(folder.path()) == Steps{5});
  { const CheckpointFolder checkpoints(folder.path()); }
  CHECK(folder.list() == Names{"step_00000005"});
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

TEST_CASE("the newest are kept, and what is no checkpoint of this step neither goes nor counts") {
  const TestFolder folder;
  for (int64_t step : {10, 20, 30, 40}) write_checkpoint(folder.path(), {}, step);
  const Names others = {"other", "step_00000001", "step_00000007", "step_00000099"};
  for (const char* name : {"other", "step_00000001", "step_00000099"}) make(folder, name);
  fs::copy(folder / "step_00000040", folder / "step_00000007");  // a copy by hand
  folder.write("step_00000010/notes.txt", "precious");
  const auto steps_there = [&] {
    Names names;
    for (const std::string& name : folder.list()) {
      if (std::ranges::count(others, name) == 0 && !name.starts_with(".")) names.push_back(name);
    }
    return names;
  };
  CheckpointFolder checkpoints(folder.path());
  CHECK(checkpoints.remove_all_but(5).empty());
  CHECK(checkpoints.remove_all_but(3) ==
        Names{folder / "step_00000010: \"notes.txt\" in it is no part of a checkpoint"});
  CHECK(checkpoints.remove_all_but(2).empty());  // it has been said
  CHECK(steps_there() == Names{"step_00000010", "step_00000030", "step_00000040"});
  fs::remove(folder / "step_00000010/notes.txt");
  CHECK(checkpoints.remove_all_but(1).empty());
  CHECK(steps_there() == Names{"step_00000040"});
  for (const std::string& name : others) CHECK_FALSE(folder.list(name).empty());
  CHECK(fs::is_empty(unfinished_path(folder.path(), checkpoints.unfinished_name())));
}

TEST_CASE("a checkpoint that cannot be removed stays, is named, and ends nothing") {
  const TestFolder folder;
  for (int64_t step : {10, 20}) write_checkpoint(folder.path(), {}, step);
  CheckpointFolder checkpoints(folder.path());
  // In place of the hidden folder there is a file, so nothing can be put there.
  fs::remove(unfinished_path(folder.path(), checkpoints.unfinished_name()));
  folder.write(fs::path(unfinished_path("", checkpoints.unfinished_name())).filename(), "");
  CHECK(checkpoints.remove_all_but(1) == Names{folder / "step_00000010: Not a directory"});
  CHECK(checkpoints.remove_all_but(1).empty());
  CHECK(checkpoints_in(folder.path()) == Steps{10, 20});
}

TEST_CASE("checkpoints do not lie in checkpoints") {
  const TestFolder folder;
  const std::string checkpoint = write_checkpoint(folder / "c", {}, 10);
  const std::string rest =
      ": is a checkpoint or lies in one; name the folder that has the checkpoints, or a new one";
  CHECK(refusal(checkpoint) == rest);
  CHECK(refusal(checkpoint + "/deep/er") == rest);
  CHECK(refusal(folder / "c/step_00000020") == rest);  // there is none yet
  fs::rename(checkpoint, folder / "renamed");
  CHECK(refusal(folder / "renamed") == rest);
  folder.write("checkpoint.json", "{\"of\": \"another program\"}");
  CHECK(refusal(folder / "d") == "");
  CHECK(folder.list("renamed") == Names{"checkpoint.json", "rank_0000.safetensors"});
}

TEST_CASE("which files a run has begun is known until there is a checkpoint") {
  const TestFolder folder;
  const std::set<std::string> begun = {"/a/metrics", "/a/\n"};
  {
    CheckpointFolder checkpoints(folder / "c");
    CHECK(checkpoints.begun().empty());
    checkpoints.note_begun({});
    checkpoints.note_begun(begun);
  }
  CHECK(folder.list("c").size() == 1);
  {
    CheckpointFolder checkpoints(folder / "c");
    CHECK(checkpoints.begun() == begun);
    checkpoints.begin(1);
    checkpoints.publish(1);
    CHECK(checkpoints.begun().empty());
  }
  CHECK(folder.list("c") == Names{"step_00000001"});
  // What somebody else has put there says nothing, and stays.
  const std::string text = GENERATE("", "{", "{\"files\": [\"/a/metrics\"]}", "[]");
  folder.write("c/.begun", text);
  CheckpointFolder checkpoints(folder / "c");
  CHECK(checkpoints.begun().empty());
  checkpoints.begin(2);
  checkpoints.publish(2);
  CHECK(text_of(folder / "c/.begun") == text);
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
