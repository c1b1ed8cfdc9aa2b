// Ends the program with a clear message if the CPU cannot run it. This function alone is compiled
// for any x86-64 CPU, and as a constructor it runs before all others. Every aarch64 CPU will do.
#ifdef __x86_64__
#include <unistd.h>

namespace {

__attribute__((constructor(101), target("arch=x86-64"))) void check_cpu() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return;
  constexpr char kMessage[] =
      "error: this program needs a CPU with AVX2 and FMA (x86-64-v3, from 2013 on); "
      "this CPU has neither or only one\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  _exit(1);
}

}  // namespace
#endif
