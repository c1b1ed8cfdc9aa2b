// Checkpoints of a run on several machines: a signal to one rank saves them all, and a folder that
// machines do not share is found before the first step.
#include <algorithm>
#include <future>
#include <random>
#include <thread>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/sample.h"
#include "tests/system/cluster.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

Flags run_with(const fs::path& folder, const std::string& steps) {
  return {lesson_path("05_zero3"),
          "--model",
          "nano",
          "--threads",
          "1",
          "--global-batch-size",
          "12",
          "--evaluate-every",
          "0",
          "--sample",
          "0",
          "--steps",
          steps,
          "--metrics",
          folder / "m",
          "--checkpoint",
          folder / "c"};
}

TEST_CASE("machines: a signal to a rank of one machine saves after the same step on all") {
  if (!clusters_are_possible()) return;
  const Cluster cluster(2);
  const Flags where = {"--hosts", "node1:2,node2:1"};
  testing::for_random_cases(3, [&](size_t number) {
    std::mt19937 random(static_cast<std::mt19937::result_type>(number));
    const std::string node = random() % 2 == 0 ? "node1" : "node2";
    const char* const which = random() % 2 == 0 ? "--oldest" : "--newest";
    const Scratch folder;
    auto run = std::async(std::launch::async, [&] {
      return cluster.run(where, run_with(folder.path(), "1000000"), {.time_limit = seconds(90)});
    });
    std::error_code error;
    while (fs::file_size(folder.path() / "m", error) == 0 || error) {
      std::this_thread::sleep_for(milliseconds(10));
      if (run.wait_for(seconds(0)) == std::future_status::ready) FAIL(run.get().err);
    }
    std::this_thread::sleep_for(milliseconds(random() % 200));
    cluster.shell(node, concat("pkill -USR1 ", which, " 05_zero3"));
    const ProcessResult result = run.get();
    CAPTURE(number, node, which, result.out, result.err);
    CHECK(result.status == 128 + SIGUSR1);
    const std::string saved = "\nsaved step ";
    REQUIRE_THAT(result.out, ContainsSubstring(saved));
    const std::string step =
        concat(std::stoi(result.out.substr(result.out.find(saved) + saved.size())));
    const ProcessResult resumed =
        cluster.run(where, run_with(folder.path(), step) + Flags{"--resume"});
    require_success(resumed);
    CHECK_THAT(resumed.out, ContainsSubstring(concat("resumed  after step ", step, " ")) &&
                                ContainsSubstring("nothing is left to train"));
  });
  cluster.check_clean();
}

TEST_CASE("machines: a folder of checkpoints on each machine's own disk") {
  if (!clusters_are_possible()) return;
  const Cluster cluster(2);
  const Scratch folder;
  for (const std::string node : {"node1", "node2"}) {
    cluster.shell(node, concat("mount -t tmpfs none ", folder.path().string(), " && mkdir ",
                               (folder.path() / "c").string()));
  }
  const ProcessResult result =
      cluster.run({"--hosts", "node1:1,node2:2"}, run_with(folder.path(), "1000000"));
  CAPTURE(result.out, result.err);
  CHECK(result.status == 2);
  CHECK(std::ranges::count(result.err, '\n') == 2);
  CHECK_THAT(result.err, StartsWith("rank 1 on node2: waits until ") &&
                             ContainsSubstring("\nerror: --checkpoint ") &&
                             ContainsSubstring("rank 1 on node2") && ContainsSubstring("share"));
  CHECK(result.out.empty());
  cluster.check_clean();
}

}  // namespace
}  // namespace ladder
