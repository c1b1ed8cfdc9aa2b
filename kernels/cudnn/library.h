// cuDNN's functions, from the library that is found when they are first needed: no program is
// linked with cuDNN, and none but those that ask for it needs it.
#pragma once

#include <cudnn_graph.h>

#include <string>

namespace ladder::cudnn {

// The functions that we call. [NVIDIA, cuDNN backend API]
struct Library {
  decltype(&cudnnGetVersion) get_version = nullptr;
  decltype(&cudnnGetErrorString) error_string = nullptr;
  decltype(&cudnnGetLastErrorString) last_error_string = nullptr;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;
};

// Loads a library of cuDNN by its name, for the rest of the program. Throws a UserError that says
// what is wrong if there is none, or if it is older than 9.6, the first that clears the memory of
// backward's sums itself.
Library load_library(const char* name);

// Returns that of CudnnAttention::kLibrary, which the first call loads.
const Library& library();

// Writes a version as cudnnGetVersion() has it: 91900 is "9.19.0".
std::string version_text(size_t version);

// Throws an Error that says what cuDNN says, unless `status` is success. `call` names the call,
// `what` is what it was for.
void check_status(cudnnStatus_t status, const char* call, const std::string& what);

}  // namespace ladder::cudnn
