// tools/zoo as a user runs it, as far as it builds nothing.

#include "tests/catch.h"
#include "tests/system/single_gpu.h"
#include "tools/programs/process.h"

namespace ladder {
namespace {

ProcessResult zoo(const Flags& arguments) {
  return run_process(Flags{program_path("tools/zoo")} + arguments);
}

TEST_CASE("zoo: the list has every bug with its lesson and its symptom") {
  const ProcessResult result = zoo({"list"});
  CAPTURE(result.out, result.err);
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK_THAT(result.out, StartsWith("01  00_collectives"));
  CHECK_THAT(result.out, ContainsSubstring("\n24  "));
  CHECK_THAT(result.out,
             ContainsSubstring("05  02_ddp                       The loss is nearly right, and "));
}

TEST_CASE("zoo: what cannot be run is refused, with what can") {
  const auto refuse = [](const Flags& arguments, const std::string& mention) {
    const ProcessResult result = zoo(arguments);
    CAPTURE(arguments, result.out, result.err);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, ContainsSubstring(mention) && ContainsSubstring("tools/zoo list"));
  };
  refuse({}, "say what to do");
  refuse({"feed"}, "'feed'");
  refuse({"rnu"}, "'rnu'; did you mean run?");
  refuse({"run"}, "needs the number of a bug");
  refuse({"run", "99"}, "no bug '99'");
  refuse({"run", "05", "-n", "x"}, "'x'");
  refuse({"catch", "0"}, "no bug '0'");
  refuse({"catch", "*"}, "no bug '*'");
  refuse({"catch", "05", "--steps"}, "--steps");
  refuse({"catch", "5", "--steps"}, "--steps");  // 5 is 05
  refuse({"list", "05"}, "05");
  CHECK(zoo({"--help"}).status == 0);
}

}  // namespace
}  // namespace ladder
