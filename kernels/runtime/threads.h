// The CPU threads on which kernels run.
#pragma once

#include <cstddef>
#include <string>

namespace ladder {

// Returns the number of cores whose time this process may use, at least 1. It is the number of
// cores that it may run on or, where that is less, the limit of its CPU control group and of each
// group around it, rounded down: in a container that has the time of 1.5 of 8 cores, a second
// thread would make the first one wait. `root` is put before /proc and /sys; it is empty except in
// tests.
int num_available_cores(const std::string& root = "");

// Returns how many threads a process takes unless its user says otherwise: OMP_NUM_THREADS, where
// that is set, or its share of the cores, where `num_processes` on this machine share them. Throws
// a UserError if OMP_NUM_THREADS does not begin with a whole number from 1 to 4096. (It may be a
// list, whose other numbers are for threads within threads.)
int default_num_threads(size_t num_processes);

// From now on CPU kernels that this thread calls use `count` threads. REQUIRES: count >= 1.
void set_num_threads(int count);

}  // namespace ladder
