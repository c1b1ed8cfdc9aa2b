// The Markdown files of the tree, as the tests that read them see them.
#pragma once

#include <string>
#include <vector>

namespace ladder {

// What a page says in prose and what it says in code. A block of C++ is neither.
struct Markdown {
  std::string prose;               // with a space in place of every piece of code
  std::vector<std::string> spans;  // `code` within prose, line ends replaced by spaces
  std::vector<std::string> lines;  // of the blocks between ``` and ```
};

Markdown read_markdown(const std::string& text);

// The texts of the headings, without code's backticks: "Run it".
std::vector<std::string> headings_of(const std::string& text);

}  // namespace ladder
