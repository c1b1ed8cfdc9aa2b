#include "kernels/cudnn_attention.h"

#include "tests/catch.h"

namespace ladder {
namespace {

std::string refusal(DeviceType device, DType dtype, size_t head_size, const char* library) {
  try {
    CudnnAttention::require(device, dtype, head_size, library);
  } catch (const UserError& refusal) {
    return refusal.what();
  }
  return "";
}

TEST_CASE("who asks for cuDNN's attention is told what is missing") {
  using enum DType;
  const DeviceType gpu = DeviceType::cuda;
  const std::string first = refusal(DeviceType::cpu, bf16, 64, "libnone.so.9");
  if (cuda_device_of_build() != gpu) {
    CHECK_THAT(first, ContainsSubstring("this build has no CUDA, and so no cuDNN"));
    return;
  }
  if (first.find("this build has no cuDNN") == 0) return;  // its headers were not there
  CHECK(first == "cuDNN computes on GPUs, and the device is cpu");
  for (const DType dtype : {fp32, fp64}) {
    CHECK(refusal(gpu, dtype, 64, "libnone.so.9") ==
          concat("cuDNN's attention takes bf16 and fp16, no ", name_of(dtype)));
  }
  for (const size_t size : {1, 12, 100, 136}) {
    CHECK(
        refusal(gpu, fp16, size, "libnone.so.9") ==
        concat("cuDNN's attention takes heads of a multiple of 8 elements, up to 128; these have ",
               size));
  }
  for (const size_t size : {8, 64, 128}) {
    CHECK_THAT(refusal(gpu, bf16, size, "libnone.so.9"),
               ContainsSubstring("cuDNN 9 cannot be loaded (libnone.so.9: cannot open"));
  }
  CHECK(refusal(gpu, bf16, 64, "libm.so.6") ==
        "libm.so.6 is no cuDNN 9: it has no cudnnGetVersion");
}

TEST_CASE("what cuDNN has no attention for is refused where attention is made, too") {
  Memory memory(DeviceType::cpu, "device", 0);
  CHECK_THROWS_WITH(CudnnAttention(memory, DType::bf16, {1, 8, 64}, 1, 3 * 64),
                    ContainsSubstring("cuDNN"));
}

}  // namespace
}  // namespace ladder
