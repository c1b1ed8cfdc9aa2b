// Files that appear when they are whole: nothing else is touched, whatever lies or happens there.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "common/io/file.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace fs = std::filesystem;

namespace {

// The calls that give a file its name, in their order, and the one that fails. The program's own
// calls come here instead of the C library's, as its definitions go before a shared library's.
std::vector<std::string> calls;
std::string failing_call;

bool fails(const char* call) {
  calls.emplace_back(call);
  if (failing_call != call) return false;
  errno = EIO;
  return true;
}

}  // namespace

extern "C" int fsync(int descriptor) {
  if (fails("fsync")) return -1;
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  if (fails("rename")) return -1;
  return static_cast<int>(syscall(SYS_rename, from, to));
}

namespace ladder {
namespace {

using Names = std::vector<std::string>;

// The message of the UserError that making a file at `path` throws; "" if it throws none.
std::string refusal(const std::string& path) {
  try {
    const PartialFile file(path);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a file appears when it is committed, and only then") {
  const TestFolder folder;
  const std::string path = folder / "fresh";
  PartialFile file(path);
  file.write("hello ");
  file.write("world");
  CHECK_FALSE(fs::exists(path));
  REQUIRE(folder.list().size() == 1);
  CHECK_THAT(folder.list()[0], StartsWith("fresh.partial-"));
  file.commit();
  CHECK(text_of(path) == "hello world");
  CHECK_THROWS_AS(file.write("more"), Error);
  CHECK_THROWS_AS(file.commit(), Error);
  CHECK_THROWS_AS(file.publish(), Error);
  CHECK(folder.list() == Names{"fresh"});
}

TEST_CASE("a published file has its name and grows until it is committed") {
  const TestFolder folder;
  const std::string path = folder.write("grows", "old");
  {
    PartialFile file(path);
    file.write("one\n");
    CHECK(text_of(path) == "old");
    file.publish();
    CHECK(text_of(path) == "one\n");
    CHECK_THROWS_AS(file.publish(), Error);
    file.write("two\n");
    CHECK(text_of(path) == "one\ntwo\n");
    file.commit();
  }
  {
    PartialFile unfinished(path);
    unfinished.write("three\n");
    unfinished.publish();
    unfinished.write("four\n");
  }
  CHECK(text_of(path) == "three\nfour\n");
  CHECK(folder.list() == Names{"grows"});
}

TEST_CASE("an unfinished file leaves the old one and no trace") {
  const TestFolder folder;
  const std::string path = folder.write("kept", "old");
  { PartialFile(path).write("new"); }
  CHECK(text_of(path) == "old");
  CHECK(folder.list() == Names{"kept"});
}

TEST_CASE("the bytes are on the disk before the file has its name") {
  const TestFolder folder;
  const std::string path = folder.write("file", "old");
  const auto write_file = [&](const std::string& failing = "") {
    PartialFile file(path);
    file.write("new");
    calls.clear();
    failing_call = failing;
    file.commit();
  };
  SECTION("in this order") {
    write_file();
    CHECK(calls == Names{"fsync", "rename", "fsync"});  // last the folder's
    CHECK(text_of(path) == "new");
  }
  SECTION("and where one of the two fails, the old file stays") {
    const std::string failing = GENERATE("fsync", "rename");
    CHECK_THROWS_WITH(write_file(failing), path + ": " + failing + " failed: Input/output error");
    failing_call = "";
    CHECK(text_of(path) == "old");
  }
  SECTION("and what is added after the name is synced too") {
    PartialFile file(path);
    file.write("one");
    file.publish();
    file.write("two");
    calls.clear();
    file.commit();
    CHECK(calls == Names{"fsync"});
  }
  CHECK(folder.list() == Names{"file"});
}

TEST_CASE("a full disk is an Error and the old file stays") {
  const TestFolder folder;
  const std::string path = folder.write("full", "old");
  {
    PartialFile file(path);
    const FullDisk full(4096);
    CHECK_THROWS_WITH(file.write(std::string(10'000, 'x')),
                      path + ": write failed: File too large");
  }
  CHECK(text_of(path) == "old");
  CHECK(folder.list() == Names{"full"});
}

TEST_CASE("what a full disk cuts off is not in the file, and the next write goes on before it") {
  const TestFolder folder;
  const std::string path = folder / "cut";
  PartialFile file(path);
  file.write("whole\n");
  file.publish();
  {
    const FullDisk full(10);
    CHECK_THROWS_AS(file.write("cut off\n"), Error);
  }
  CHECK(text_of(path) == "whole\n");
  file.write("again\n");
  file.commit();
  CHECK(text_of(path) == "whole\nagain\n");
}

TEST_CASE("a name that is taken meanwhile is an Error") {
  const TestFolder folder;
  PartialFile file(folder / "taken");
  fs::create_directory(folder / "taken");
  CHECK_THROWS_AS(file.commit(), Error);
}

TEST_CASE("a link stays a link, and the file that it leads to is replaced") {
  const TestFolder folder;
  fs::create_directory(folder / "there");
  folder.write("there/target", "old");
  fs::create_symlink("there/target", folder / "link");
  fs::create_symlink("link", folder / "link to link");
  fs::create_symlink(folder / "there/fresh", folder / "dangling");
  for (const auto& [link, target] : std::vector<std::pair<std::string, std::string>>{
           {"link", "target"}, {"link to link", "target"}, {"dangling", "fresh"}}) {
    CAPTURE(link);
    PartialFile file(folder / link);
    file.write("new through " + link);
    CHECK(folder.list().size() == 4);  // the partial file is where the target is
    file.commit();
    CHECK(fs::is_symlink(folder / link));
    CHECK(text_of(folder / ("there/" + target)) == "new through " + link);
    CHECK_FALSE(fs::is_symlink(folder / ("there/" + target)));
  }
  CHECK(folder.list("there") == Names{"fresh", "target"});
  fs::create_symlink("loop", folder / "loop");
  CHECK_THAT(refusal(folder / "loop"), ContainsSubstring("loop: cannot be written: "));
}

// Leaves the partial file of a run that was killed, and returns its name.
std::string leave(const TestFolder& folder, const std::string& of) {
  const std::vector<std::string> before = folder.list();
  const pid_t child = fork();
  if (child == 0) {
    PartialFile file(folder / of);
    file.write("half");
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  for (const std::string& name : folder.list()) {
    if (std::ranges::count(before, name) == 0) return name;
  }
  FAIL("a killed run has left nothing");
  return "";
}

TEST_CASE("files that are called like partial files of others stay") {
  const TestFolder folder;
  folder.write("victim", "precious");
  fs::create_symlink("victim", folder / "x.partial");
  fs::create_symlink("victim", folder / "x.partial-abcdef");
  REQUIRE(mkfifo((folder / "x.partial-abcdeg").c_str(), 0600) == 0);
  const Names others = {"x.partial-backup",  "x.partial-abcdefghijkl", "x.partial-abcdefg",
                        "xy.partial-abcdef", "y.partial-abcdef",       "x.partialxabcdef"};
  for (const std::string& name : others) folder.write(name, "other");
  PartialFile file(folder / "x");
  file.commit();
  CHECK(text_of(folder / "victim") == "precious");
  CHECK(fs::is_symlink(folder / "x.partial"));
  CHECK(fs::is_symlink(folder / "x.partial-abcdef"));
  CHECK(fs::is_fifo(folder / "x.partial-abcdeg"));
  for (const std::string& name : others) CHECK(text_of(folder / name) == "other");
}

TEST_CASE("a copy of what a killed run has left stays, and so does what has got another name") {
  const TestFolder folder;
  const std::string left = leave(folder, "x"), rescued = "x.partial-rescued12345";
  fs::create_directory(folder / "copies");
  fs::copy_file(folder / left, folder / "copies/" + left);
  fs::rename(folder / left, folder / rescued);
  { const PartialFile file(folder / "x"); }
  { const PartialFile file(folder / "copies/x"); }
  CHECK(folder.list("copies") == Names{left});
  CHECK(text_of(folder / rescued) == "half");
}

TEST_CASE("what a killed run has left is removed by the next one that writes the same file") {
  const TestFolder folder;
  leave(folder, "x");
  { const PartialFile other(folder / "y"); }
  CHECK(folder.list().size() == 1);
  { const PartialFile file(folder / "x"); }
  CHECK(folder.list().empty());
}

TEST_CASE("a file has one writer at a time") {
  const TestFolder folder;
  const std::string path = folder / "x",
                    message = path + ": cannot be written: another run is writing it";
  {
    PartialFile file(path);
    const PartialFile other(folder / "y");
    CHECK(refusal(path) == message);
    CHECK(folder.list().size() == 2);  // the refused one has left nothing
    file.write("line\n");
    file.publish();
    CHECK(refusal(path) == message);
    file.write("another\n");
  }
  CHECK(refusal(path) == "");
  CHECK(text_of(path) == "line\nanother\n");
}

TEST_CASE("a path that cannot be written is the user's mistake") {
  const TestFolder folder;
  CHECK(refusal(folder / "no/folder/file") ==
        folder / "no/folder/file: cannot be written: No such file or directory");
  folder.write("plain", "");
  CHECK_THAT(refusal(folder / "plain/file"), ContainsSubstring("Not a directory"));
  fs::create_directory(folder / "folder");
  CHECK_THAT(refusal(folder / "folder"),
             ContainsSubstring("it is a folder, expected a regular file"));
  CHECK_THAT(refusal(folder / "new/"), ContainsSubstring("it names a folder, expected a file"));
  CHECK_THAT(refusal("/dev/null"), ContainsSubstring("it is a device, expected a regular file"));
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(refusal(folder / "pipe"), ContainsSubstring("it is a pipe, expected a regular file"));
  CHECK_THAT(refusal(folder / std::string(250, 'n')), ContainsSubstring("File name too long"));
  CHECK(folder.list() == Names{"folder", "pipe", "plain"});
}

TEST_CASE("where the program prints to, no file is put") {
  const TestFolder folder;
  const int stream = GENERATE(1, 2);
  const std::string path = folder.write("log", "printed");
  const int saved = dup(stream), log = open(path.c_str(), O_WRONLY | O_APPEND);
  REQUIRE(dup2(log, stream) == stream);
  const std::string by_name = refusal(path), by_link = refusal(concat("/proc/self/fd/", stream));
  REQUIRE(dup2(saved, stream) == stream);
  close(saved);
  close(log);
  CHECK_THAT(by_name,
             ContainsSubstring("log: cannot be written: what this program prints goes there"));
  CHECK_THAT(by_link, ContainsSubstring("cannot be written: what this program prints goes there"));
  CHECK(text_of(path) == "printed");
}

}  // namespace
}  // namespace ladder
