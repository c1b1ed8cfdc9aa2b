// What a failure of oneDNN is called. Its functions that compute are taken over by this test.
#include <dnnl.hpp>

#include "kernels/matmul.h"
#include "tests/catch.h"

namespace {

dnnl_status_t status = dnnl_success;  // of every product

}  // namespace

extern "C" {

dnnl_status_t dnnl_sgemm(char, char, dnnl_dim_t, dnnl_dim_t, dnnl_dim_t, float, const float*,
                         dnnl_dim_t, const float*, dnnl_dim_t, float, float*, dnnl_dim_t) {
  return status;
}

dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t, dnnl_stream_t, int,
                                     const dnnl_exec_arg_t*) {
  return status;
}

}  // extern "C"

namespace ladder {
namespace {

void multiply(DType dtype) {
  Memory memory(DeviceType::cpu, "device", 0);
  Stream stream(DeviceType::cpu);
  const Tensor out(memory, Category::workspace, dtype, {2, 5});
  const Tensor a(memory, Category::workspace, dtype, {2, 3});
  const Tensor b(memory, Category::workspace, dtype, {3, 5});
  matmul(stream, out, a, b, {});
}

TEST_CASE("a product that oneDNN cannot compute is named, with its sizes and the status") {
  const auto bf16 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  const bool has_bf16 = (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bf16) == bf16;
  for (DType dtype : {DType::fp32, DType::bf16}) {
    if (dtype == DType::bf16 && !has_bf16) continue;  // our own loop
    const std::string what = concat("oneDNN's product of ", name_of(dtype),
                                    " matrices (2, 3) and (3, 5) failed with status ");
    status = dnnl_success;
    CHECK_NOTHROW(multiply(dtype));
    status = dnnl_out_of_memory;
    CHECK_THROWS_WITH(multiply(dtype),
                      what +
                          "out_of_memory: the machine has no memory left for what it works in; "
                          "run fewer ranks, threads or other programs beside this one");
    status = dnnl_runtime_error;
    CHECK_THROWS_WITH(multiply(dtype), what + "runtime_error");
  }
}

}  // namespace
}  // namespace ladder
