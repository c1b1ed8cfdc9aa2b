#include "tests/system/mpirun.h"

#include <sstream>
#include <string>
#include <utility>

#include "kernels/runtime/check.h"
#include "kernels/runtime/device.h"
#include "tests/catch.h"
#include "tools/programs/scratch.h"

namespace ladder {

Flags mpirun_command() { return {program_path("tools/mpirun")}; }

ProcessResult run_ranks(size_t num_ranks, const Flags& argv, ProcessOptions options) {
  options.environment.insert(options.environment.end(),
                             {{"OMP_NUM_THREADS", "1"},
                              // Sockets of mpirun lie there, and their names are short of room.
                              {"TMPDIR", "/tmp"}});
  return run_process(mpirun_command() + Flags{"-n", std::to_string(num_ranks)} + argv, options);
}

// mpirun's own way, with ":" between the commands, crashes Open MPI 5.0.7.
ProcessResult run_each(const std::vector<Flags>& commands, ProcessOptions options) {
  Flags all = {"bash", "-c", R"(
    for ((rank = 0; rank < OMPI_COMM_WORLD_RANK; ++rank)); do
      until [[ $1 == next_rank ]]; do shift; done
      shift
    done
    own=()
    until [[ $1 == next_rank ]]; do own+=("$1") && shift; done
    exec "${own[@]}")",
               "bash"};
  for (const Flags& command : commands) all = all + command + Flags{"next_rank"};
  return run_ranks(commands.size(), all, std::move(options));
}

void require_success(const ProcessResult& result) {
  CAPTURE(result.out, result.err);
  REQUIRE(result.status == 0);
  CHECK(result.err.empty());
}

void check_refused(size_t num_ranks, const Flags& argv, const std::vector<std::string>& mentions) {
  const Scratch folder;
  const Flags outputs = {"--dump", "dump", "--metrics", "metrics.jsonl", "--trace", "trace.json"};
  const ProcessResult result = run_ranks(
      num_ranks, argv + outputs, {.folder = folder.path(), .time_limit = std::chrono::seconds(60)});
  CAPTURE(num_ranks, argv);
  check_user_error(result, mentions);
  CHECK(result.out.empty());
  CHECK(folder.files() == std::vector<std::string>{});
}

namespace {

std::string text_after(const std::string& label, const std::string& out) {
  const size_t at = out.find(label);
  CAPTURE(label, out);
  REQUIRE(at != std::string::npos);
  return out.substr(at + label.size());
}

}  // namespace

std::string validation_loss(const std::string& out, const std::string& step) {
  const std::string rest = text_after("\n" + step + "  validation loss ", out);
  return rest.substr(0, rest.find('\n'));
}

std::string sample_of(const std::string& out) { return text_after("\nsample:\n", out); }

size_t printed_workspace(const std::string& out) {
  const size_t line = out.find("  device workspace");
  if (line == std::string::npos) fail("no line about the device's workspace in:\n" + out);
  std::istringstream fields(out.substr(line, out.find('\n', line) - line));
  std::string device, workspace, predicted, measured;
  fields >> device >> workspace >> predicted >> measured;
  std::erase(measured, ',');
  return std::stoul(measured);
}

std::string device_name() {
  const DeviceType device = cuda_device_of_build();
  if (num_devices(device) > 0) return std::string(name_of(device));
  WARN("skipped: no GPU");
  return "";
}

}  // namespace ladder
