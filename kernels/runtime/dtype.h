// Element types. They are runtime values; a kernel turns them into a template argument once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/runtime/check.h"

namespace ladder {

enum class DType : uint8_t { fp32, fp64, int32 };

constexpr size_t size_of(DType dtype) {
  switch (dtype) {
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
  }
  return "?";
}

template <class T>
inline constexpr DType dtype_of = [] { static_assert(sizeof(T) == 0, "not an element type"); }();
template <>
inline constexpr DType dtype_of<float> = DType::fp32;
template <>
inline constexpr DType dtype_of<double> = DType::fp64;
template <>
inline constexpr DType dtype_of<int32_t> = DType::int32;

// Calls function(T{}) with the floating-point type T that `dtype` names.
template <class Function>
decltype(auto) dispatch_float(DType dtype, Function&& function) {
  if (dtype == DType::fp32) return function(float{});
  if (dtype == DType::fp64) return function(double{});
  fail(concat("expected a floating-point dtype, got ", name_of(dtype)));
}

}  // namespace ladder
