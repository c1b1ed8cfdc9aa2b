#include "kernels/emulator/tensor_core.h"

#include <cmath>

namespace ladder::emulator {
namespace {

using Lanes = std::span<const WarpCall* const, 32>;

// How the PTX ISA calls the two parts of a lane's number: in fragments a group of four lanes has a
// row (or a column), and each of the four has two neighbouring elements of it.
constexpr size_t group_of(size_t lane) { return lane / 4; }
constexpr size_t thread_in_group(size_t lane) { return lane % 4; }

// Returns the lower (0) or the upper (1) element of a register.
template <class T>
float element_of(std::uint32_t word, size_t which) {
  return T::from_bits(static_cast<std::uint16_t>(word >> 16 * which));
}

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type".
template <class T>
void multiply(Lanes lanes) {
  float a[16][16], b[16][8], sums[16][8];
  const auto for_each_sum = [&](auto f) {
    for (size_t lane = 0; lane < 32; ++lane) {
      const auto* registers = static_cast<const MmaRegisters*>(lanes[lane]->registers);
      for (size_t i = 0; i < 4; ++i) {
        const size_t row = group_of(lane) + i / 2 * 8, column = 2 * thread_in_group(lane) + i % 2;
        f(sums[row][column], registers->sums[i]);
      }
    }
  };
  for (size_t lane = 0; lane < 32; ++lane) {
    const auto* registers = static_cast<const MmaRegisters*>(lanes[lane]->registers);
    const size_t group = group_of(lane), pair = 2 * thread_in_group(lane);
    for (size_t which = 0; which < 2; ++which) {
      for (size_t i = 0; i < 4; ++i) {
        a[group + i % 2 * 8][pair + i / 2 * 8 + which] = element_of<T>(registers->a[i], which);
      }
      for (size_t i = 0; i < 2; ++i) {
        b[pair + i * 8 + which][group] = element_of<T>(registers->b[i], which);
      }
    }
  }
  for_each_sum([](float& sum, const float& of_lane) { sum = of_lane; });
  for (size_t row = 0; row < 16; ++row) {
    for (size_t k = 0; k < 16; ++k) {
      for (size_t column = 0; column < 8; ++column) {
        sums[row][column] = std::fma(a[row][k], b[k][column], sums[row][column]);
      }
    }
  }
  for_each_sum([](const float& sum, float& of_lane) { of_lane = sum; });
}

// PTX ISA, "ldmatrix": lane 8 i + r has the address of row r of matrix i, and every lane gets two
// elements of each matrix.
void load(Lanes lanes, bool transposed) {
  for (size_t i = 0; i < 4; ++i) {
    const auto element = [&](size_t row, size_t column) {
      return std::uint32_t{
          reinterpret_cast<const std::uint16_t*>(lanes[8 * i + row]->bits)[column]};
    };
    for (size_t lane = 0; lane < 32; ++lane) {
      const size_t group = group_of(lane), pair = 2 * thread_in_group(lane);
      auto* const fragment = static_cast<std::uint32_t*>(lanes[lane]->registers);
      fragment[i] = transposed ? element(pair, group) | element(pair + 1, group) << 16
                               : element(group, pair) | element(group, pair + 1) << 16;
    }
  }
}

}  // namespace

void complete_with_registers(Lanes lanes) {
  switch (lanes[0]->operation) {
    case WarpOperation::mma_bf16:
      return multiply<bfloat16>(lanes);
    case WarpOperation::mma_fp16:
      return multiply<float16>(lanes);
    default:
      return load(lanes, lanes[0]->operation == WarpOperation::ldmatrix_trans);
  }
}

}  // namespace ladder::emulator
