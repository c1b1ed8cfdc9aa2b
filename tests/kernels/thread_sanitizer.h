// The thread sanitizer, as a test uses it. A program that links this needs no more to make OpenMP's
// order of threads known to it.
#pragma once

namespace ladder::testing {

// Races that the sanitizer has found so far. It has described each on stderr, with the lines of the
// source that met; one that it has seen before does not count again.
int num_races();

}  // namespace ladder::testing
