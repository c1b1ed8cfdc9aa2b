// The part of CUDA's host API that the project calls. Work has run when a call returns, unless
// streams are deferred (streams.h). Wrong handles, pointers, ranges and directions are errors, at
// the same call as on a GPU or earlier.
#pragma once

#include <cstddef>

// A stream runs what it is given in order; nullptr is the default stream.
struct CUstream_st;
typedef CUstream_st* cudaStream_t;
// An event is a mark in a stream, with the time at which the stream passed it.
struct CUevent_st;
typedef CUevent_st* cudaEvent_t;

typedef enum cudaError {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,  // a launch with an impossible grid, block or shared size
  cudaErrorInvalidMemcpyDirection = 21,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,  // not a live stream or event
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,        // a kernel wrote where nothing is allocated
  cudaErrorLaunchOutOfResources = 701,  // a thread block with more registers than there are
} cudaError_t;

// The direction of a copy. cudaMemcpyDefault finds it out from the addresses.
enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};

struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;          // bytes
  size_t sharedMemPerBlock;       // bytes that every launch may ask for
  size_t sharedMemPerBlockOptin;  // bytes that a launch may ask for after cudaFuncSetAttribute
  int multiProcessorCount;
  int maxThreadsPerBlock;
  int warpSize;
  int major, minor;  // compute capability
};

enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

// Flags of streams and events.
inline constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0, cudaEventBlockingSync = 1,
                          cudaEventDisableTiming = 2;

extern "C" {

// Both return the last error of the calling thread, or cudaSuccess. cudaGetLastError also clears
// it. Every function below returns its own status as well.
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorName(cudaError_t status);    // "cudaErrorInvalidValue"
const char* cudaGetErrorString(cudaError_t status);  // a sentence

// There is one device, number 0.
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize();

// cudaMalloc gives device memory that is aligned to 256 bytes and has undefined values; for 0 bytes
// it gives nullptr. cudaFree(nullptr) does nothing; any other pointer that is not allocated is
// cudaErrorInvalidValue.
cudaError_t cudaMalloc(void** pointer, size_t bytes);
cudaError_t cudaFree(void* pointer);
// These allocate and free pinned host memory, which devices can reach too.
cudaError_t cudaMallocHost(void** pointer, size_t bytes);
cudaError_t cudaFreeHost(void* pointer);
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes);

// Copies. A device range must lie in one allocation, and a host range outside of device memory.
// When cudaMemcpy returns it has copied, except within the device. cudaMemset may set its bytes
// later.
cudaError_t cudaMemcpy(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream = nullptr);
// These set every byte of a device range to `value`.
cudaError_t cudaMemset(void* destination, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void* destination, int value, size_t bytes,
                            cudaStream_t stream = nullptr);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
// The emulator gives streams of all priorities the same rights. A higher priority is a smaller
// number; one beyond the range counts as the end of the range.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
// Work that the stream is given from now on runs after the event.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
// Gives the milliseconds between two recorded events that were created with timing.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

// Allows launches of the kernel to ask for up to `value` bytes of dynamic shared memory.
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);

}  // extern "C"

template <class T>
cudaError_t cudaMalloc(T** pointer, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}
template <class T>
cudaError_t cudaMallocHost(T** pointer, size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(pointer), bytes);
}
template <class T>
cudaError_t cudaFuncSetAttribute(T* kernel, cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
