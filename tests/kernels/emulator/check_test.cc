// The emulator as a sanitizer: each planted bug is found and named, and the kernel without the bug
// runs in silence.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "kernels/emulator/streams.h"
#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/kernels/emulator/planted/bugs.h"
#include "tests/kernels/emulator/support.h"

namespace ladder::planted {
namespace {

const std::string kFolder = "tests/kernels/emulator/planted/";

// Returns "file:line" of the line that ends in the comment "// @mark".
std::string place_of_mark(const std::string& file, const std::string& mark) {
  std::ifstream in(kFolder + file);
  REQUIRE(in.good());
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.ends_with("// @" + mark)) return concat(kFolder, file, ":", number);
  }
  FAIL("no mark @" << mark << " in " << file);
  return "";
}

std::string with_places(std::string message, const std::string& file) {
  const std::regex mark("@([a-z-]+)");
  for (std::smatch match; std::regex_search(message, match, mark);) {
    message = match.prefix().str() + place_of_mark(file, match[1]) + match.suffix().str();
  }
  return message;
}

// Returns what the launch throws, with 0x? for every address and .h:? for every line of a header.
std::string message_of(const Bug& bug, bool wrong) {
  try {
    bug.run(wrong);
  } catch (const Error& e) {
    const auto text = std::regex_replace(std::string(e.what()), std::regex("0x7[0-9a-f]+"), "0x?");
    return std::regex_replace(text, std::regex("\\.h:[0-9]+"), ".h:?");
  }
  return "";
}

void check_bugs(const std::vector<Bug>& bugs, const std::string& file) {
  const WithSeed order_of_indices(0);  // so that the same thread is always the first
  for (const Bug& bug : bugs) {
    INFO(bug.name);
    CHECK(message_of(bug, false) == "");
    CHECK_THAT(message_of(bug, true), ContainsSubstring(with_places(bug.message, file)));
    CHECK(message_of(bug, false) == "");  // a mistake leaves nothing behind
  }
}

TEST_CASE("races in shared memory") { check_bugs(shared_races(), "shared_races.cu"); }
TEST_CASE("races in global memory") { check_bugs(global_races(), "global_races.cu"); }
TEST_CASE("accesses out of bounds, or misaligned") {
  check_bugs(bad_accesses(), "bad_accesses.cu");
}
TEST_CASE("reads of what nobody has written") {
  check_bugs(undefined_reads(), "undefined_reads.cu");
}
TEST_CASE("waits for threads that never come") { check_bugs(bad_waits(), "undefined_reads.cu"); }
TEST_CASE("more shared memory than the device has") { check_bugs(bad_shapes(), "bad_accesses.cu"); }

TEST_CASE("work on different streams that nothing orders, run in the order of the calls or late") {
  using emulator::StreamOrder;
  emulator::set_stream_order(GENERATE(StreamOrder::immediate, StreamOrder::deferred));
  check_bugs(stream_races(), "stream_races.cu");
  emulator::set_stream_order(StreamOrder::immediate);
}

// Which of the two pieces of work comes second, and is stopped, depends on the order.
TEST_CASE("work on different streams that nothing orders, interleaved") {
  for (std::uint64_t number = 1; number <= 8; ++number) {
    const WithSeed seed(number);
    emulator::set_stream_order(emulator::StreamOrder::interleaved);
    for (const Bug& bug : stream_races()) {
      INFO(bug.name << ", seed " << number);
      CHECK(message_of(bug, false) == "");
      CHECK_THAT(message_of(bug, true), ContainsSubstring("race of streams: "));
    }
    emulator::set_stream_order(emulator::StreamOrder::immediate);
  }
}

std::string with_single_spaces(const std::string& text) {
  return std::regex_replace(text, std::regex("\\s+"), " ");
}

TEST_CASE("README.md quotes what the checker says") {
  const WithSeed order_of_indices(0);
  std::ifstream in("kernels/emulator/README.md");
  const std::string readme((std::istreambuf_iterator<char>(in)), {});
  const auto require_quoted = [&](const std::vector<Bug>& bugs, const char* name) {
    const auto quoted = std::ranges::find(bugs, name, &Bug::name);
    REQUIRE(quoted != bugs.end());
    CHECK_THAT(with_single_spaces(readme), ContainsSubstring(message_of(*quoted, true)));
  };
  require_quoted(shared_races(), "no barrier between the warps' sums and their sum");
  require_quoted(stream_races(), "an event is missing");
}

// In a shuffled order another thread may be the first to make the mistake, but none is overlooked.
TEST_CASE("the bugs are found in every order of threads and blocks") {
  const WithSeed seed(GENERATE(1, 2, 3, 4));
  for (const auto& list : {shared_races(), global_races(), undefined_reads(), bad_waits()}) {
    for (const Bug& bug : list) {
      INFO(bug.name);
      CHECK(message_of(bug, false) == "");
      CHECK(message_of(bug, true) != "");
    }
  }
}

}  // namespace
}  // namespace ladder::planted
