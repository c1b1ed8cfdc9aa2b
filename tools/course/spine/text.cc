#include <algorithm>
#include <cmath>

#include "common/io/file.h"
#include "common/train/report/report.h"
#include "lessons/19_planning/report.h"
#include "tools/course/spine/spine.h"

namespace ladder {
namespace {

// The first two lines of a table in Markdown; `lesson` is over the lessons' numbers.
std::string head(const std::string& lesson, bool with_commands) {
  return concat("| ", lesson, " | fits | GiB a card needs (it has ", gib(spine_card_memory()),
                ") | GB sent by a card | ms a step | tokens a day | in words |",
                with_commands ? " command |" : "", "\n|---|---|---|---|---|---|---|",
                with_commands ? "---|" : "", "\n");
}

std::string row(const SpineLine& line, bool with_commands) {
  const bool trains = !line.command.empty();
  std::string text = concat("| ", with_commands ? "" : "lesson ", line.lesson.substr(0, 2), " | ");
  text += trains ? concat(line.fits ? "yes" : "**no**", " | ", gib(line.memory)) : "- | -";
  if (line.fits) {
    const auto ms = static_cast<uint64_t>(std::llround(1e3 * line.seconds));
    text += format(" | %.1f | %s | ", 1e-9 * line.sent, with_commas(ms).c_str());
    text += trains ? format("%.2f billion", 1e-9 * line.tokens_a_day) : "-";
  } else {
    text += " | - | - | -";
  }
  text += concat(" | ", line.why, " |");
  if (with_commands) text += trains ? concat(" `", line.command, "` |") : " - |";
  return text + "\n";
}

// Returns the page with `table` in place of that which begins with `begin`. A page without one gets
// it as its end.
std::string with_table(const std::string& page, const std::string& begin,
                       const std::string& table) {
  const size_t at = page.find(begin);
  if (at == page.npos) return page + "\n" + table;
  size_t end = at;  // of the table's lines
  while (end < page.size() && page[end] == '|') {
    end = std::min(page.size() - 1, page.find('\n', end)) + 1;
  }
  return page.substr(0, at) + table + page.substr(end);
}

}  // namespace

std::string spine_table(const std::vector<SpineLine>& lines) {
  std::string table = head("lesson", true);
  for (const SpineLine& line : lines) table += row(line, true);
  return table;
}

std::vector<SpineFile> spine_files(const std::string& root, const std::vector<SpineLine>& lines) {
  const auto with = [&](const std::string& path, const std::string& begin,
                        const std::string& table) {
    return SpineFile{path, with_table(read_file(root + "/" + path), "| " + begin, table)};
  };
  std::vector<SpineFile> files = {with("notes/lessons.md", "lesson | fits |", spine_table(lines)),
                                  {"notes/pictures/spine.svg", draw_spine(lines)}};
  const std::string begin =
      "[One model in every lesson](../../notes/lessons.md#one-model-in-every-lesson)";
  const std::string first = head(concat(begin, ": ", spine_question(), ", simulated"), false);
  for (const SpineLine& line : lines) {
    files.push_back(
        with(concat("lessons/", line.lesson, "/README.md"), begin, first + row(line, false)));
  }
  return files;
}

}  // namespace ladder
