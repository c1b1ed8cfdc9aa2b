#include "common/data/task.h"

#include <algorithm>
#include <vector>

#include "kernels/runtime/check.h"
#include "kernels/runtime/target.h"
#include "tests/catch.h"
#include "tests/common/data/files.h"

namespace ladder {
namespace {

using Catch::Matchers::Message;

std::vector<int32_t> bytes(const std::string& text) {
  return {text.begin(), text.end()};  // ASCII
}

TaskRules rules(std::vector<std::string> labels = {}) {
  return {.sequence_length = 12, .encode = bytes, .labels = std::move(labels)};
}

std::string repeated(const std::string& line, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += line;
  return text;
}

std::vector<int32_t> values(std::span<const int32_t> tokens) {
  return {tokens.begin(), tokens.end()};
}

TEST_CASE("of a pair the answer and the end count, each at the token before it") {
  const TestFolder folder;
  const std::string path =
      folder.write("pairs.tsv", "1+2=\t3\r\nab\tc\td\n" + repeated("x\ty\n", 8) + "last\tline");
  const Corpus corpus = open_task(path, rules());
  CHECK(corpus.files() == std::vector<std::string>{path});
  CHECK(corpus.num_examples(Split::train) == 10);
  CHECK(corpus.is_text());
  const Example first = corpus.example(Split::train, 0);
  CHECK(values(first.tokens) == bytes("1+2=3"));
  CHECK(values(first.targets) == std::vector<int32_t>{kIgnored, kIgnored, kIgnored, '3', '\n'});
  CHECK(first.num_counted() == 2);
  CHECK(values(corpus.example(Split::train, 1).tokens) == bytes("abc\td"));  // a tab in an answer
  CHECK(values(corpus.example(Split::train, 9).tokens) == bytes("lastline"));
  CHECK(values(corpus.example(Split::validation, 0).tokens) == bytes("xy"));  // the tenth line
}

TEST_CASE("of a labelled text the label's number counts, at the last token") {
  const TestFolder folder;
  const std::string path = folder.write("labels.tsv", repeated("good\tyes\nbad\tno\n", 5));
  const Corpus corpus = open_task(path, rules({"bad", "good"}));
  const Example first = corpus.example(Split::train, 0), second = corpus.example(Split::train, 1);
  CHECK(values(first.tokens) == bytes("yes"));
  CHECK(values(first.targets) == std::vector<int32_t>{kIgnored, kIgnored, 1});
  CHECK(values(second.targets) == std::vector<int32_t>{kIgnored, 0});
}

TEST_CASE("a line that is no example is refused by file and line") {
  const TestFolder folder;
  const auto check_refused = [&](const std::string& text, const TaskRules& how,
                                 const std::string& why) {
    const std::string path = folder.write("task.tsv", text);
    CHECK_THROWS_MATCHES(open_task(path, how), UserError, Message("--task " + path + ": " + why));
  };
  const std::string fine = repeated("a\tb\n", 12);
  check_refused("a\tb\nno tab\n" + fine, rules(), "line 2 has no tab; expected prompt<TAB>answer");
  check_refused(fine + "\n" + fine, rules(), "line 13 has no tab; expected prompt<TAB>answer");
  check_refused(fine + "a\t\n", rules(), "line 13 has an empty answer");
  check_refused(fine + "a\t\r\n", rules(), "line 13 has an empty answer");
  check_refused("\tb\n" + fine, rules(), "line 1 has an empty prompt");
  check_refused(fine + "twelve and\tabc\n", rules(),
                "line 13 has 13 tokens, and a sequence 12; shorten it, or take a longer "
                "--sequence-length");
  CHECK_NOTHROW(open_task(folder.write("fits.tsv", fine + "twelve and\tab\n"), rules()));
  const TaskRules labelled = rules({"a", "other"});
  check_refused(fine + "c\tb\n", labelled,
                "line 13 has the label \"c\", which the head does not know; it has a, other");
  check_refused(fine + "a\n", labelled, "line 13 has no tab; expected label<TAB>text");
  check_refused(fine + "a\t\n", labelled, "line 13 has an empty text");
  check_refused(fine + "\tb\n", labelled, "line 13 has an empty label");
  for (const auto& [text, lines] : {std::pair{"", "0 lines"}, {"a\tb\n", "1 line"}}) {
    check_refused(text, rules(),
                  std::string("has ") + lines +
                      "; every tenth is for validation, so there must be 10 or more");
  }
  TaskRules few = rules();
  few.encode = [](const std::string&) -> std::vector<int32_t> { throw UserError("token 200"); };
  check_refused(fine, few, "line 1 cannot become tokens: token 200");
  CHECK_THROWS_AS(open_task(folder.path() + "/missing", rules()), UserError);
}

TEST_CASE("verses of the built-in text have their books as labels") {
  const Corpus corpus = verses_of_books(rules({"Jude", "Gal"}));
  CHECK(corpus.files().empty());
  CHECK(corpus.num_examples(Split::train) + corpus.num_examples(Split::validation) == 149 + 25);
  const Example first = corpus.example(Split::train, 0);  // Galatians come first
  CHECK(values(first.tokens) == bytes("Paul, an apo"));   // cut to a sequence
  CHECK(first.targets.back() == 1);
  CHECK(first.num_counted() == 1);
  const Example last = corpus.example(Split::train, corpus.num_examples(Split::train) - 1);
  CHECK(values(last.tokens) == bytes("To the only "));
  CHECK(last.targets.back() == 0);
  CHECK_THROWS_WITH(
      verses_of_books(rules({"Gal", "Tobit"})),
      Catch::Matchers::StartsWith("--labels: without --task they are books of the built-in text, "
                                  "which has no \"Tobit\"; it has Ge, Exo, Lev, "));
  for (const std::string& book : kVerseBooks) CHECK_NOTHROW(verses_of_books(rules({book})));
}

}  // namespace
}  // namespace ladder
