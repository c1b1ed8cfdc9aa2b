#include "kernels/emulator/refusals.h"

#include <cstdlib>
#include <mutex>
#include <sstream>

#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

Refused of_environment() {
  const char* const value = std::getenv("LADDER_EMULATOR_REFUSES");
  Refused calls;
  if (value == nullptr) return calls;
  std::istringstream words(value);
  if (words >> calls.function >> calls.status >> calls.first) return calls;
  throw UserError(concat("LADDER_EMULATOR_REFUSES=", value,
                         ": expected a function, a status and the number of the first call"));
}

struct State {
  std::mutex mutex;
  Refused calls = of_environment();
  size_t num_calls = 0;  // of calls.function
};

State& state() {
  static State* const the_state = new State;
  return *the_state;
}

void refuse(const Refused& calls) {
  const std::lock_guard lock(state().mutex);
  state().calls = calls;
  state().num_calls = 0;
}

}  // namespace

std::optional<int> refused(std::string_view function) {
  const std::lock_guard lock(state().mutex);
  const Refused& calls = state().calls;
  if (function != calls.function || ++state().num_calls < calls.first) return std::nullopt;
  return calls.status;
}

Refusal::Refusal(const Refused& refused) { refuse(refused); }
Refusal::~Refusal() { refuse({}); }

size_t Refusal::num_calls() const {
  const std::lock_guard lock(state().mutex);
  return state().num_calls;
}

}  // namespace ladder::emulator
