// Lesson 00 as a user runs it.

#include <regex>

#include "tests/catch.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

Flags command(const Flags& flags) { return Flags{lesson_path("00_collectives")} + flags; }

TEST_CASE("00: --show prints every step once, for all ranks") {
  const ProcessResult result = run_ranks(4, command({"--show", "ring"}));
  require_success(result);
  CHECK_THAT(
      result.out,
      StartsWith("ring all_reduce on 4 ranks: 6 rounds\n  rank 0 has [1 2 3 4]\n") &&
          ContainsSubstring("round 0\n  rank 0 sends [4] to rank 1, adds [15] from rank 3 and has "
                            "[1 2 18 4]\n") &&
          EndsWith("rank 3 sends [32] to rank 0, stores [28] from rank 2 and has "
                   "[28 32 36 40]\n"));
}

TEST_CASE("00: two ranks check every way, time it and fit its cost") {
  const Scratch folder;
  const ProcessResult result =
      run_ranks(2, command({"--draw", "costs.svg"}), {.folder = folder.path()});
  require_success(result);
  CAPTURE(result.out);
  CHECK_THAT(result.out, ContainsSubstring("00_collectives: all_reduce on 2 ranks, fp32; "));
  for (const std::string way : {"naive ", "ring ", "tree ", "halving ", "shared "}) {
    CHECK_THAT(result.out, ContainsSubstring("\n" + way));
  }
  // A machine with one core has no core for each of two ranks.
  if (result.out.find("not timed") != std::string::npos) return;
  CHECK_THAT(result.out, ContainsSubstring("16777216") && ContainsSubstring("fitted: ") &&
                             ContainsSubstring(" %\n"));
  CHECK_THAT(read_text(folder.path() / "costs.svg"),
             StartsWith("<svg ") && ContainsSubstring("all_reduce on 2 ranks"));
}

TEST_CASE("00: every collective is right, also where no core is left for a rank") {
  for (const std::string collective :
       {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all"}) {
    const ProcessResult result = run_ranks(5, command({"--collective", collective}));
    CAPTURE(collective, result.out);
    require_success(result);
    CHECK_THAT(result.out,
               ContainsSubstring(collective + " on 5 ranks") && ContainsSubstring("\nring "));
  }
}

TEST_CASE("00: one rank has nothing to send") {
  const ProcessResult result = run_process(command({}));
  require_success(result);
  CHECK_THAT(result.out,
             ContainsSubstring("on 1 rank, fp32") && ContainsSubstring("nothing to time"));
}

TEST_CASE("00: flags that cannot be") {
  const auto refuse = [](size_t num_ranks, const Flags& flags,
                         const std::vector<std::string>& mentions) {
    CAPTURE(flags);
    const ProcessResult result = run_ranks(num_ranks, command(flags));
    check_user_error(result, mentions);
    CHECK(result.out.empty());
  };
  refuse(3, {"--algorithm", "halving"}, {"halving", "power of two", "3", "4"});
  refuse(3, {"--show", "halving"}, {"halving", "power of two", "4"});
  refuse(2, {"--algorithm", "tree", "--collective", "all_gather"}, {"tree", "all_gather", "ring"});
  refuse(2, {"--algorithm", "star"}, {"--algorithm", "star"});
  refuse(2, {"--collective", "gossip"}, {"--collective", "gossip"});
  refuse(2, {"--minimum-bandwidth", "1"}, {"--minimum-bandwidth", "--check-network"});
  refuse(2, {"--check-network", "--minimum-bandwidth", "-1"}, {"--minimum-bandwidth", "-1"});
  refuse(2, {"--show", "ring", "--check-network"}, {"--show", "--check-network"});
  refuse(2, {"--draw", "/no/such/folder/x.svg"}, {"/no/such/folder/x.svg"});
  refuse(1, {"--draw", "x.svg"}, {"--draw", "one rank"});
}

TEST_CASE("00: ranks with different flags are told so") {
  const std::string program = lesson_path("00_collectives");
  const ProcessResult result = run_each({{program, "--show", "ring"}, {program, "--show", "tree"}});
  check_user_error(result, {"--show", "ring", "tree"});
}

TEST_CASE("00: --check-network names the slowest link, and refuses one that is too slow") {
  const ProcessResult good =
      run_ranks(3, command({"--check-network", "--minimum-bandwidth", "0.001"}));
  require_success(good);
  CHECK_THAT(good.out, ContainsSubstring("6 links of 3 ranks") && ContainsSubstring("slowest") &&
                           ContainsSubstring("GB/s  rank "));
  const auto speed = [&](const std::string& which) {
    std::smatch found;
    REQUIRE(std::regex_search(good.out, found, std::regex(which + " +(\\S+) GB/s")));
    return std::stod(found[1]);
  };
  CHECK(speed("slowest") <= speed("fastest"));
  const ProcessResult slow =
      run_ranks(2, command({"--check-network", "--minimum-bandwidth", "100000"}));
  CAPTURE(slow.out, slow.err);
  CHECK(slow.status == 1);
  CHECK_THAT(slow.out, ContainsSubstring("slowest"));
  CHECK_THAT(slow.err, StartsWith("error: rank ") && ContainsSubstring("less than 100000 GB/s"));
}

}  // namespace
}  // namespace ladder
