// Prints tools/measure/roofline/instructions.txt as nvcc says today:
//   bazel run --config=cuda //tests/kernels/cuda:instructions > tools/measure/roofline/instructions.txt
#include <cstdio>
#include <iostream>

#include "tests/kernels/cuda/machine_code.h"

int main() {
  if (!ladder::has_cuobjdump()) {
    std::fputs("error: there is no cuobjdump, which comes with the CUDA toolkit\n", stderr);
    return 2;
  }
  std::cout << ladder::instructions_table() << std::flush;
  return std::cout.good() ? 0 : 1;
}
