#include "kernels/runtime/device.h"

#include "kernels/runtime/cuda.h"
#include "kernels/runtime/host_memory.h"

namespace ladder {
namespace {

// The driver's answer to "how many GPUs?". Without a driver CUDA does not set the count.
struct Gpus {
  int count = 0;
  cudaError_t error = cudaSuccess;
};

Gpus find_gpus() {
  Gpus gpus;
  gpus.error = cudaGetDeviceCount(&gpus.count);
  if (gpus.error != cudaSuccess) {
    cudaGetLastError();
    gpus.count = 0;
  }
  return gpus;
}

// Returns driver_warning() of this machine.
std::string warning_of_driver() {
  int driver = 0, runtime = 0;
#if !LADDER_CUDA_EMULATOR
  // CUDA gives the same error for a driver that is too old and for none at all.
  if (find_gpus().error != cudaErrorInsufficientDriver) return "";
  cuda_check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  cuda_check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
#endif
  return driver_warning(driver, runtime);
}

[[noreturn]] void refuse_cuda() {
  if (cuda_device_of_build() != DeviceType::cuda) {
    throw UserError(
        "--device cuda: this build has no CUDA; build with bazel build --config=cuda (it needs "
        "nvcc), or use --device cpu, or --device emulator, which runs the CUDA kernels on the CPU");
  }
  const Gpus gpus = find_gpus();
  const std::string old_driver = warning_of_driver();
  const std::string why = !old_driver.empty()         ? old_driver
                          : gpus.error == cudaSuccess ? "no GPU is visible"
                                                      : cudaGetErrorString(gpus.error);
  throw UserError(concat("--device cuda: no usable GPU (", why,
                         "); see nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device cpu"));
}

}  // namespace

DeviceType cuda_device_of_build() {
#if LADDER_CUDA_EMULATOR
  return DeviceType::emulator;
#else
  return DeviceType::cuda;
#endif
}

size_t num_devices(DeviceType device) {
  if (device == DeviceType::cpu || device != cuda_device_of_build()) return 0;
  return static_cast<size_t>(find_gpus().count);
}

DeviceType device_named(const std::string& name) {
  if (name == "cpu") return DeviceType::cpu;
  if (name == "auto") return num_devices(DeviceType::cuda) > 0 ? DeviceType::cuda : DeviceType::cpu;
  if (name == "cuda") {
    if (num_devices(DeviceType::cuda) == 0) refuse_cuda();
    return DeviceType::cuda;
  }
  if (name == "emulator") {
    if (cuda_device_of_build() == DeviceType::emulator) return DeviceType::emulator;
    throw UserError(
        "--device emulator: the CUDA build has none; use the default build, or --device cuda or "
        "cpu");
  }
  throw UserError(concat("--device ", name, ": expected auto, cpu, emulator or cuda"));
}

void select_device(DeviceType device, size_t local_rank) {
  if (device == DeviceType::cpu) return;
  const size_t count = num_devices(device);
  check(count > 0, "select_device: no such device");
  cuda_check(cudaSetDevice(static_cast<int>(local_rank % count)), "cudaSetDevice");
}

size_t selected_device(DeviceType device) {
  if (device == DeviceType::cpu) return 0;
  int number = 0;
  cuda_check(cudaGetDevice(&number), "cudaGetDevice");
  return static_cast<size_t>(number);
}

std::string selected_device_id(DeviceType device) {
  if (device != DeviceType::cuda) return "";
  char id[32] = "";
#if !LADDER_CUDA_EMULATOR
  cuda_check(cudaDeviceGetPCIBusId(id, sizeof id, static_cast<int>(selected_device(device))),
             "cudaDeviceGetPCIBusId");
#endif
  return id;
}

std::string driver_warning(int driver_version, int runtime_version) {
  // Drivers serve all programs of their major version of CUDA.
  if (driver_version == 0 || driver_version / 1000 >= runtime_version / 1000) return "";
  const auto text = [](int version) { return concat(version / 1000, ".", version % 1000 / 10); };
  return concat("the GPU's driver is for CUDA ", text(driver_version), " and this build needs ",
                text(runtime_version), "; install a newer driver");
}

std::string description_of(DeviceType device) {
  if (device == DeviceType::cpu) {
    const std::string old_driver = warning_of_driver();
    return old_driver.empty() ? "cpu" : concat("cpu (warning: ", old_driver, ")");
  }
  if (device == DeviceType::emulator) return "emulator (CUDA kernels on the CPU)";
  cudaDeviceProp properties;
  cuda_check(cudaGetDeviceProperties(&properties, static_cast<int>(selected_device(device))),
             "cudaGetDeviceProperties");
  return concat("cuda (", properties.name, ")");
}

size_t free_memory(DeviceType device) {
  if (device != DeviceType::cuda) return free_host_memory();
  size_t free = 0, total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

}  // namespace ladder
