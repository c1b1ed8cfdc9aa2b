// --version of the programs that have flags.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>

#include "kernels/runtime/check.h"
#include "kernels/runtime/device.h"
#include "tests/catch.h"
#include "tests/system/single_gpu.h"

namespace ladder {
namespace {

// What --version prints, or fails the test unless that is all lines in their order. The lines of
// the CPU, MPI and oneDNN may be missing.
std::smatch version_of(const std::string& path, std::string& text) {
  static const std::regex kLines(
      R"(\S+\nrevision  (unknown|[0-9a-f]{40,}(?:\+changes)?)\ncompiler  (?:g\+\+|clang) [0-9].*\n)"
      R"(CUDA      (emulator|[0-9]+\.[0-9]+ for [a-z0-9_,]+)\n(?:CPU       x86-64-v[34]\n)?(MPI       .*[0-9].*\n)?(oneDNN    [0-9]+\.[0-9.]+\n)?)");
  const ProcessResult result = run_process({program_path(path), "--version"});
  CAPTURE(path, result.out, result.err);
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  text = result.out;
  std::smatch match;
  REQUIRE(std::regex_match(text, match, kLines));
  CHECK((match[2] == "emulator") == (cuda_device_of_build() == DeviceType::emulator));
  return match;
}

// What Bazel is told of this tree; empty where git does not know it.
std::string revision_of_tree() {
  namespace fs = std::filesystem;
  const fs::path script = fs::canonical(program_path("tools/bazel/workspace_status"));
  return run_process({script.string()}).out;
}

TEST_CASE("--version of every lesson and tool has all lines, with a revision if the tree has one") {
  const char* const programs = std::getenv("LADDER_PROGRAMS");  // BUILD sets it
  REQUIRE(programs != nullptr);
  const bool has_revision = !revision_of_tree().empty();
  size_t num_programs = 0;
  std::istringstream paths(programs);
  for (std::string path, text; paths >> path; ++num_programs) {
    const std::smatch match = version_of(path, text);
    CAPTURE(path);
    if (has_revision) CHECK(match[1] != "unknown");
    if (path.starts_with("lessons/")) {
      CHECK(text.starts_with(std::filesystem::path(path).filename().string() + "\n"));
      CHECK(match[3].matched);
      CHECK(match[4].matched);
    }
  }
  CHECK(num_programs >= 2);
}

TEST_CASE("--version names no library that the program is not linked with") {
  std::string text;
  const std::smatch match = version_of("tools/state/comparison/comparison", text);
  CHECK_FALSE(match[3].matched);
  CHECK_FALSE(match[4].matched);
}

}  // namespace
}  // namespace ladder
