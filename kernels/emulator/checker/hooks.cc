// What the compiler calls before each access to memory when it compiles for the thread sanitizer,
// and where an index is out of an array's bounds or an address is misaligned.
// --config=emulator-check asks for that in .cu files alone. The functions have the names that GCC
// gives them; here they tell the emulator's observers instead of the sanitizers' libraries.
//
// Host code of a .cu file calls them as well. No kernel runs then, so nobody is told.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/emulator/checker/debug_info.h"
#include "kernels/emulator/execution.h"
#include "kernels/emulator/stacks.h"
#include "kernels/runtime/check.h"

namespace {

using namespace ladder::emulator;

// Inlined, so that the return address is that of the hook.
[[gnu::always_inline]] inline void tell(const void* address, size_t bytes, AccessKind kind) {
  if (!is_observed || is_on_stack(address)) return;
  report_access(address, bytes, kind, __builtin_return_address(0));
}

template <class T>
std::atomic<T>& as_atomic(volatile T* object) {
  static_assert(sizeof(std::atomic<T>) == sizeof(T));
  return *reinterpret_cast<std::atomic<T>*>(const_cast<T*>(object));
}

// What GCC says of a line of the source and of a type.
struct SourceLocation {
  const char* file;
  std::uint32_t line, column;
};
struct Type {
  std::uint16_t kind, info;  // of an integer, bit 0 of info says whether it has a sign
  char name[1];              // and more
};
struct ArrayAccess {
  SourceLocation location;
  const Type *array, *index;
};
struct TypedAccess {
  SourceLocation location;
  const Type* type;
  unsigned char log_alignment, kind;
};

// Ends the launch, or the program if no kernel runs.
[[noreturn]] void stop(const std::string& why) {
  if (!running_kernel_name().empty()) stop_thread(why);
  std::fputs((why + "\n").c_str(), stderr);
  std::abort();
}

}  // namespace

// Plain accesses.
#define LADDER_HOOKS(prefix, bytes)                                                           \
  extern "C" void __tsan_##prefix##read##bytes(void* p) { tell(p, bytes, AccessKind::read); } \
  extern "C" void __tsan_##prefix##write##bytes(void* p) { tell(p, bytes, AccessKind::write); }
LADDER_HOOKS(, 1)
LADDER_HOOKS(, 2)
LADDER_HOOKS(, 4)
LADDER_HOOKS(, 8)
LADDER_HOOKS(, 16)
LADDER_HOOKS(unaligned_, 2)
LADDER_HOOKS(unaligned_, 4)
LADDER_HOOKS(unaligned_, 8)
LADDER_HOOKS(unaligned_, 16)

// Atomics of the language, which host code uses. (Those of CUDA are in atomics.h.)
#define LADDER_ATOMIC_HOOKS(bits, T)                                                              \
  extern "C" T __tsan_atomic##bits##_load(const volatile T* p, int) {                             \
    return as_atomic(const_cast<volatile T*>(p)).load();                                          \
  }                                                                                               \
  extern "C" void __tsan_atomic##bits##_store(volatile T* p, T value, int) {                      \
    as_atomic(p).store(value);                                                                    \
  }                                                                                               \
  extern "C" T __tsan_atomic##bits##_exchange(volatile T* p, T value, int) {                      \
    return as_atomic(p).exchange(value);                                                          \
  }                                                                                               \
  extern "C" T __tsan_atomic##bits##_fetch_add(volatile T* p, T value, int) {                     \
    return as_atomic(p).fetch_add(value);                                                         \
  }                                                                                               \
  extern "C" int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* expected,        \
                                                               T value, int, int) {               \
    return as_atomic(p).compare_exchange_strong(*expected, value);                                \
  }                                                                                               \
  extern "C" int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* expected, T value, \
                                                             int, int) {                          \
    return as_atomic(p).compare_exchange_weak(*expected, value);                                  \
  }
LADDER_ATOMIC_HOOKS(8, std::uint8_t)
LADDER_ATOMIC_HOOKS(32, std::uint32_t)
LADDER_ATOMIC_HOOKS(64, std::uint64_t)

extern "C" {

void __tsan_read_range(void* p, size_t bytes) { tell(p, bytes, AccessKind::read); }
void __tsan_write_range(void* p, size_t bytes) { tell(p, bytes, AccessKind::write); }
void __tsan_vptr_read(void*) {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_init() {}

// An index of up to eight bytes is outside of its array, whose size the compiler knows.
void __ubsan_handle_out_of_bounds(const ArrayAccess* access, std::uintptr_t index) {
  const std::string text = (access->index->info & 1) != 0
                               ? ladder::concat(static_cast<std::intptr_t>(index))
                               : ladder::concat(index);
  stop(ladder::concat("out of bounds: index ", text, " of an array ", access->array->name, " at ",
                      source_line(__builtin_return_address(0))));
}

// An address is no multiple of what its type requires.
void __ubsan_handle_type_mismatch_v1(const TypedAccess* access, std::uintptr_t) {
  stop(ladder::concat("misaligned: access to ", access->type->name, " at ",
                      source_line(__builtin_return_address(0)),
                      ", at an address that is no multiple of ", 1u << access->log_alignment));
}

}  // extern "C"
