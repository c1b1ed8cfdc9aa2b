// Lesson 02 when something breaks in the middle: all ranks end, and the reason is read once.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cctype>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <thread>

#include "kernels/runtime/check.h"
#include "tests/system/mpirun.h"
#include "tests/system/scratch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

Flags nano_run() {
  return {ddp_path(), "--model", "nano", "--threads", "1", "--evaluate-every", "0"};
}

std::string host_name() {
  std::array<char, 256> name{};
  check(gethostname(name.data(), name.size() - 1) == 0, "gethostname failed");
  return name.data();
}

// Polls until `condition` holds; false where it does not come to hold within a minute.
bool comes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// Lesson 02's processes among whose arguments is `argument`.
std::vector<pid_t> ranks_with(const std::string& argument) {
  std::vector<pid_t> ranks;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; })) continue;
    std::ifstream file(entry.path() / "cmdline");  // empty if the process has ended
    const std::string line(std::istreambuf_iterator<char>(file), {});
    // Arguments end with a zero byte each.
    if (!line.starts_with(ddp_path() + '\0')) continue;
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

// One of `num_ranks` is ended by `signal` while they train; nobody else may be left, and
// who ended how is read.
void check_killed_rank(size_t num_ranks, int signal, const std::string& signal_text) {
  const Scratch folder;
  const std::string metrics = folder.path() / "metrics";
  auto run = std::async(std::launch::async, [&] {
    return run_ranks(num_ranks, nano_run() + Flags{"--steps", "1000000000", "--metrics", metrics},
                     {.folder = folder.path(), .time_limit = seconds(120)});
  });
  // The first line of metrics is a step done.
  const bool began = comes_true([&] {
    std::error_code error;
    return fs::file_size(metrics + ".partial", error) > 0 && !error;
  });
  REQUIRE(began);
  const std::vector<pid_t> ranks = ranks_with(metrics);
  CHECK(ranks.size() == num_ranks);
  const std::string rank = rank_of(ranks.at(0));
  REQUIRE(kill(ranks.at(0), signal) == 0);
  REQUIRE(run.wait_for(seconds(30)) == std::future_status::ready);
  const ProcessResult result = run.get();
  CAPTURE(result.out, result.err);
  CHECK_FALSE(result.timed_out);
  CHECK(result.status == 128 + signal);
  CHECK_THAT(result.err, Catch::Contains(concat("error: rank ", rank, " on ", host_name(),
                                                ": ended by signal ", signal_text)));
  CHECK(result.err.find("error: ") == result.err.rfind("error: "));
  CHECK(result.err.find("-----") == std::string::npos);  // a banner of mpirun's
  CHECK(comes_true([&] { return ranks_with(metrics).empty(); }));
  CHECK_FALSE(fs::exists(metrics));  // only a whole run has one
}

TEST_CASE("02: a killed rank ends all ranks") {
  check_killed_rank(4, SIGKILL, "9 (Killed); the kernel does so");
  check_killed_rank(2, SIGSEGV, "11 (Segmentation fault)\n");
}

// One message, of one rank, for all.
void check_one_error(const ProcessResult& result, const std::vector<std::string>& mentions) {
  CAPTURE(result.out, result.err);
  CHECK_FALSE(result.timed_out);
  CHECK(result.status == 1);
  CHECK_THAT(result.err, Catch::StartsWith("error: rank ") &&
                             Catch::Contains(concat(" on ", host_name(), ": ")));
  CHECK(result.err.rfind("error: ") == 0);
  for (const std::string& mention : mentions) CHECK_THAT(result.err, Catch::Contains(mention));
}

TEST_CASE("02: rank 0 cannot go on, and the others wait for it") {
  const Scratch folder;
  // The second dump is written to a disk that is full.
  fs::create_directory(folder.path() / "dump");
  fs::create_symlink("/dev/full", folder.path() / "dump/step_000002.safetensors.partial");
  const Flags more = GENERATE(Flags{}, Flags{"--no-shared-memory"});
  const ProcessResult result =
      run_ranks(4, nano_run() + Flags{"--steps", "5", "--dump", "dump"} + more,
                {.folder = folder.path(), .time_limit = seconds(60)});
  CAPTURE(more);
  check_one_error(result, {"rank 0", "step_000002", "No space left"});
  CHECK(fs::exists(folder.path() / "dump/step_000001.safetensors"));
}

TEST_CASE("02: over --device-memory on every rank") {
  const ProcessResult result =
      run_ranks(4, nano_run() + Flags{"--steps", "1", "--device-memory", "64KiB"},
                {.time_limit = seconds(60)});
  check_one_error(result, {"--device-memory", "gradients", "64 KiB"});
  CHECK(result.err.find("What to try") == result.err.rfind("What to try"));
}

TEST_CASE("02: too little /dev/shm") {
  // A namespace of mounts with a small one; 32 MiB, because mpirun itself needs some.
  const Flags own_mounts = {
      "unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=32M none /dev/shm && exec \"$@\"", "sh"};
  const auto run = [&](const Flags& flags) {
    return run_process(own_mounts + flags, {.environment = {{"TMPDIR", "/tmp"}}});
  };
  const ProcessResult probe = run({"true"});
  if (probe.status != 0) {
    WARN("not tried: no mounts of one's own here: " << probe.err);
    return;
  }
  // 4 blocks of 12 x 512^2 elements and more: 97 MiB of gradients on two ranks.
  const Flags big = mpirun_command() + Flags{"-n", "2"} + nano_run() +
                    Flags{"--hidden", "512",     "--layers",
                          "4",        "--steps", "1",
                          "--sample", "0",       "--global-batch-size",
                          "2"};
  check_one_error(run(big), {"/dev/shm", "97.34 MiB", "--no-shared-memory"});
  const ProcessResult messages = run(big + Flags{"--no-shared-memory"});
  CAPTURE(messages.out, messages.err);
  CHECK(messages.status == 0);
}

}  // namespace
}  // namespace ladder
