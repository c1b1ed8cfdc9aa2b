// Element types. They are known at run time; a kernel turns them into a template argument once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/runtime/check.h"
#include "kernels/runtime/low_precision.h"

namespace ladder {

enum class DType : uint8_t { fp32, fp64, int32, bf16, fp16 };

constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
    case DType::fp16:
      return 2;
    case DType::fp32:
    case DType::int32:
      return 4;
    case DType::fp64:
      return 8;
  }
  return 0;
}

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return "fp32";
    case DType::fp64:
      return "fp64";
    case DType::int32:
      return "int32";
    case DType::bf16:
      return "bf16";
    case DType::fp16:
      return "fp16";
  }
  return "?";
}

// The dtype of the C++ type T.
template <class T>
inline constexpr DType dtype_of = [] { static_assert(sizeof(T) == 0, "not an element type"); }();
template <>
inline constexpr DType dtype_of<float> = DType::fp32;
template <>
inline constexpr DType dtype_of<double> = DType::fp64;
template <>
inline constexpr DType dtype_of<int32_t> = DType::int32;
template <>
inline constexpr DType dtype_of<bfloat16> = DType::bf16;
template <>
inline constexpr DType dtype_of<float16> = DType::fp16;

// Accumulate<T> is the type in which kernels compute and sum elements of T: fp32 for bf16 and fp16,
// otherwise T itself.
template <class T>
struct AccumulateOf {
  using Type = T;
};
template <>
struct AccumulateOf<bfloat16> {
  using Type = float;
};
template <>
struct AccumulateOf<float16> {
  using Type = float;
};
template <class T>
using Accumulate = typename AccumulateOf<T>::Type;

// Returns the accumulation dtype of a dtype in the same way.
constexpr DType accumulation_dtype(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::fp16 ? DType::fp32 : dtype;
}

// Calls function(T{}) with the type T that `dtype` names, fp32 or fp64.
template <class Function>
decltype(auto) dispatch_accumulation(DType dtype, Function&& function) {
  if (dtype == DType::fp32) return function(float{});
  if (dtype == DType::fp64) return function(double{});
  fail(concat("expected fp32 or fp64, got ", name_of(dtype)));
}

// Calls function(T{}) with the floating-point type T that `dtype` names.
template <class Function>
decltype(auto) dispatch_float(DType dtype, Function&& function) {
  if (dtype == DType::bf16) return function(bfloat16{});
  if (dtype == DType::fp16) return function(float16{});
  return dispatch_accumulation(dtype, function);
}

}  // namespace ladder
