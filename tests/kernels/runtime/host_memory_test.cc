// What is free of a machine and of the control groups around a process, from files as the kernel
// writes them.
#include "kernels/runtime/host_memory.h"

#include "tests/catch.h"
#include "tests/kernels/runtime/fake_root.h"

namespace ladder {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// free_host_memory() of a machine that has these files.
size_t free_of(const Files& files) { return free_host_memory(root_with(files)); }

const std::string kMachine = "MemTotal: 4096 kB\nMemFree: 1 kB\nMemAvailable: 2048 kB\n";

TEST_CASE("without limits it is what the machine has available; 0 where nothing says") {
  CHECK(free_of({{"proc/meminfo", kMachine}}) == 2 * kMiB);
  CHECK(free_of({}) == 0);
  CHECK(free_host_memory() > kMiB);
}

TEST_CASE("version 2: the least of a group and those around it, less what is held") {
  const auto with = [&](const std::string& inner, const std::string& outer) {
    return free_of({{"proc/meminfo", kMachine},
                    {"proc/self/cgroup", "0::/job_7/step_0\n"},
                    {"sys/fs/cgroup/job_7/step_0/memory.max", inner},
                    {"sys/fs/cgroup/job_7/step_0/memory.current", "1048576\n"},
                    {"sys/fs/cgroup/job_7/step_0/memory.stat", "anon 9\ninactive_file 262144\n"},
                    {"sys/fs/cgroup/job_7/memory.max", outer}});
  };
  CHECK(with("max\n", "max\n") == 2 * kMiB);
  CHECK(with("2097152\n", "max\n") == kMiB + kMiB / 4);  // caches are given back
  CHECK(with("2097152\n", "65536\n") == 65536);
  CHECK(with("65536\n", "max\n") == 0);  // more is held than the limit allows
}

TEST_CASE("version 1, and a container that sees its own group as the root") {
  const std::string groups = "5:cpu:/a\n4:hugetlb,memory:/docker/abc\n0::/\n";
  CHECK(free_of({{"proc/meminfo", kMachine},
                 {"proc/self/cgroup", groups},
                 {"sys/fs/cgroup/memory/memory.limit_in_bytes", "524288\n"},
                 {"sys/fs/cgroup/memory/memory.usage_in_bytes", "131072\n"}}) == 393216);
  CHECK(free_of({{"proc/meminfo", kMachine},
                 {"proc/self/cgroup", groups},
                 {"sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "524288\n"},
                 {"sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "262144\n"},
                 {"sys/fs/cgroup/memory/docker/abc/memory.stat", "total_inactive_file 131072\n"},
                 {"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"}}) ==
        393216);
}

}  // namespace
}  // namespace ladder
