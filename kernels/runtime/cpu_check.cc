// Ends the program with a clear message if the CPU cannot run it. Only this file is compiled for
// any x86-64 CPU, and its constructor runs before all others.
#include <unistd.h>

namespace {

__attribute__((constructor(101))) void check_cpu() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return;
  constexpr char kMessage[] =
      "error: this program needs a CPU with AVX2 and FMA (x86-64-v3, from 2013 on); "
      "this CPU has neither or only one\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  _exit(1);
}

}  // namespace
