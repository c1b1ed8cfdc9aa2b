// Exceptions in WebAssembly: Debian's C++ library for it is built without them. The compiler makes
// the instructions `throw` and `catch`, and calls what is below. What is thrown derives from
// std::exception by single inheritance, and is caught by reference.
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <typeinfo>

namespace {

// Lies before the object that is thrown.
struct alignas(16) Header {
  const std::type_info* type;
};

// The description of a class with one base, by the C++ ABI.
struct ClassWithBase {
  const void* table;
  const char* name;
  const std::type_info* base;
};

bool is_a(const std::type_info* type, const std::type_info& wanted) {
  while (*type != wanted && *type != typeid(std::exception)) {
    type = reinterpret_cast<const ClassWithBase*>(type)->base;
  }
  return *type == wanted;
}

// Reads a number of the compiler's tables, 7 bits a byte. These are small, and not negative.
uintptr_t read(const uint8_t*& at) {
  uintptr_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const uint8_t byte = *at++;
    value |= static_cast<uintptr_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
}

}  // namespace

extern "C" {

// The compiler writes where an exception has arrived, and reads which of the types there catches
// it.
struct {
  uintptr_t landing_pad;
  const uint8_t* tables;
  uintptr_t selector;
} __wasm_lpad_context;

void* __cxa_allocate_exception(size_t bytes) {
  return static_cast<Header*>(std::malloc(sizeof(Header) + bytes)) + 1;
}
void __cxa_free_exception(void* object) { std::free(static_cast<Header*>(object) - 1); }

[[noreturn]] void __cxa_throw(void* object, const std::type_info* type, void (*)(void*)) {
  (static_cast<Header*>(object) - 1)->type = type;
  __builtin_wasm_throw(0, object);
}

// What was thrown is never freed: it is a few bytes.
static void* caught = nullptr;
void* __cxa_begin_catch(void* object) { return caught = object; }
void __cxa_end_catch() {}
[[noreturn]] void __cxa_rethrow() { __builtin_wasm_throw(0, caught); }

// Looks for the first type of the landing pad that the exception has. Tables are those of the C++
// ABI: a list of landing pads, each with the offset (and one) of its first action; actions of a
// type's number and the way to the next action; and, numbered backwards, the types.
int _Unwind_CallPersonality(void* object) {
  const uint8_t* at = __wasm_lpad_context.tables + 2;  // the encodings are known
  const uintptr_t types_offset = read(at);
  const auto* const types = reinterpret_cast<const std::type_info* const*>(at + types_offset);
  ++at;
  const uintptr_t size = read(at);
  const uint8_t* const actions = at + size;
  uintptr_t action = 0;
  for (uintptr_t i = 0; i <= __wasm_lpad_context.landing_pad; ++i) {
    read(at);
    action = read(at);
  }
  __wasm_lpad_context.selector = 0;
  for (const uint8_t* record = actions + action - 1; action != 0;) {
    const uintptr_t number = read(record);
    const uint8_t* const link = record;
    const std::type_info* const type = *(types - number);
    if (number != 0 && (type == nullptr || is_a((static_cast<Header*>(object) - 1)->type, *type))) {
      __wasm_lpad_context.selector = number;
      break;
    }
    const auto distance = static_cast<int8_t>(*link << 1) / 2;
    if (distance == 0) break;
    record = link + distance;
  }
  return 0;
}

}  // extern "C"
