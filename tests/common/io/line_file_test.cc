// Text that grows line by line, in files and in streams.
#include "common/io/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

TEST_CASE("lines can be read as soon as they are written, and an old file goes with the first") {
  const TestFolder folder;
  const std::string path = folder.write("lines", "old\n");
  LineFile file(path);
  CHECK(text_of(path) == "old\n");
  file.write("one\n");
  CHECK(text_of(path) == "one\n");
  file.write("two\n");
  CHECK(text_of(path) == "one\ntwo\n");
  file.finish();
  CHECK(text_of(path) == "one\ntwo\n");
  CHECK(folder.list() == std::vector<std::string>{"lines"});
}

TEST_CASE("a file without a line leaves the old one; with one it stays, also unfinished") {
  const TestFolder folder;
  const std::string path = folder.write("lines", "old\n");
  { const LineFile nothing(path); }
  CHECK(text_of(path) == "old\n");
  { LineFile(path).write("one\n"); }
  CHECK(text_of(path) == "one\n");
  CHECK(folder.list().size() == 1);
}

TEST_CASE("a full disk leaves whole lines, and before the first one the old file") {
  const TestFolder folder;
  const std::string path = folder.write("lines", "old\n");
  {
    LineFile file(path);
    const FullDisk full(3);
    CHECK_THROWS_WITH(file.write("one\n"), ContainsSubstring("lines: write failed"));
  }
  CHECK(text_of(path) == "old\n");
  LineFile file(path);
  file.write("one\n");
  const FullDisk full(6);
  CHECK_THROWS_WITH(file.write("two\n"), ContainsSubstring("lines: write failed"));
  CHECK(text_of(path) == "one\n");
}

TEST_CASE("a file begins with what is kept of the old one, which stays until the first line") {
  const TestFolder folder;
  const std::string path = folder.write("lines", "old\nolder\n");
  fs::create_symlink("lines", folder / "link");
  const auto first_four = [](std::string_view text) {
    CHECK(text == "old\nolder\n");
    return size_t{4};
  };
  { const LineFile nothing(path, first_four); }
  CHECK(text_of(path) == "old\nolder\n");
  LineFile file(folder / "link", first_four);
  CHECK(text_of(path) == "old\nolder\n");
  file.write("new\n");
  CHECK(text_of(path) == "old\nnew\n");
  file.finish();
  CHECK(fs::is_symlink(folder / "link"));
  CHECK_THROWS_AS(LineFile(path, [](std::string_view) -> size_t { throw UserError("foreign"); }),
                  UserError);
  CHECK(text_of(path) == "old\nnew\n");
  CHECK(folder.list() == std::vector<std::string>{"lines", "link"});
  const auto never = [](std::string_view) -> size_t { throw UserError("nothing is there"); };
  CHECK_NOTHROW(LineFile(folder / "missing", never));
  folder.write("empty", "");
  LineFile(folder / "empty", [](std::string_view text) { return text.size(); }).write("one\n");
  CHECK(text_of(folder / "empty") == "one\n");
  LineFile("/dev/null", never).write("gone\n");
}

TEST_CASE("a file is written through a link") {
  const TestFolder folder;
  fs::create_symlink("target", folder / "link");
  LineFile file(folder / "link");
  file.write("one\n");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(text_of(folder / "target") == "one\n");
}

// What the pipe's other end has to read now.
std::string contents(int pipe_end) {
  std::array<char, 100> buffer;
  const ssize_t count = read(pipe_end, buffer.data(), buffer.size());
  return count <= 0 ? "" : std::string(buffer.data(), static_cast<size_t>(count));
}

TEST_CASE("a pipe is written as it is") {
  const TestFolder folder;
  const std::string path = folder / "pipe";
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK_THROWS_AS(LineFile(path), UserError);
  CHECK_THROWS_WITH(LineFile(path), path + ": nobody reads this pipe; start its reader first");
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  LineFile file(path);
  file.write("one\n");
  CHECK(contents(reader) == "one\n");
  file.write("two\n");
  file.finish();
  CHECK(contents(reader) == "two\n");
  CHECK(fs::is_fifo(path));
  CHECK(folder.list().size() == 1);
  // A pipe that is full makes the writer wait: the descriptor blocks.
  const auto handler = std::signal(SIGPIPE, SIG_IGN);
  close(reader);
  CHECK_THROWS_WITH(file.write("three\n"), path + ": write failed: Broken pipe");
  std::signal(SIGPIPE, handler);
}

TEST_CASE("a pipe that is full is waited for") {
  const TestFolder folder;
  const std::string path = folder / "pipe";
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  LineFile file(path);
  const pid_t child = fork();
  if (child == 0) {
    file.write(std::string(300'000, 'x'));  // more than a pipe holds
    _exit(0);
  }
  size_t received = 0;
  while (received < 300'000) {
    const std::string part = contents(reader);
    received += part.size();
  }
  CHECK(received == 300'000);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  close(reader);
}

TEST_CASE("devices take lines; folders and full devices do not") {
  const TestFolder folder;
  LineFile("/dev/null").write("gone\n");
  CHECK(fs::is_character_file("/dev/null"));
  LineFile full("/dev/full");
  CHECK_THROWS_WITH(full.write("x\n"), "/dev/full: write failed: No space left on device");
  CHECK_THROWS_AS(LineFile(folder.path()), UserError);
  CHECK_THROWS_AS(LineFile(folder / "no/folder"), UserError);
  CHECK(folder.list().empty());
}

TEST_CASE("lines to where the program prints stand among what it prints") {
  const TestFolder folder;
  const std::string path = folder.write("log", "before\n");
  const bool by_name = GENERATE(true, false);
  const int saved = dup(STDOUT_FILENO), log = open(path.c_str(), O_WRONLY | O_APPEND);
  REQUIRE(dup2(log, STDOUT_FILENO) == STDOUT_FILENO);
  {
    LineFile file(by_name ? path : "/dev/stdout");
    file.write("line\n");
    CHECK(write(STDOUT_FILENO, "after\n", 6) == 6);
    file.finish();
  }
  REQUIRE(dup2(saved, STDOUT_FILENO) == STDOUT_FILENO);
  close(saved);
  close(log);
  CHECK(text_of(path) == "before\nline\nafter\n");
}

}  // namespace
}  // namespace ladder
