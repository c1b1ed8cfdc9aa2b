#include "common/comm/launcher.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <thread>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

struct Launcher {
  const char *name, *rank, *size, *mark;  // `mark` is set, too
};

// The one that tells most about this process comes first: srun may have started mpirun, and Flux
// mpiexec. tools/mpirun clears all of them for the ranks that it starts.
constexpr std::array kLaunchers = {
    Launcher{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nullptr},
    Launcher{"torchrun", "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    Launcher{"MVAPICH's mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", nullptr},
    Launcher{"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", nullptr},
    Launcher{"jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", nullptr},
    Launcher{"PALS", "PALS_RANKID", "PALS_SIZE", nullptr},
    Launcher{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", nullptr},
    Launcher{"mpiexec of another MPI", "PMI_RANK", "PMI_SIZE", nullptr},
};

constexpr size_t kNone = 1 << 30;  // more ranks than anybody starts

// Returns the whole number that a variable has, or kNone.
size_t number_in(const char* name) {
  const char* const text = std::getenv(name);
  char* end = nullptr;
  const size_t number = text == nullptr ? kNone : std::strtoul(text, &end, 10);
  return text != end && *end == '\0' ? std::min(number, kNone) : kNone;
}

// Returns whether there is a server of PMIx, whose address has a variable for each version, or one
// of PMI.
bool has_server() {
  // After clearenv() there is no list.
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    if (std::string_view(*variable).starts_with("PMIX_SERVER_URI")) return true;
  }
  // In a job of Flux's, Open MPI asks Flux's library alone, and crashes without it.
  const char* const library = std::getenv("FLUX_PMI_LIBRARY_PATH");
  if (std::getenv("FLUX_JOB_ID") != nullptr) return library != nullptr && !access(library, R_OK);
  return std::getenv("PMI_FD") != nullptr || std::getenv("PMI_PORT") != nullptr;
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

Launch find_launch() {
  Launch alone;
  for (const auto& [name, rank_variable, size_variable, mark] : kLaunchers) {
    if (mark != nullptr && std::getenv(mark) == nullptr) continue;
    const size_t rank = number_in(rank_variable), size = number_in(size_variable);
    if (rank >= size || size == kNone) continue;
    const bool is_open_mpi = name == kLaunchers[0].name;
    const Launch launch = {name, size_variable, rank,
                           size, is_open_mpi,   is_open_mpi || has_server()};
    if (size > 1) return launch;
    if (alone.name == nullptr) alone = launch;
  }
  // PMIx tells no size. Without its server the second rank, at least, knows that it is not alone.
  const size_t rank = number_in("PMIX_RANK");
  const bool can_join = has_server();
  if (alone.name != nullptr || rank == kNone || (rank == 0 && !can_join)) return alone;
  return {"PMIx", "PMIX_RANK", rank, can_join ? 0 : rank + 1, false, can_join};
}

void say_for_all(const Launch& launch, const std::string& error) {
  using std::chrono::milliseconds;
  if (launch.rank != 0) std::this_thread::sleep_for(milliseconds(1000));
  if (!take_turn() && launch.rank != 0) return;
  std::cerr << "error: " + error + "\n" << std::flush;
  std::this_thread::sleep_for(milliseconds(2500));  // it has the turn when others ask
}

}  // namespace ladder
