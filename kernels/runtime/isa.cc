#include "kernels/runtime/isa.h"

#include <cstdlib>
#include <string>
#include <unordered_map>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

struct Bodies {
  void *v3, *v4;
};

}  // namespace

extern "C" {
// Made by kernels/v4_names.sh; the last pair is null. Programs without kernels have none.
[[gnu::weak]] extern const Bodies ladder_bodies[];
// Defined (v3_alone.cc) in programs that replace a body. What replaces it is compiled for v3 only.
[[gnu::weak]] extern const char ladder_v3_alone;
}

namespace {

#ifdef __x86_64__
bool has_v4() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

std::string_view choose(std::string_view asked) {
  if (ladder_bodies == nullptr) return "";
  const bool is_replaced = &ladder_v3_alone != nullptr;
  if (asked == "v3" || (asked == "" && (is_replaced || !has_v4()))) return "v3";
  if (asked != "v4" && asked != "") {
    throw UserError(concat("LADDER_ISA is '", asked, "'; it can be v3 or v4"));
  }
  if (!has_v4()) throw UserError("LADDER_ISA=v4: this CPU has no AVX-512");
  if (is_replaced) throw UserError("LADDER_ISA=v4: a kernel of this program is replaced, for v3");
  return "v4";
}
#else
std::string_view choose(std::string_view asked) {
  if (asked != "") throw UserError("LADDER_ISA is for x86-64; this is another processor");
  return "";
}
#endif

std::unordered_map<void*, void*> make_v4_bodies() {
  std::unordered_map<void*, void*> bodies;
  if (instruction_set() != "v4") return bodies;
  for (const Bodies* pair = ladder_bodies; pair->v3 != nullptr; ++pair) {
    bodies.emplace(pair->v3, pair->v4);
  }
  return bodies;
}

}  // namespace

std::string_view instruction_set() {
  static const char* const asked = std::getenv("LADDER_ISA");
  static const std::string_view chosen = choose(asked == nullptr ? "" : asked);
  return chosen;
}

void* detail::chosen_body(void* v3) {
  static const std::unordered_map<void*, void*> bodies = make_v4_bodies();
  const auto found = bodies.find(v3);
  return found == bodies.end() ? v3 : found->second;
}

}  // namespace ladder
