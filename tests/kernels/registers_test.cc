// The emulator knows the registers of the kernels that it launches: both compilers' names for a
// kernel come to the same.
#include "kernels/emulator/registers.h"

#include <set>

#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/classifier.h"
#include "kernels/elementwise.h"
#include "kernels/emulator/access.h"
#include "kernels/emulator/launch.h"
#include "kernels/head_norm.h"
#include "kernels/layernorm.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/residual.h"
#include "kernels/rmsnorm.h"
#include "kernels/rotary.h"
#include "kernels/swiglu.h"
#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

struct Names final : emulator::Observer {
  Names() { attach(*this); }
  ~Names() override { detach(*this); }
  void launch_begins(const emulator::KernelCall& call) override { all.emplace(call.name); }
  std::set<std::string> all;
};

// Kernels of one dtype: with functors, with constants, with types made of both.
void launch_some(DType dtype) {
  const DType sums = accumulation_dtype(dtype);
  const size_t rows = 4, n = 64;
  const Values ones(rows * n, 1);
  const Array x(dtype, {rows, n}, ones), y(dtype, {rows, n}, ones), row(dtype, {n}, Values(n, 1));
  const Array of_row(sums, {rows}, Values(rows, 1)), dweight(sums, {n}, Values(n, 0));
  const Array dbias(sums, {n}, Values(n, 0));
  fill(stream(), y, 1);
  add(stream(), y, x, x);
  cast(stream(), Array(DType::fp32, {rows, n}), x);
  add_residual(stream(), y, x, x, row);
  bias_backward(stream(), dbias, x);
  layernorm_forward(stream(), y, of_row, of_row, x, row, row);
  layernorm_backward(stream(), y, dweight, dbias, x, x, row, of_row, of_row);
  const Array qkv(dtype, {1, rows, 3 * n}, Values(3 * rows * n, 1)), out(dtype, {1, rows, n}, ones);
  rmsnorm_forward(stream(), y, of_row, x, row, 1);
  rmsnorm_backward(stream(), y, dweight, x, x, row, of_row);
  const Array rstds(sums, {rows, 4}, Values(4 * rows, 1)), head(dtype, {16}, Values(16, 1));
  head_norm_forward(stream(), y, Array(dtype, {rows, n}), rstds, {0, 4}, head, 1);
  head_norm_backward(stream(), y, Array(sums, {16}), {0, 4}, x, head, rstds);
  const Array both(dtype, {rows, 2 * n}, Values(2 * rows * n, 1));
  swiglu_forward(stream(), y, both);
  swiglu_backward(stream(), both, y, both);
  rotary_forward(stream(), qkv, {0, 4}, Array(sums, {rows, 16}, Values(rows * 16, 1)));
  const Array lse(sums, {1, 4, rows}, Values(4 * rows, 1)), dqkv(dtype, {1, rows, 3 * n});
  attention_forward(stream(), out, lse, qkv, AttentionMask::causal);
  attention_backward(stream(), dqkv, Array(sums, {1, 4, rows}), out, out, lse, qkv,
                     AttentionMask::causal);
}

TEST_CASE("the registers of every kernel are known") {
  if (cuda_device_of_build() != DeviceType::emulator) return;
  const OnDevice on = on_every_device();
  if (place().device == DeviceType::cpu) return;
  Names names;
  for (DType dtype : floats()) launch_some(dtype);
  for (DType dtype : kAccumulation) {
    const Values one(5, 1);
    const Array p(dtype, {5}, one), m(dtype, {5}, one), v(dtype, {5}, one), g(dtype, {5}, one);
    adamw(stream(), {{p, m, v, g}}, {.learning_rate = 0.1});
    sum(stream(), Array(DType::fp64, {1}), Array(DType::fp64, {1}), g);
    const Array logits(dtype, {2, 5}, Values(10, 1)), losses(dtype, {2});
    softmax_cross_entropy(stream(), losses, logits, logits, Array(dtype, {6}),
                          Array(DType::int32, {2}, {0, 4}), 1);
  }
  stream().synchronize();
  CHECK(names.all.size() > 30);
  for (const std::string& name : names.all) {
    INFO(name << " is " << emulator::short_kernel_name(name));
    CHECK(emulator::registers_of(name, emulator::model_named("a100")) > 0);
    CHECK(emulator::registers_of(name, emulator::model_named("h100")) > 0);
  }
}

}  // namespace
}  // namespace ladder
