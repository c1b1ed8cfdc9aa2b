// 10.1 Half of the bits
//
// A bf16 number is a float of which only the upper 16 bits may be other than 0.
//
// Returns the bf16 number that is nearest to x. If two are equally near, it is the one whose 16
// bits are an even number. x is finite; what is nearer to 2^128 than to the largest bf16 becomes
// infinite. std::bit_cast<uint32_t>(x) are the bits of x, and std::bit_cast<float>(bits) is the way
// back.
// Example: the bits of 3.14159 are 0x40490FD0, and the nearest bf16 has 0x40490000: 3.140625.
#include <bit>
#include <cstdint>

float to_bf16(float x) {
  throw "not written yet";  // yours
}
