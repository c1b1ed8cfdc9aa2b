// Ranks on the NUMA nodes of their GPUs, with machines that are made up.
#include "common/comm/numa.h"

#include <sched.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/catch.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

// What a new thread that calls keep_on(cpus) may use afterwards, and whether keep_on says that it
// has changed anything.
struct Kept {
  bool changed;
  std::vector<int> cpus, of_child;
};
Kept keep(const std::vector<int>& cpus) {
  Kept kept;
  std::thread([&] {
    kept.changed = keep_on(cpus);
    kept.cpus = allowed_cpus();
    std::thread([&] { kept.of_child = allowed_cpus(); }).join();
  }).join();
  return kept;
}

TEST_CASE("the CPUs beside a GPU are those of its node") {
  const Scratch folder;
  const std::filesystem::path root = folder.path();
  write(root / "bus/pci/devices/0000:1b:00.0/numa_node", "1\n");
  write(root / "bus/pci/devices/0000:3b:00.0/numa_node", "0\n");
  write(root / "bus/pci/devices/0000:5b:00.0/numa_node", "-1\n");
  write(root / "bus/pci/devices/0000:6b:00.0/numa_node", "7\n");  // of which nothing is known
  write(root / "devices/system/node/node0/cpulist", "0-1,4,6-7\n");
  write(root / "devices/system/node/node1/cpulist", "2\n");
  const auto beside = [&](const char* id) { return cpus_beside(id, root); };
  CHECK(beside("0000:1B:00.0") == std::vector{2});  // CUDA writes large letters
  CHECK(beside("0000:3b:00.0") == std::vector{0, 1, 4, 6, 7});
  CHECK(beside("0000:5b:00.0").empty());
  CHECK(beside("0000:6b:00.0").empty());
  CHECK(beside("0000:7b:00.0").empty());  // no such device
  CHECK(beside("").empty());              // of the emulator
}

TEST_CASE("a thread is kept on CPUs that it may use, and so are those that it starts") {
  const std::vector<int> before = allowed_cpus();
  if (before.size() < 2) {
    WARN("skipped: one CPU");
    return;
  }
  const std::vector<int> one = {before[0]};
  const Kept kept = keep({before[0], 1000});  // the other one does not exist
  CHECK(kept.changed);
  CHECK(kept.cpus == one);
  CHECK(kept.of_child == one);
  CHECK(allowed_cpus() == before);
}

TEST_CASE("a thread that something else keeps to CPUs stays there") {
  const std::vector<int> before = allowed_cpus();
  for (const std::vector<int>& cpus : {before, std::vector<int>{}, std::vector{1000, 100'000}}) {
    const Kept kept = keep(cpus);
    CHECK(!kept.changed);
    CHECK(kept.cpus == before);
  }
  if (before.size() < 2) return;
  std::thread([&] {
    CHECK(keep_on({before[0]}));  // as mpirun may have done
    CHECK(!keep_on({before[0], before[1]}));
    CHECK(!keep_on({before[1]}));
    CHECK(allowed_cpus() == std::vector{before[0]});
  }).join();
}

}  // namespace
}  // namespace ladder
