// How every kernel is made, and the rules that hold for all kernels. A kernel has three files:
//   kernels/NAME.h        the declaration with formula and shapes; the cost; and the entry, which
//                         callers call and which checks the arguments
//   kernels/cpu/NAME.cc   the body for the CPU, which is compiled for two instruction sets (isa.h)
//   kernels/cuda/NAME.cu  the body for GPUs; the emulator runs it on the CPU, too
// A body has the entry's name and signature, in the namespace cpu or cuda. Its arguments have been
// checked.
//
// Letters in the kernel headers: B sequences of T tokens, C hidden size, NH heads of HS = C / NH
// elements, V tokens in the vocabulary, R rows (usually B * T). Shapes are (outermost, ...).
//
// Rules: a kernel is asynchronous on its stream and allocates nothing. It checks device, dtype and
// shape of each argument, and throws an Error that names a wrong one. Arguments must not overlap
// unless the declaration says that they may.
//
// Dtypes: floating-point arguments have the compute dtype, which is fp32, fp64, bf16 or fp16 and is
// that of the leading argument, unless the declaration says otherwise. The accumulation dtype is
// fp32 for bf16 and fp16, and the compute dtype itself otherwise. Kernels compute in the
// accumulation dtype: they convert elements to it, which is exact, and round a result once, when
// they store it. (On a GPU's tensor cores attention also rounds what it multiplies.) Sums over
// rows, and statistics that backward needs precisely, are stored in the accumulation dtype.
#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <type_traits>

#include "kernels/runtime/arguments.h"
#include "kernels/runtime/cost.h"
#include "kernels/runtime/isa.h"
#include "kernels/runtime/kernel_times.h"

namespace ladder {

// Returns the argument of a kernel if it is a tensor, else an empty view.
template <class Argument>
ConstTensorView tensor_in(const Argument& argument) {
  if constexpr (std::convertible_to<Argument, ConstTensorView>) return argument;
  return {};
}

// Calls the body for the stream's device. Nothing else chooses between the bodies of a kernel. In a
// simulation no body runs, and time passes according to the cost. `expect` has checked the
// arguments.
template <class... Arguments>
void run_body(const ArgumentCheck& expect, const Cost& cost, void (*cpu)(Stream&, Arguments...),
              void (*cuda)(Stream&, Arguments...), Stream& stream,
              std::type_identity_t<Arguments>... arguments) {
  const auto compute = [&] {
    const TimedBody timed(expect.kernel(), cost);
    chosen_body(cpu)(stream, arguments...);
  };
  if (Simulation* const simulation = stream.simulation()) {
    const std::array<ConstTensorView, sizeof...(Arguments)> tensors = {tensor_in(arguments)...};
    return simulation->launch(stream.simulated(),
                              {expect.kernel(), expect.dtype(), cost, tensors, std::ref(compute)});
  }
  if (stream.device() == DeviceType::cpu) return compute();
  cuda(stream, arguments...);
}

}  // namespace ladder
