// Texts that fit a terminal.
#include "common/io/terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <sstream>
#include <vector>

#include "tests/catch.h"

namespace ladder {
namespace {

TEST_CASE("the width is that of the terminal, and 80 where there is none") {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  winsize size = {};
  CHECK(terminal_width(terminal) == 80);  // it has not been told its width
  size.ws_col = 47;
  REQUIRE(ioctl(terminal, TIOCSWINSZ, &size) == 0);
  CHECK(terminal_width(terminal) == 47);
  close(terminal);
  const int file = open("/dev/null", O_WRONLY);
  CHECK(terminal_width(file) == 80);
  CHECK(terminal_width(-1) == 80);
  close(file);
}

TEST_CASE("a long line goes on below its last column") {
  const std::string text =
      "A line without columns that is long\n"
      "  --flag TEXT       What it is, in some words\n"
      "  --short           It\n"
      "\n";
  CHECK(wrapped(text, 80) == text);
  CHECK(wrapped(text, 30) ==
        "A line without columns that is\n"
        "long\n"
        "  --flag TEXT       What it\n"
        "                    is, in\n"
        "                    some words\n"
        "  --short           It\n"
        "\n");
}

// The words of a text, which wrapping keeps, in their order.
std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

TEST_CASE("help fits every width, and has all of its words") {
  CLI::App app("Does what such a program does, which takes a line of more than eighty columns.",
               "x");
  std::string value;
  bool on = false;
  app.add_option("--with-a-name-that-is-rather-long", value,
                 "A text that is so long that no terminal of eighty columns has room for it all");
  app.add_flag("--on", on, "Or not");
  app.footer("Example: x --on\nPage: lessons/x/README.md");
  const std::string help = app.help();
  for (size_t width = 10; width < 200; ++width) {
    const std::string text = wrapped(help, width);
    CHECK(words_of(text) == words_of(help));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const bool is_one_word = words_of(line).size() <= 2;  // a flag and its type, or a long word
      CHECK((line.size() <= width || is_one_word));
    }
  }
  CHECK(help_text(app) == wrapped(help, terminal_width(STDOUT_FILENO)));
}

}  // namespace
}  // namespace ladder
