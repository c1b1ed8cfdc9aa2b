// Makes functions of CUDA's libraries fail as they may fail on a GPU, so that tests can see what
// the program does then.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ladder::emulator {

// The calls of `function`, such as "ncclSend", that are refused: with this status, and from call
// number `first` on. The first call has the number 1.
struct Refused {
  std::string function;
  int status = 0;
  size_t first = 1;
};

// Returns the status with which this call of `function` must fail, or nothing if it may go on. The
// functions that can be refused call it once when they begin. Until there is a Refusal, the
// environment variable LADDER_EMULATOR_REFUSES decides: function, status and first with blanks
// between, such as "ncclSend 2 1". Throws UserError if it has another form.
std::optional<int> refused(std::string_view function);

// Refuses calls as long as it exists, in place of the environment variable. There is one at a time.
class Refusal {
 public:
  explicit Refusal(const Refused& refused);
  ~Refusal();
  Refusal(const Refusal&) = delete;
  Refusal& operator=(const Refusal&) = delete;

  size_t num_calls() const;  // of the function so far, refused or not
};

}  // namespace ladder::emulator
