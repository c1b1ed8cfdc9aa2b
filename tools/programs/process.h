// Runs a program to its end and keeps what it said.
#pragma once

#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ladder {

struct ProcessOptions {
  std::filesystem::path folder{};  // to run in; empty = where the caller is
  std::vector<std::pair<std::string, std::string>> environment{};  // added to the caller's
  std::chrono::milliseconds time_limit = std::chrono::minutes(2);
  // How long it may take to end by itself after it was asked to (SIGTERM).
  std::chrono::milliseconds grace = std::chrono::seconds(10);
  // Not 0: the caller has been told to end, as if the limit had passed. A signal handler may set
  // it.
  const volatile std::sig_atomic_t* stop = nullptr;
  // No file may grow beyond this many bytes: writing then fails (EFBIG), as on a full disk.
  std::optional<size_t> file_size_limit{};
};

struct ProcessResult {
  int status = -1;         // exit status; 128 + number when a signal ended it
  bool timed_out = false;  // it ran past the limit and was ended, with its children
  std::string out;
  std::string err;
};

// Runs argv[0] (looked up in PATH) with an empty stdin until it has ended and both its streams are
// closed. Past the limit it gets SIGTERM, so that it can end what it has started elsewhere and
// remove its files, as tools/mpirun does. When it has ended, or when its grace is over, what is
// left of its process group is killed. It gets SIGTERM, too, when the thread that called this ends.
// Throws Error when it cannot be started.
ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options = {});

}  // namespace ladder
