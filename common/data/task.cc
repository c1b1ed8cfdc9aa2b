#include "common/data/task.h"

#include <algorithm>

#include "common/data/king_james.h"
#include "common/io/file.h"
#include "common/io/printable.h"
#include "common/io/text.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/target.h"

namespace ladder {
namespace {

// Calls body(line, number) for each line of a text, without its end (\n, or \r\n).
template <class Body>
void for_lines(std::string_view text, Body body) {
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    body(line, number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// Makes examples of a file's lines.
class TaskReader {
 public:
  TaskReader(const std::string& path, const TaskRules& rules) : path_(path), rules_(rules) {}

  Examples read() {
    const std::string text = named_file();
    for_lines(without_mark(text), [this](std::string_view line, size_t number) {
      number_ = number;
      add(line);
    });
    if (examples_.size() < Corpus::kExamplesForOne) {
      throw UserError(concat("--task ", path_, ": has ", counted(examples_.size(), "line"),
                             "; every tenth is for validation, so there must be ",
                             Corpus::kExamplesForOne, " or more"));
    }
    return std::move(examples_);
  }

 private:
  std::string named_file() const {
    const InputFile file(path_, "--task");
    return file.text(0, file.size());
  }

  template <class... Why>
  [[noreturn]] void refuse(const Why&... why) const {
    throw UserError(concat("--task ", path_, ": line ", number_, " ", why...));
  }

  void add(std::string_view line) {
    const bool has_labels = !rules_.labels.empty();
    const size_t tab = line.find('\t');
    if (tab == line.npos) {
      refuse("has no tab; expected ", has_labels ? "label<TAB>text" : "prompt<TAB>answer");
    }
    const std::string first(line.substr(0, tab)), second(line.substr(tab + 1));
    if (first.empty()) refuse("has an empty ", has_labels ? "label" : "prompt");
    if (second.empty()) refuse("has an empty ", has_labels ? "text" : "answer");
    has_labels ? add_labelled(first, second) : add_pair(first, second);
  }

  void add_pair(const std::string& prompt, const std::string& answer) {
    std::vector<int32_t> tokens = encode(prompt);
    const size_t first = tokens.size() - 1;  // the token whose target is the answer's first
    for (const int32_t token : encode(answer)) tokens.push_back(token);
    require_fit(tokens.size());
    std::vector<int32_t> targets(tokens.begin() + 1, tokens.end());
    targets.push_back(rules_.end);
    std::fill_n(targets.begin(), first, kIgnored);
    examples_.add(tokens, targets);
  }

  void add_labelled(const std::string& label, const std::string& text) {
    const auto found = std::ranges::find(rules_.labels, label);
    if (found == rules_.labels.end()) {
      refuse("has the label ", quoted_name(label), ", which the head does not know; it has ",
             listed(rules_.labels));
    }
    const std::vector<int32_t> tokens = encode(text);
    require_fit(tokens.size());
    std::vector<int32_t> targets(tokens.size(), kIgnored);
    targets.back() = static_cast<int32_t>(found - rules_.labels.begin());
    examples_.add(tokens, targets);
  }

  std::vector<int32_t> encode(const std::string& text) const {
    try {
      return rules_.encode(text);
    } catch (const UserError& error) {
      refuse("cannot become tokens: ", error.what());
    }
  }

  void require_fit(size_t num_tokens) const {
    if (num_tokens <= rules_.sequence_length) return;
    refuse("has ", num_tokens, " tokens, and a sequence ", rules_.sequence_length,
           "; shorten it, or take a longer --sequence-length");
  }

  std::string path_;
  const TaskRules& rules_;
  Examples examples_;
  size_t number_ = 0;
};

// A line of the built-in text: "Ge1:1 In the beginning ...".
struct Verse {
  std::string_view book, text;
};

Verse verse_of(std::string_view line) {
  const size_t blank = line.find(' '), colon = line.find(':');
  check(blank != line.npos && colon < blank, "the built-in text has a line that is no verse");
  size_t chapter = colon;
  while (chapter > 0 && line[chapter - 1] >= '0' && line[chapter - 1] <= '9') --chapter;
  return {line.substr(0, chapter), line.substr(blank + 1)};
}

}  // namespace

Corpus open_task(const std::string& path, const TaskRules& rules) {
  return Corpus::of_examples(path, TaskReader(path, rules).read(), rules.is_text, path);
}

Corpus verses_of_books(const TaskRules& rules) {
  Examples examples;
  std::vector<size_t> counts(rules.labels.size());
  std::vector<std::string> books;
  for_lines(king_james_text(), [&](std::string_view line, size_t) {
    const Verse verse = verse_of(line);
    if (books.empty() || books.back() != verse.book) books.emplace_back(verse.book);
    const auto found = std::ranges::find(rules.labels, verse.book);
    if (found == rules.labels.end()) return;
    const auto label = static_cast<size_t>(found - rules.labels.begin());
    std::vector<int32_t> tokens = rules.encode(std::string(verse.text));
    tokens.resize(std::min(tokens.size(), rules.sequence_length));
    std::vector<int32_t> targets(tokens.size(), kIgnored);
    targets.back() = static_cast<int32_t>(label);
    examples.add(tokens, targets);
    ++counts[label];
  });
  for (size_t label = 0; label < counts.size(); ++label) {
    if (counts[label] > 0) continue;
    throw UserError(
        concat("--labels: without --task they are books of the built-in text, which has no ",
               quoted_name(rules.labels[label]), "; it has ", listed(books)));
  }
  return Corpus::of_examples("verses of the King James text (built in)", std::move(examples),
                             rules.is_text);
}

}  // namespace ladder
