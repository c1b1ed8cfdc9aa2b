#include "common/comm/launcher.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <iostream>
#include <map>
#include <optional>
#include <string_view>
#include <thread>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

using Variables = std::map<std::string_view, std::string_view>;

constexpr const char* kWayOut = "start ranks with tools/mpirun";

struct Launcher {
  const char *name, *rank, *size;
  const char* mark = nullptr;  // must be set, too, where others use the names of the variables
  const char* way_out = kWayOut;
};

// The one that tells most about this process comes first: mpirun may have been started by srun, and
// mpiexec by Flux. tools/mpirun and tools/run clear all of them for what they start.
constexpr std::array kLaunchers = {
    Launcher{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    Launcher{"torchrun", "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    Launcher{"MVAPICH's mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    Launcher{"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
    Launcher{"jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
    Launcher{"PALS", "PALS_RANKID", "PALS_SIZE"},
    Launcher{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", nullptr,
             "use srun --mpi=pmix, or tools/mpirun in the job"},
    Launcher{"mpiexec of another MPI", "PMI_RANK", "PMI_SIZE"},
};

Variables variables_of(const char* const* environment) {
  Variables variables;
  for (; *environment != nullptr; ++environment) {
    const std::string_view text = *environment;
    const size_t equals = text.find('=');
    if (equals != text.npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

// Returns the variable's whole number, or nothing.
std::optional<size_t> number_in(const Variables& variables, std::string_view name) {
  const auto found = variables.find(name);
  if (found == variables.end()) return std::nullopt;
  const std::string_view text = found->second;
  size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional(number) : std::nullopt;
}

// Returns whether there is a server of PMIx, whose address has a variable for each version, or one
// of PMI.
bool has_server(const Variables& variables) {
  constexpr std::string_view kServer = "PMIX_SERVER_URI";
  const auto found = variables.lower_bound(kServer);
  if (found != variables.end() && found->first.starts_with(kServer)) return true;
  // In a job of Flux's, Open MPI asks Flux's library alone, and crashes without it.
  if (variables.contains("FLUX_JOB_ID")) {
    const auto library = variables.find("FLUX_PMI_LIBRARY_PATH");
    return library != variables.end() && access(library->second.data(), R_OK) == 0;
  }
  return variables.contains("PMI_FD") || variables.contains("PMI_PORT");
}

// Takes a name that processes with the same parent on this machine share, until it ends. Returns
// false if one of them has it.
bool take_turn() {
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  const std::string name = concat("ladder says it for those of ", getppid());
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);  // the first is 0: not a file
  const int turn = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  return bind(turn, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
         errno != EADDRINUSE;
}

}  // namespace

Launch find_launch(const char* const* environment) {
  const Variables variables = variables_of(environment);
  const bool brings_together = has_server(variables);
  Launch alone;
  for (const Launcher& launcher : kLaunchers) {
    if (launcher.mark != nullptr && !variables.contains(launcher.mark)) continue;
    const std::optional<size_t> rank = number_in(variables, launcher.rank);
    const std::optional<size_t> size = number_in(variables, launcher.size);
    if (!rank || !size || *rank >= *size) continue;
    const bool is_open_mpi = &launcher == &kLaunchers.front();
    const Launch launch = {.name = launcher.name,
                           .size_variable = launcher.size,
                           .way_out = launcher.way_out,
                           .rank = *rank,
                           .size = *size,
                           .is_open_mpi = is_open_mpi,
                           .brings_together = is_open_mpi || brings_together};
    if (*size > 1) return launch;
    if (alone.name.empty()) alone = launch;
  }
  // PMIx tells no size. Without its server the second rank, at least, knows that it is not alone.
  const std::optional<size_t> rank = number_in(variables, "PMIX_RANK");
  if (!alone.name.empty() || !rank || (*rank == 0 && !brings_together)) return alone;
  return {.name = "PMIx",
          .size_variable = "PMIX_RANK",
          .way_out = kWayOut,
          .rank = *rank,
          .size = brings_together ? 0 : *rank + 1,
          .brings_together = brings_together};
}

Launch find_launch() { return find_launch(environ); }

void say_for_all(const Launch& launch, const std::string& error) {
  using std::chrono::milliseconds;
  if (launch.rank != 0) std::this_thread::sleep_for(milliseconds(1000));
  const bool has_turn = take_turn();
  if (launch.rank != 0 && !has_turn) return;
  std::cerr << "error: " + error + "\n" << std::flush;
  // mpirun ends the other ranks when this one ends.
  if (!launch.is_open_mpi) std::this_thread::sleep_for(milliseconds(2500));
}

}  // namespace ladder
