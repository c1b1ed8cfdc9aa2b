#include "kernels/runtime/threads.h"

#include <omp.h>

#include <algorithm>
#include <cstdlib>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/kernels/runtime/fake_root.h"

namespace ladder {
namespace {

// num_available_cores() of a machine that has these files.
int cores_of(const Files& files) { return num_available_cores(root_with(files)); }

TEST_CASE("set_num_threads decides how many threads the bodies get") {
  const int before = omp_get_max_threads();
  CHECK(num_available_cores() >= 1);
  for (int count : {1, 3, 2}) {
    set_num_threads(count);
    CHECK(omp_get_max_threads() == count);
  }
  set_num_threads(before);
}

TEST_CASE("version 2: the least time of a group and those around it, in whole cores") {
  const int all = cores_of({});
  CHECK(all == omp_get_num_procs());
  const auto with = [](const std::string& inner, const std::string& outer,
                       const std::string& root) {
    return cores_of({{"proc/self/cgroup", "0::/job_7/step_0\n"},
                     {"sys/fs/cgroup/job_7/step_0/cpu.max", inner},
                     {"sys/fs/cgroup/job_7/cpu.max", outer},
                     {"sys/fs/cgroup/cpu.max", root}});
  };
  const std::string no_limit = "max 100000\n";
  CHECK(with(no_limit, no_limit, no_limit) == all);
  for (int whole = 1; whole <= std::min(all + 1, 16); ++whole) {
    const std::string limit = concat(whole * 50000 + 25000, " 50000\n");  // half a core more
    CHECK(with(limit, no_limit, no_limit) == std::min(whole, all));
    CHECK(with(no_limit, limit, no_limit) == std::min(whole, all));
    CHECK(with(no_limit, no_limit, limit) == std::min(whole, all));
  }
  CHECK(with("20000 100000\n", no_limit, no_limit) == 1);  // less than one core
  CHECK(with("900000000 100000\n", "100000 100000\n", no_limit) == 1);
}

TEST_CASE("version 1, by files of its own") {
  const int all = cores_of({});
  const auto with = [](const std::string& folder, const std::string& quota) {
    return cores_of({{"proc/self/cgroup", "9:memory:/b\n4:cpu,cpuacct:/docker/abc\n0::/\n"},
                     {"sys/fs/cgroup/cpu/" + folder + "cpu.cfs_quota_us", quota},
                     {"sys/fs/cgroup/cpu/" + folder + "cpu.cfs_period_us", "100000\n"}});
  };
  for (const std::string folder : {"docker/abc/", "docker/", ""}) {
    CHECK(with(folder, "-1\n") == all);
    CHECK(with(folder, "199999\n") == 1);
  }
  CHECK(with("b/", "100000\n") == all);  // another controller's group
}

TEST_CASE("OMP_NUM_THREADS goes before the share of the cores") {
  const char* const given = std::getenv("OMP_NUM_THREADS");
  const std::string before = given == nullptr ? "" : given;
  unsetenv("OMP_NUM_THREADS");
  CHECK(default_num_threads(1) == num_available_cores());
  CHECK(default_num_threads(1'000'000) == 1);
  setenv("OMP_NUM_THREADS", "", 1);
  CHECK(default_num_threads(1) == num_available_cores());
  for (const std::string number : {"3", "3,2"}) {
    setenv("OMP_NUM_THREADS", number.c_str(), 1);
    CHECK(default_num_threads(1) == 3);
    CHECK(default_num_threads(2) == 3);  // it says how many a process has
  }
  for (const std::string wrong : {"0", "-1", "4097", "two", "2x", " 2"}) {
    setenv("OMP_NUM_THREADS", wrong.c_str(), 1);
    CHECK_THROWS_WITH(default_num_threads(1),
                      "OMP_NUM_THREADS: '" + wrong + "' is not a whole number from 1 to 4096");
  }
  given == nullptr ? unsetenv("OMP_NUM_THREADS") : setenv("OMP_NUM_THREADS", before.c_str(), 1);
}

}  // namespace
}  // namespace ladder
