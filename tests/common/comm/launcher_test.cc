// Who has started this process, by variables of the environment that are drawn at random.
#include "common/comm/launcher.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using Environment = std::vector<std::string>;

// What a process with these variables, and no others of launchers, would find.
Launch launch_of(const Environment& environment) {
  clearenv();
  for (const std::string& variable : environment) {
    const size_t equals = variable.find('=');
    REQUIRE(setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1) ==
            0);
  }
  return find_launch();
}

struct Pair {
  std::string rank, size, also;
};
// By the manuals of Open MPI, PyTorch, MPICH, SLURM, Flux, IBM's JSM, HPE's PALS and MVAPICH2.
const std::vector<Pair> kPairs = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ""},
    {"RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID=none"},
    {"PMI_RANK", "PMI_SIZE", ""},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ""},
    {"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_JOB_ID=f23"},
    {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", ""},
    {"PALS_RANKID", "PALS_SIZE", ""},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", ""},
};

TEST_CASE("a launcher counts if it has told a rank and a size that fit") {
  std::mt19937 random(64);
  for (int round = 0; round < 500; ++round) {
    const Pair& pair = kPairs[random() % kPairs.size()];
    const size_t size = 1 + random() % 5, rank = random() % size;
    const auto is = [](const std::string& name, const auto& value) {
      return concat(name, "=", value);
    };
    Environment environment = {"HOME=/", is(pair.rank, rank), is(pair.size, size)};
    if (!pair.also.empty()) environment.push_back(pair.also);
    // Others have left one of theirs behind, or what is no number.
    for (const Pair& other : kPairs) {
      if (&other == &pair) continue;
      if (random() % 2 == 0) environment.push_back(is(random() % 2 ? other.rank : other.size, 7));
    }
    std::ranges::shuffle(environment, random);
    CAPTURE(environment);
    const Launch launch = launch_of(environment);
    CHECK(launch.size == size);
    CHECK(launch.rank == rank);
    CHECK(pair.size == launch.size_variable);
    CHECK(launch.is_open_mpi == (&pair == &kPairs[0]));
    CHECK(launch.has_server == launch.is_open_mpi);
    // Half of it, a size that is none, and a rank that is not below it.
    for (const auto& [name, text] : {std::pair(pair.size, ""),
                                     {pair.rank, ""},
                                     {pair.size, "x"},
                                     {pair.size, "0"},
                                     {pair.rank, "-1"},
                                     {pair.rank, "5"},
                                     {pair.size, "99999999999999999999"}}) {
      Environment broken = environment;
      std::erase_if(broken, [&](const auto& one) { return one.starts_with(name + "="); });
      if (text[0] != '\0') broken.push_back(is(name, text));
      CAPTURE(name, text);
      CHECK(launch_of(broken).size == 1);
      CHECK(launch_of(broken).name == nullptr);
    }
  }
}

TEST_CASE("notebooks, pods and interactive shells have started nobody else") {
  CHECK(launch_of({}).size == 1);
  CHECK(launch_of({"WORLD_SIZE=4"}).size == 1);
  CHECK(launch_of({"WORLD_SIZE=4", "RANK=2", "MASTER_ADDR=a"}).size == 1);  // no torchrun: a pod
  CHECK(launch_of({"SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_JOB_ID=3"}).size == 1);  // sbatch
  const Environment shell = {"SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1", "PMIX_RANK=0",
                             "PMIX_SERVER_URI41=x"};
  CHECK(launch_of(shell).size == 1);  // srun --mpi=pmix --pty bash
  CHECK(launch_of({"PMIX_RANK=0", "PMIX_NAMESPACE=n"}).size == 1);
}

TEST_CASE("of two launchers the one that is nearer counts, and one of several processes") {
  const Environment by_srun = {"SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2"};  // mpirun's daemon
  Environment both = by_srun;
  both.insert(both.end(), {"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=8"});
  CHECK(launch_of(both).size == 8);
  CHECK(launch_of({"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1", "RANK=1", "WORLD_SIZE=4",
                   "TORCHELASTIC_RUN_ID=x"})
            .size_variable == std::string("WORLD_SIZE"));
  CHECK(launch_of({"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1"}).is_open_mpi);
}

TEST_CASE("MPI is asked only where a server can answer it") {
  const auto has_server = [](Environment environment, const Environment& more) {
    environment.insert(environment.end(), more.begin(), more.end());
    return launch_of(environment).has_server;
  };
  const Environment slurm = {"SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2"};
  CHECK_FALSE(has_server(slurm, {}));
  CHECK_FALSE(has_server(slurm, {"PMIX_RANK=1", "PMIX_NAMESPACE=n"}));
  CHECK(has_server(slurm, {"PMIX_RANK=1", "PMIX_SERVER_URI3=tcp"}));
  const Environment pmi = {"PMI_RANK=1", "PMI_SIZE=2"};
  CHECK_FALSE(has_server(pmi, {}));
  CHECK(has_server(pmi, {"PMI_FD=7"}));
  CHECK(has_server(pmi, {"PMI_PORT=host:1"}));
  // Open MPI ends by a signal where Flux's library is missing.
  CHECK_FALSE(has_server(pmi, {"PMI_FD=7", "FLUX_JOB_ID=1"}));
  CHECK_FALSE(has_server(pmi, {"FLUX_JOB_ID=1", "FLUX_PMI_LIBRARY_PATH=/no/such"}));
  CHECK(has_server(pmi, {"FLUX_JOB_ID=1", "FLUX_PMI_LIBRARY_PATH=/"}));
  // PMIx tells no size: its server does, or a rank that is not the first.
  CHECK(launch_of({"PMIX_RANK=0", "PMIX_SERVER_URI3=tcp"}).size == 0);
  CHECK(launch_of({"PMIX_RANK=3", "PMIX_NAMESPACE=n"}).size == 4);
}

}  // namespace
}  // namespace ladder
