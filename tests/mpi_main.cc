// The shared main of tests that run under mpirun: every rank runs the same cases in the same order
// and rank 0 reports. The first failed assertion, on whichever rank, is printed with its rank and
// ends all ranks, since the others would wait for that rank for ever. --delays SEED holds ranks
// back at some places (delays.h).
#define CATCH_CONFIG_RUNNER
#include "tests/mpi_main.h"

#include <iostream>
#include <optional>
#include <vector>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/delays.h"

namespace ladder::testing {
namespace {

std::optional<MpiWorld>& the_world() {
  static std::optional<MpiWorld> world;
  return world;
}

#if CATCH_VERSION_MAJOR == 2
using Listener = Catch::TestEventListenerBase;
using Ended = bool;  // is the assertion done with?
namespace clara = Catch::clara;
void end_colours(Catch::ConfigData& settings) { settings.useColour = Catch::UseColour::No; }
#else
using Listener = Catch::EventListenerBase;
using Ended = void;
namespace clara = Catch::Clara;
void end_colours(Catch::ConfigData& settings) {
  settings.defaultColourMode = Catch::ColourMode::None;
}
#endif

class AbortOnFailure : public Listener {
 public:
  using Listener::Listener;

  Ended assertionEnded(const Catch::AssertionStats& stats) override {
    const Catch::AssertionResult& result = stats.assertionResult;
    if (result.isOk()) return Ended(true);
    std::string text = concat("FAILED: ", world().name(), ": ", result.getSourceInfo().file, ":",
                              result.getSourceInfo().line, ": ", result.getExpressionInMacro());
    if (result.hasExpandedExpression()) text += "\n  with " + result.getExpandedExpression();
    if (result.hasMessage()) text += concat("\n  ", result.getMessage());
    for (const Catch::MessageInfo& info : stats.infoMessages) text += "\n  " + info.message;
    std::cerr << text + "\n1 failed, the other ranks were ended\n" << std::flush;
    MpiWorld::abort(1);
  }
};
CATCH_REGISTER_LISTENER(AbortOnFailure)

}  // namespace

MpiWorld& world() { return *the_world(); }

}  // namespace ladder::testing

#ifdef __SANITIZE_ADDRESS__
// Open MPI and the libraries it stands on do not free all that they allocate. Leaks are told by the
// module they come from, which must still be there at the end: plug-ins stay loaded. (Texts that
// they have printed into are told by the printing alone; nothing of ours prints so.)
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libmpi\nleak:libopen-\nleak:mca_\nleak:libpmix\nleak:libhwloc\nleak:libevent\n"
         "leak:vasprintf\n";
}
extern "C" int dlclose(void*) { return 0; }
#endif

#ifdef __SANITIZE_THREAD__
// Open MPI is not instrumented: a thread that waits for its message may receive another thread's
// too, and what orders the two cannot be seen.
extern "C" const char* __tsan_default_suppressions() {
  return "race:mca_\nrace:libmpi\nrace:libopen-\nrace:process_vm_readv\ndeadlock:mca_\n";
}
#endif

int main(int argc, char** argv) {
  ladder::testing::the_world().emplace();
  const size_t rank = ladder::testing::world().rank();
  Catch::Session session;
  ladder::testing::end_colours(session.configData());  // mpirun gives ranks a terminal
  uint64_t seed = 0;
  session.cli(session.cli() |
              ladder::testing::clara::Opt(seed, "seed")["--delays"]("hold ranks back"));
  std::vector<const char*> arguments(argv, argv + argc);
  if (rank != 0) arguments.insert(arguments.end(), {"--out", "/dev/null"});
  int status = session.applyCommandLine(static_cast<int>(arguments.size()), arguments.data());
  if (status == 0) {
    ladder::testing::set_delays(seed, rank);
    status = session.run();
  }
  ladder::testing::the_world().reset();
  return status;
}
