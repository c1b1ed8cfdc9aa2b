// Runs a program to its end and keeps what it said.
#pragma once

#include <chrono>
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
  // No file may grow beyond this many bytes: writing then fails (EFBIG), as on a full disk.
  std::optional<size_t> file_size_limit{};
};

struct ProcessResult {
  int status = -1;         // exit status; 128 + number when a signal ended it
  bool timed_out = false;  // it ran past the limit, and it and its children were killed
  std::string out;
  std::string err;
};

// Runs argv[0] (looked up in PATH) with an empty stdin until it has ended and both its streams are
// closed. Throws Error when it cannot be started.
ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options = {});

}  // namespace ladder
