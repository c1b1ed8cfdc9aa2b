// tools/measure/costs: one table of what every lesson measures.
#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "tests/catch.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

using Cells = std::vector<std::string>;

Flags command(const Flags& flags) {
  // The folder that has lessons/.
  const auto programs = std::filesystem::path(lesson_path("01_single_gpu")).parent_path() / "../..";
  // On the CPU, where memory is the same in every build.
  return Flags{program_path("tools/measure/costs"), "--programs", programs.string(), "--device",
               "cpu"} +
         flags;
}

// The cells of each row, by the lesson.
std::map<std::string, Cells> rows_of(const std::string& out) {
  std::map<std::string, Cells> rows;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ")) continue;
    std::istringstream text(line.substr(2));
    Cells cells;
    for (std::string cell; std::getline(text, cell, '|');) {
      cell.erase(0, cell.find_first_not_of(' '));
      cell.erase(cell.find_last_not_of(' ') + 1);
      cells.push_back(cell);
    }
    rows[cells.at(0)] = {cells.begin() + 1, cells.end()};
  }
  return rows;
}

TEST_CASE("costs: memory and bytes of two ranks are those of the READMEs' formulas") {
  const ProcessResult result = run_process(command({"-n", "2", "--model", "nano"}));
  require_success(result);
  CAPTURE(result.out);
  const auto rows = rows_of(result.out);
  REQUIRE(rows.size() == 1 + 13);  // and the heads of the columns
  // P s is 34,688 x 4 bytes = 135.5 KiB, and nothing is padded. Each rank has M = 2 micro-batches.
  const auto check = [&](const std::string& lesson, const Cells& memory, const std::string& host,
                         const std::string& sent) {
    CAPTURE(lesson);
    const Cells& cells = rows.at(lesson);
    REQUIRE(cells.size() == 7);
    CHECK(Cells(cells.begin(), cells.begin() + 3) == memory);
    CHECK(cells[4] == host);
    CHECK(cells[5] == sent);
    CHECK_THAT(cells[6], Matches("[0-9]+\\.[0-9]{2}|-"));  // - on a machine of one core
  };
  check("01_single_gpu", {"136", "136", "271"}, "0", "0");
  check("02_ddp", {"136", "136", "271"}, "0", "136");             // 2 (N-1)/N P s
  check("03_zero1", {"136", "136", "136"}, "0", "136");           // the same
  check("04_zero2", {"136", "68", "136"}, "0", "203");            // (M + 1) (N-1)/N P s
  check("06_offload", {"136", "0", "0"}, "271", "203");           // masters too on the host
  check("10_mixed_precision", {"68", "136", "406"}, "0", "136");  // 2 and 4 and 12 bytes
  CHECK(rows.at("14_context_parallel")[0] == "136");
  const Cells& all = rows.at("06_offload, all");
  CHECK(Cells(all.begin(), all.begin() + 3) == Cells{"0", "0", "0"});
  CHECK(rows.at("05_zero3")[0] == "68");
  CHECK(rows.at("05_zero3")[5] == all[5]);
  CHECK_THAT(result.out,
             ContainsSubstring("\n- 02_ddp: ") && ContainsSubstring("\n- 10_mixed_precision: "));
}

// All cells but the last, which is a time.
std::map<std::string, Cells> without_times(std::map<std::string, Cells> rows) {
  for (auto& [lesson, cells] : rows) cells.pop_back();
  return rows;
}

TEST_CASE("costs: memory and bytes in notes/lessons.md are what four ranks measure") {
  const ProcessResult result = run_process(command({"--no-times"}));
  require_success(result);
  const std::string page = read_text(program_path("notes/lessons.md"));
  const size_t begin = page.find("| lesson               | parameters |");
  REQUIRE(begin != std::string::npos);
  const std::string quoted = page.substr(begin, page.find("\n\n", begin) - begin);
  CAPTURE(result.out, quoted);
  CHECK(without_times(rows_of(quoted)) == without_times(rows_of(result.out)));
  CHECK(rows_of(result.out).at("02_ddp").back() == "-");
}

TEST_CASE("costs: mistakes of the user") {
  const auto refuse = [](const Flags& flags, const std::vector<std::string>& mentions) {
    const ProcessResult result = run_process(flags);
    CAPTURE(flags, result.out, result.err);
    CHECK(result.status == 2);
    for (const std::string& mention : mentions) CHECK_THAT(result.err, ContainsSubstring(mention));
  };
  refuse(command({"-n", "3"}), {"-n", "3", "2 or 4"});
  refuse(command({"-n"}), {"-n", "expected one argument"});
  refuse({program_path("tools/measure/costs"), "--programs", "/no/such/folder"},
         {"--programs", "/no/such/folder"});
  refuse(command({"--no-such-flag"}), {"--no-such-flag"});
}

}  // namespace
}  // namespace ladder
