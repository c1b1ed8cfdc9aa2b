// CUDA's small vector types, which a GPU loads and stores at once.
#pragma once

struct uint3 {
  unsigned x, y, z;
};

// The extents of a grid or of a thread block. Those that are not given are 1.
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

namespace ladder::emulator {

// Copies 8 or 16 bytes of any type in one access to memory, as uint2 and uint4 do on a GPU. (The
// compiler would copy a struct member by member.)
template <unsigned kBytes>
void copy_words(void* to, const void* from) {
  using Words [[gnu::vector_size(kBytes), gnu::may_alias]] = unsigned;
  *static_cast<Words*>(to) = *static_cast<const Words*>(from);
}

}  // namespace ladder::emulator

inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
