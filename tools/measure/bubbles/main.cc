// Prints a table of published bubbles, and those that follow from our lists.
//   tools/measure/published zero_bubble_golden
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "kernels/runtime/check.h"
#include "tools/measure/bubbles/rows.h"
#include "tools/programs/small_program.h"

namespace ladder::bubbles {
namespace {

// What a column says of all rows.
struct Total {
  size_t equal = 0, better = 0, worse = 0;
  long most = 0;  // of computed - published, in 1e-4
};

std::string four_digits(double bubble) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(4) << bubble;
  return text.str();
}

// Writes "published", or "published, computed (difference)" if they are not equal.
std::string cell_of(double published, double computed, Total& total) {
  const long more = digits(computed) - digits(published);
  ++(more == 0 ? total.equal : more < 0 ? total.better : total.worse);
  total.most = std::max(total.most, more);
  if (more == 0) return four_digits(published);
  return concat(four_digits(published), ", ", four_digits(computed), " (", more > 0 ? "+" : "-",
                four_digits(static_cast<double>(std::labs(more)) / 1e4), ")");
}

void print_table(const std::vector<Row>& rows) {
  std::cout << "| model | stages | micro-batches |";
  for (const Column& column : kColumns) std::cout << " " << column.title << " |";
  std::cout << "\n|---|---|---|";
  for (size_t i = 0; i < kColumns.size(); ++i) std::cout << "---|";
  std::array<Total, kColumns.size()> totals;
  for (const Row& row : rows) {
    std::cout << "\n| " << row.model << " | " << row.stages << " | " << row.micro_batches << " |";
    for (size_t i = 0; i < kColumns.size(); ++i) {
      const double computed = simulated(row, kColumns[i]).bubble;
      std::cout << " " << cell_of(row.published[i], computed, totals[i]) << " |" << std::flush;
    }
  }
  std::cout << "\n\n";
  for (size_t i = 0; i < kColumns.size(); ++i) {
    std::cout << kColumns[i].title << ": " << totals[i].equal << " of " << rows.size()
              << " as published, " << totals[i].better << " smaller, " << totals[i].worse
              << " larger";
    if (totals[i].worse > 0) std::cout << ", by at most " << four_digits(totals[i].most / 1e4);
    std::cout << ".\n";
  }
}

}  // namespace
}  // namespace ladder::bubbles

int main(int argc, char** argv) {
  CLI::App app("Prints published bubbles of pipeline schedules beside computed ones.", "bubbles");
  std::string file;
  size_t largest = 1'000'000;
  app.add_option("file", file, "such as tests/published/zero_bubble_golden.json")->required();
  app.add_option("--largest", largest, "rows of at most so many stages");
  return ladder::run_small_program(app, argc, argv, [&] {
    std::vector<ladder::bubbles::Row> rows = ladder::bubbles::read_rows(file);
    std::erase_if(rows, [&](const auto& row) { return row.stages > largest; });
    ladder::bubbles::print_table(rows);
    ladder::check(std::cout.good(), "standard output could not be written to the end");
    return 0;
  });
}
