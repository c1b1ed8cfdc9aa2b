// What the checkers of puzzles share. tools/puzzle compiles one with the learner's function, by g++
// alone: nothing here includes another file of the project.
#pragma once

#include <algorithm>
#include <exception>
#include <initializer_list>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace ladder::puzzles {

// Writes its arguments one after the other.
template <class... T>
std::string text(const T&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// What is wrong in a case, for the learner.
struct Wrong {
  std::string what;
};

// The cases of a puzzle, small ones first. A checker begins a case, draws what the learner's
// function does in it, and says what it expects. The first expectation that is not met ends it.
class Cases {
 public:
  void begin(const std::string& asked) {
    ++count_;
    asked_ = asked;
    drawing_.clear();
  }
  // Adds a line, or several, to the drawing of this case.
  template <class... T>
  void draw(const T&... parts) {
    std::istringstream lines(text(parts...));
    for (std::string line; std::getline(lines, line);) drawing_ += "  " + line + "\n";
  }
  template <class... T>
  void expect(bool is_met, const T&... otherwise) const {
    if (!is_met) throw Wrong{text(otherwise...)};
  }

  int count() const { return count_; }
  const std::string& asked() const { return asked_; }
  const std::string& drawing() const { return drawing_; }

 private:
  int count_ = 0;
  std::string asked_, drawing_;
};

struct Verdict {
  bool is_right = false;
  std::string text;
};

// Lets the checker try the function. `cases` tells how far it has come, if the function crashes.
template <class Function>
Verdict judge(Cases& cases, void (*check)(Cases&, Function), Function function) {
  const auto wrong = [&](const std::string& what) {
    return Verdict{false, text("wrong for ", cases.asked(), "\n", cases.drawing(), what, "\n")};
  };
  try {
    check(cases, function);
  } catch (const Wrong& w) {
    return wrong(w.what);
  } catch (const char* why) {  // as in "not written yet"
    return {false, text(why, "\n")};
  } catch (const std::exception& error) {
    return wrong(text("your function throws ", error.what()));
  }
  return {true, text("right in all ", cases.count(), " cases. The last one, ", cases.asked(), ":\n",
                     cases.drawing())};
}

using Table = std::vector<std::vector<int>>;

// Returns what cell(row, column) returns.
template <class Cell>
Table table_of(int rows, int columns, Cell cell) {
  Table table(rows, std::vector<int>(columns));
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) table[row][column] = cell(row, column);
  }
  return table;
}

// Draws a table: rows are called "rank 0", "rank 1" and so on, columns "round 0".
inline std::string drawn(const std::string& row_name, const std::string& column_name,
                         const Table& table) {
  const auto right_aligned = [](const std::string& word, size_t width) {
    return std::string(width - std::min(width, word.size()), ' ') + word;
  };
  std::string lines(row_name.size() + 3, ' ');
  std::vector<size_t> widths;
  for (size_t column = 0; !table.empty() && column < table[0].size(); ++column) {
    const std::string name = text("  ", column_name, " ", column);
    widths.push_back(name.size());
    lines += name;
  }
  for (size_t row = 0; row < table.size(); ++row) {
    lines += "\n" + right_aligned(text(row_name, " ", row), row_name.size() + 3);
    for (size_t column = 0; column < table[row].size(); ++column) {
      lines += right_aligned(text(table[row][column]), widths[column]);
    }
  }
  return lines;
}

// Writes numbers with commas between them.
template <class Numbers>
std::string listed(const Numbers& numbers) {
  std::string line;
  for (const auto& number : numbers) line += text(line.empty() ? "" : ", ", number);
  return line;
}

// Returns small numbers from `low` to `high` that are the same in every run.
class Draws {
 public:
  int operator()(int low, int high) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return low + static_cast<int>((state_ >> 33) % static_cast<unsigned>(high - low + 1));
  }

 private:
  unsigned long long state_ = 1;
};

}  // namespace ladder::puzzles
