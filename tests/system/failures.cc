#include "tests/system/failures.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <thread>

#include "kernels/runtime/check.h"
#include "kernels/runtime/clock.h"
#include "tests/catch.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

std::string host_name() {
  std::array<char, 256> name{};
  check(gethostname(name.data(), name.size() - 1) == 0, "gethostname failed");
  return name.data();
}

// Polls until `condition` holds; false where it does not come to hold within a minute.
bool comes_true(const std::function<bool()>& condition) {
  const auto deadline = Clock::now() + seconds(60);
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// Processes of the program among whose arguments is `argument`.
std::vector<pid_t> ranks_with(const std::string& program, const std::string& argument) {
  std::vector<pid_t> ranks;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; })) continue;
    std::ifstream file(entry.path() / "cmdline");  // empty if the process has ended
    const std::string line(std::istreambuf_iterator<char>(file), {});
    // Arguments end with a zero byte each.
    if (!line.starts_with(program + '\0')) continue;
    if (line.find('\0' + argument + '\0') != std::string::npos) ranks.push_back(std::stoi(name));
  }
  return ranks;
}

// What mpirun has told a process about itself.
std::string rank_of(pid_t process) {
  std::ifstream file(concat("/proc/", process, "/environ"));
  const std::string name = "OMPI_COMM_WORLD_RANK=";
  for (std::string variable; std::getline(file, variable, '\0');) {
    if (variable.starts_with(name)) return variable.substr(name.size());
  }
  return "?";
}

}  // namespace

void check_killed_rank(size_t num_ranks, const Flags& argv, int signal,
                       const std::string& signal_text) {
  const Scratch folder;
  const std::string metrics = folder.path() / "metrics";
  auto run = std::async(std::launch::async, [&] {
    return run_ranks(num_ranks, argv + Flags{"--steps", "1000000000", "--metrics", metrics},
                     {.folder = folder.path(), .time_limit = seconds(120)});
  });
  // The first line of metrics is a step done.
  const bool began = comes_true([&] {
    std::error_code error;
    return fs::file_size(metrics, error) > 0 && !error;
  });
  REQUIRE(began);
  const std::vector<pid_t> ranks = ranks_with(argv[0], metrics);
  CHECK(ranks.size() == num_ranks);
  const std::string rank = rank_of(ranks.at(0));
  REQUIRE(kill(ranks.at(0), signal) == 0);
  REQUIRE(run.wait_for(seconds(30)) == std::future_status::ready);
  const ProcessResult result = run.get();
  CAPTURE(result.out, result.err);
  CHECK_FALSE(result.timed_out);
  CHECK(result.status == 128 + signal);
  CHECK_THAT(result.err, ContainsSubstring(concat("error: rank ", rank, " on ", host_name(),
                                                  ": ended by signal ", signal_text)));
  CHECK(result.err.find("error: ") == result.err.rfind("error: "));
  CHECK(result.err.find("-----") == std::string::npos);  // a banner of mpirun's
  CHECK(comes_true([&] { return ranks_with(argv[0], metrics).empty(); }));
  CHECK_THAT(read_text(metrics), EndsWith("}\n"));  // the lines that are there are whole
}

void check_one_error(const ProcessResult& result, const std::vector<std::string>& mentions) {
  CAPTURE(result.out, result.err);
  CHECK_FALSE(result.timed_out);
  CHECK(result.status == 1);
  CHECK_THAT(result.err,
             StartsWith("error: rank ") && ContainsSubstring(concat(" on ", host_name(), ": ")));
  CHECK(result.err.rfind("error: ") == 0);
  for (const std::string& mention : mentions) CHECK_THAT(result.err, ContainsSubstring(mention));
}

}  // namespace ladder
