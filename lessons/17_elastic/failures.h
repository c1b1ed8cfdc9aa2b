// Planted failures: ranks that a user lets die, to see what happens then.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/train/trainer/flag_value.h"
#include "kernels/runtime/scoped_observer.h"

namespace ladder {

// A rank is lost in the middle of a step.
struct Failure {
  size_t rank = 0;
  int64_t step = 0;
  friend bool operator==(const Failure&, const Failure&) = default;
};

// Adds --fail RANK@STEP,... to the app. `failures` gets the values and must live until the app has
// parsed.
void add_failures(FlagTable& flags, std::vector<Failure>& failures);
// Returns the value of --fail for these failures, such as "2@30,1@40".
std::string to_text(const std::vector<Failure>& failures);
// Throws a UserError that names --fail if one of them cannot happen on so many ranks in so many
// steps.
void check_failures(const std::vector<Failure>& failures, size_t num_ranks, int64_t num_steps);

// Kills this process with SIGKILL in the backward that is queued on the stream while the object
// lives, when the first unit has been through it: nobody can catch this signal, so the process does
// no more than it would in a power cut.
class DeathInBackward final : public ScopedObserver {
 public:
  using ScopedObserver::ScopedObserver;

  void on_range(std::string_view name, Time begin, Time end) override;
};

}  // namespace ladder
