// Rotary positions [Su21]: before attention multiplies q and k, each is turned by angles that grow
// with its token's position. So a score depends on how far apart two tokens are, and not on where
// they are. Read cpu/plain_rotary.h first.
//
// Element i of the first half of a head and element i of the second half are a point, which is
// turned by position * f_i. That is the order of halves in which Hugging Face's files have q and k;
// others (GPT-J, Meta's own files) turn elements 2 i and 2 i + 1.
//
// Cosines and sines come from a table, which is made once, on the CPU in fp64, and then rounded.
// fp32 holds the angle of position 100,000 to within 0.004 only, GPUs are slow in fp64, and a
// table has the same bits on all of them. All heads of a token read the same row of it.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "kernels/head_range.h"

namespace ladder {

// How Llama 3 stretches low frequencies, for more positions than it was first trained with:
// `rope_scaling` of type "llama3" in its config.json, with the same four numbers. A frequency that
// makes at most low_freq_factor turns in original_positions is divided by `factor`, one that makes
// at least high_freq_factor turns stays, and between them the two are mixed.
struct Llama3Scaling {
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4;
  size_t original_positions = 8192;
  friend bool operator==(const Llama3Scaling&, const Llama3Scaling&) = default;
};

struct Rotary {
  double theta = 10'000;
  std::optional<Llama3Scaling> scaling = {};
  friend bool operator==(const Rotary&, const Rotary&) = default;
};

// Returns f_i = theta^(-2 i / HS), scaled, for i < HS / 2. REQUIRES: HS is even; theta and the
// scaling's numbers are positive, and its low factor is below the high one.
std::vector<double> rotary_frequencies(const Rotary& rotary, size_t head_size);

// Fills a table (P, HS): its row p has the cosines of p * f_i, i < HS / 2, and then the sines. It
// runs on the CPU. REQUIRES: the table is there, and is fp32 or fp64.
void fill_rotary_table(TensorView table, const Rotary& rotary);

// Turns heads of every row, in place. For x1 and x2, elements i of a head's halves, and the cosine
// c and sine s of element i in the table's row of the token's position:
//   x1, x2 = x1 * c - x2 * s, x2 * c + x1 * s
//   x (B, T, n) in/out; its columns from HS * heads.first on are the heads, others stay
//   table (P, HS) in, in the accumulation dtype
//   positions in: (B, T) int32, or (T) if they are the same in all sequences, or empty: 0, 1, ...
//   Each is a row of the table, which is not checked.
void rotary_forward(Stream& stream, TensorView x, HeadRange heads, ConstTensorView table,
                    ConstTensorView positions = {});

// Turns dx back, in place, by the opposite angles. It comes in as the gradient of forward's output
// and leaves as that of forward's input. Neither of these two is needed.
void rotary_backward(Stream& stream, TensorView dx, HeadRange heads, ConstTensorView table,
                     ConstTensorView positions = {});

// What each kernel computes and moves (Cost in kernel.h): of the table, the rows that it needs.
inline Cost rotary_cost(ConstTensorView x, HeadRange heads, ConstTensorView table,
                        ConstTensorView positions) {
  const size_t tokens = x.shape()[0] * x.shape()[1], head_size = table.shape()[1];
  const size_t turned = tokens * heads.count * head_size;
  const size_t angles = positions.empty() ? x.shape()[1] : positions.num_elements();
  const double bytes = number_of(turned * size_of(x.dtype()));
  return {.other_flops = 3 * number_of(turned),
          .bytes_read = bytes + number_of(angles * head_size * size_of(table.dtype())) +
                        (positions.empty() ? 0 : number_of(positions.num_bytes())),
          .bytes_written = bytes};
}

enum class Turn { forward, back };

// Turns a point. (Both results are sums: beside a sum, g++ 12 makes of a difference of products an
// instruction that rounds once less, -ffp-contract=off or not.)
template <class A>
struct TurnPoint {
  A sign, other_sign;  // 1 and -1, or the other way round

  explicit TurnPoint(Turn turn) : sign(turn == Turn::forward ? 1 : -1), other_sign(-sign) {}
  template <class X>
  constexpr std::pair<X, X> operator()(X x1, X x2, X c, X s) const {
    return {x1 * c + x2 * (other_sign * s), x2 * c + x1 * (sign * s)};
  }
};

// The bodies for each device, which turn forward or back, and the entries, which check the
// arguments and call a body.
using RotaryBody = void(Stream& stream, TensorView x, HeadRange heads, ConstTensorView table,
                        ConstTensorView positions, Turn turn);
namespace cpu {
RotaryBody rotary;
}  // namespace cpu

namespace cuda {
RotaryBody rotary;
}  // namespace cuda

inline void run_rotary(const char* kernel, const char* argument, Stream& stream, TensorView x,
                       HeadRange heads, ConstTensorView table, ConstTensorView positions,
                       Turn turn) {
  const ArgumentCheck expect(kernel, stream, argument, x, 3);
  const Shape& have = table.shape();
  const size_t rows = have.num_dims() > 0 ? have[0] : 0;
  const size_t head_size = have.num_dims() > 1 ? have[1] / 2 * 2 : 0;
  expect.accumulated("table", table, {rows, head_size});
  const size_t batch = x.shape()[0], tokens = x.shape()[1];
  check_heads(kernel, argument, x.shape()[2], heads, head_size);
  if (positions.empty() && rows < tokens) {
    fail(concat(kernel, ": argument `table` has ", rows, " positions, the sequence ", tokens));
  }
  if (!positions.empty()) {
    const bool shared = positions.shape().num_dims() == 1;
    expect("positions", positions, DType::int32, shared ? Shape{tokens} : Shape{batch, tokens});
  }
  run_body(expect, rotary_cost(x, heads, table, positions), cpu::rotary, cuda::rotary, stream, x,
           heads, table, positions, turn);
}

inline void rotary_forward(Stream& stream, TensorView x, HeadRange heads, ConstTensorView table,
                           ConstTensorView positions) {
  run_rotary("rotary_forward", "x", stream, x, heads, table, positions, Turn::forward);
}

inline void rotary_backward(Stream& stream, TensorView dx, HeadRange heads, ConstTensorView table,
                            ConstTensorView positions) {
  run_rotary("rotary_backward", "dx", stream, dx, heads, table, positions, Turn::back);
}

}  // namespace ladder
