#include "kernels/runtime/threads.h"

#include <omp.h>

namespace ladder {

int num_available_cores() { return omp_get_num_procs(); }

void set_num_threads(int count) { omp_set_num_threads(count); }

}  // namespace ladder
