#include "common/io/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace ladder {

size_t terminal_width(int descriptor) {
  winsize size = {};
  const bool is_known = ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : 80;
}

bool replaces_lines(int descriptor) {
  const char* const kind = std::getenv("TERM");
  return isatty(descriptor) != 0 && (kind == nullptr || std::string_view(kind) != "dumb");
}

namespace {

// Returns the column where the text of a line begins: after its last two blanks, else its first
// word.
size_t text_column(const std::string& line) {
  const size_t gap = line.rfind("  ");
  const size_t begin = line.find_first_not_of(' ', gap == line.npos ? 0 : gap);
  return begin == line.npos ? 0 : begin;
}

std::string wrapped_line(const std::string& line, size_t width) {
  if (line.size() <= width) return line;
  size_t column = text_column(line);
  constexpr size_t kLeast = 10;  // columns for text; a terminal may be very narrow
  if (column + kLeast > width) column = 4;
  std::istringstream words(line.substr(text_column(line)));
  std::string text, last = line.substr(0, text_column(line));
  bool is_first = true;
  for (std::string word; words >> word; is_first = false) {
    if (!is_first && last.size() + 1 + word.size() > width) {
      text += last + "\n";
      last = std::string(column, ' ') + word;
    } else {
      last += (is_first ? "" : " ") + word;
    }
  }
  return text + last;
}

}  // namespace

std::string wrapped(const std::string& text, size_t width) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) result += wrapped_line(line, width) + "\n";
  return result;
}

std::string help_text(const CLI::App& app) {
  return wrapped(app.help(), terminal_width(STDOUT_FILENO));
}

}  // namespace ladder
