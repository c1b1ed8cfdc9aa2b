// The CPU threads on which kernels run.
#pragma once

#include <cstddef>
#include <string>

namespace ladder {

// Returns the number of cores whose time this process may use, at least 1: the smallest of the
// cores that it may run on and the limits of its CPU control groups, rounded down. In a container
// that has the time of 1.5 of 8 cores, a second thread would make the first one wait. `root` is put
// before /proc and /sys; it is empty except in tests.
int num_available_cores(const std::string& root = "");

// Returns how many threads a process takes unless its user says otherwise: OMP_NUM_THREADS, if that
// is set and not empty, else num_available_cores() / num_processes, rounded down, at least 1, where
// `num_processes` run on this machine. Throws a UserError unless OMP_NUM_THREADS is a whole number
// from 1 to 4096, or a list that begins with one (the others are for threads within threads).
int default_num_threads(size_t num_processes);

// From now on CPU kernels that this thread calls use `count` threads. REQUIRES: count >= 1.
void set_num_threads(int count);

}  // namespace ladder
