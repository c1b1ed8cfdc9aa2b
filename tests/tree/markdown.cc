#include "tests/tree/markdown.h"

#include <algorithm>

#include "tests/tree/tree.h"

namespace ladder {
namespace {

std::string without_indent(const std::string& line) {
  const size_t first = line.find_first_not_of(' ');
  return first == std::string::npos ? "" : line.substr(first);
}

// Splits text without blocks into prose and spans.
void add_prose(const std::string& text, Markdown& page) {
  size_t at = 0;
  while (true) {
    const size_t begin = text.find('`', at);
    const size_t end = begin == std::string::npos ? begin : text.find('`', begin + 1);
    page.prose += text.substr(at, begin - at);
    if (end == std::string::npos) return;
    std::string span = text.substr(begin + 1, end - begin - 1);
    std::ranges::replace(span, '\n', ' ');
    page.spans.push_back(span);
    page.prose += ' ';
    at = end + 1;
  }
}

}  // namespace

Markdown read_markdown(const std::string& text) {
  Markdown page;
  std::string prose;
  bool in_block = false, is_cpp_block = false;
  for (const std::string& line : lines_of(text)) {
    if (without_indent(line).starts_with("```")) {
      in_block = !in_block;
      is_cpp_block = line.ends_with("cpp");
      prose += '\n';
    } else if (!in_block) {
      prose += line + '\n';
    } else if (!is_cpp_block) {
      page.lines.push_back(line);
    }
  }
  add_prose(prose, page);
  return page;
}

std::vector<std::string> headings_of(const std::string& text) {
  std::vector<std::string> headings;
  bool in_block = false;
  for (const std::string& line : lines_of(text)) {
    if (without_indent(line).starts_with("```")) in_block = !in_block;
    const size_t level = line.find_first_not_of('#');
    if (in_block || level == 0 || level == std::string::npos || line[level] != ' ') continue;
    std::string heading = line.substr(level + 1);
    std::erase(heading, '`');
    headings.push_back(heading);
  }
  return headings;
}

}  // namespace ladder
