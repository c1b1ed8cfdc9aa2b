// The CPU threads on which kernels run.
#pragma once

namespace ladder {

// Returns the number of cores that this process may run on.
int num_available_cores();

// From now on CPU kernels that this thread calls use `count` threads. REQUIRES: count >= 1.
void set_num_threads(int count);

}  // namespace ladder
