#include "kernels/runtime/device.h"

#include <unistd.h>

#include "kernels/runtime/cuda.h"
#include "kernels/runtime/gpu.h"
#include "kernels/runtime/host_memory.h"

namespace ladder {
namespace {

cudaDeviceProp properties_of(size_t number) {
  cudaDeviceProp properties;
  cuda_check(cudaGetDeviceProperties(&properties, static_cast<int>(number)),
             "cudaGetDeviceProperties");
  return properties;
}

// "NVIDIA H200, compute capability 9.0".
std::string name_of(const cudaDeviceProp& gpu) {
  return concat(gpu.name, ", compute capability ", gpu.major, ".", gpu.minor);
}

// Returns the driver's answer to "how many GPUs?". Without a driver CUDA does not set the count.
int count_gpus(cudaError_t& error) {
  int count = 0;
  error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

// Returns driver_warning() of this machine.
std::string warning_of_driver() {
  int driver = 0, runtime = 0;
#if !LADDER_CUDA_EMULATOR
  cuda_check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  cuda_check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
#endif
  return driver_warning(driver, runtime);
}

Gpus find_gpus() {
  cudaError_t error;
  cudaDeviceProp first;
  const int count = count_gpus(error);
  if (count > 0) error = cudaGetDeviceProperties(&first, 0);
  cudaGetLastError();                          // clears what the next launch would report
  if (error == cudaErrorInsufficientDriver) {  // or none at all
    if (const std::string old = warning_of_driver(); !old.empty()) return {.why = old};
  }
  if (error != cudaSuccess) return {.why = cudaGetErrorString(error)};
  if (count == 0) return {.why = "no GPU is visible"};
  return {.count = count,
          .name = name_of(first),
          .has_code = runs_on(gpu_code(), first.major, first.minor)};
}

[[noreturn]] void refuse_cuda() {
  if (cuda_device_of_build() != DeviceType::cuda) {
    throw UserError(
        "--device cuda: this build has no CUDA; build with bazel build --config=cuda (it needs "
        "nvcc), or use --device cpu, or --device emulator, which runs the CUDA kernels on the CPU");
  }
  throw UserError(concat("--device cuda: no usable GPU (", find_gpus().why,
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
  cudaError_t error;
  return static_cast<size_t>(count_gpus(error));
}

std::optional<std::string> why_cpu(DeviceType of_build, const Gpus& gpus, bool has_driver) {
  if (of_build != DeviceType::cuda) {
    return has_driver ? "this machine has NVIDIA's driver, but this build, without --config=cuda, "
                        "has no CUDA"
                      : "";
  }
  if (gpus.count == 0) return "CUDA finds no GPU: " + gpus.why;
  if (gpus.has_code) return std::nullopt;
  return concat("this build has code for ", gpu_code(), ", not for ", gpus.name);
}

std::optional<std::string> why_cpu() {
  const DeviceType of_build = cuda_device_of_build();
  return why_cpu(of_build, of_build == DeviceType::cuda ? find_gpus() : Gpus(),
                 access("/proc/driver/nvidia/version", F_OK) == 0);
}

void require_code_for(DeviceType device) {
  if (device == DeviceType::cpu) return;
  const cudaDeviceProp gpu = properties_of(selected_device(device));
  if (runs_on(gpu_code(), gpu.major, gpu.minor)) return;
  throw UserError(concat("--device ", ladder::name_of(device), ": this build has code for ",
                         gpu_code(), ", not for this GPU (", name_of(gpu),
                         "); choose another with CUDA_VISIBLE_DEVICES, or use --device cpu"));
}

DeviceType device_named(const std::string& name) {
  if (name == "cpu") return DeviceType::cpu;
  if (name == "auto") return why_cpu() ? DeviceType::cpu : DeviceType::cuda;
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
  if (device == DeviceType::cpu) return "cpu";
  if (device == DeviceType::emulator) return "emulator (CUDA kernels on the CPU)";
  return concat("cuda (", name_of(properties_of(selected_device(device))),
                "; this build has code for ", gpu_code(), ")");
}

size_t free_memory(DeviceType device) {
  if (device != DeviceType::cuda) return free_host_memory();
  size_t free = 0, total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

}  // namespace ladder
