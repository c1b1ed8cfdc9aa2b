// CPU threads of the kernels' bodies.
#pragma once

namespace ladder {

// Cores that this process may run on.
int num_available_cores();

// From here on CPU kernels called by this thread use `count` threads. REQUIRES: count >= 1.
void set_num_threads(int count);

}  // namespace ladder
