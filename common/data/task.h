// Tasks: files of lines, each of which is an example to learn from.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/data/corpus.h"

namespace ladder {

// What the lines of a task become.
struct TaskRules {
  size_t sequence_length = 0;                                      // the most tokens of an example
  std::function<std::vector<int32_t>(const std::string&)> encode;  // returns a text's tokens
  int32_t end = '\n';                                              // the token after an answer
  std::vector<std::string> labels = {};  // those of a classification head; empty: there is none
  bool is_text = true;                   // whether tokens are the bytes of the text
};

// Reads a task. The part of a line before the first tab, and what follows it, are
//   prompt and answer, without labels: the example is the prompt, the answer and the end. The
//     tokens of the answer and the end count, each as the target of the token before it;
//   label and text, with labels: the example is the text. At its last token the target is the
//     number of the label; no other token counts.
// Throws a UserError "--task PATH: line N ..." if a line has no tab, an empty part or a label that
// is not among the labels, or if its example is too long; and one if the file cannot be read or has
// less than Corpus::kExamplesForOne lines.
Corpus open_task(const std::string& path, const TaskRules& rules);

// Returns verses of the built-in text, each with its book as the label, as the text abbreviates it
// ("Ge", "Mat"). The labels of the rules are the books; other books are left out. A verse is
// without its reference, and cut to what a sequence has. Throws a UserError if a label is no book.
Corpus verses_of_books(const TaskRules& rules);

// The books that a head learns where nobody names others: law, poetry, prophecy, gospel.
inline const std::vector<std::string> kVerseBooks = {"Ge", "Psa", "Eze", "Luke"};

}  // namespace ladder
