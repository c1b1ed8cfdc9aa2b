#include "kernels/cudnn/library.h"

#include <dlfcn.h>

#include "kernels/cudnn_attention.h"

namespace ladder::cudnn {
namespace {

constexpr size_t kOldest = 90600;

template <class Function>
void find(void* loaded, const char* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(loaded, name));
  if (function == nullptr) throw UserError(concat(library, " is no cuDNN 9: it has no ", name));
}

}  // namespace

std::string version_text(size_t version) {
  return concat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

Library load_library(const char* name) {
  void* const loaded = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    throw UserError(concat("cuDNN 9 cannot be loaded (", dlerror(),
                           "); LD_LIBRARY_PATH may name the folder of libcudnn.so.9"));
  }
  Library found;
  const auto add = [&](const char* function, auto& to) { find(loaded, name, function, to); };
  add("cudnnGetVersion", found.get_version);
  add("cudnnGetErrorString", found.error_string);
  add("cudnnGetLastErrorString", found.last_error_string);
  add("cudnnCreate", found.create);
  add("cudnnDestroy", found.destroy);
  add("cudnnSetStream", found.set_stream);
  add("cudnnBackendCreateDescriptor", found.create_descriptor);
  add("cudnnBackendDestroyDescriptor", found.destroy_descriptor);
  add("cudnnBackendSetAttribute", found.set_attribute);
  add("cudnnBackendGetAttribute", found.get_attribute);
  add("cudnnBackendFinalize", found.finalize);
  add("cudnnBackendExecute", found.execute);
  const size_t version = found.get_version();
  if (version < kOldest) {
    throw UserError(concat(name, " is cuDNN ", version_text(version), "; it must be ",
                           version_text(kOldest), " or newer"));
  }
  return found;
}

const Library& library() {
  static const Library loaded = load_library(CudnnAttention::kLibrary);
  return loaded;
}

void check_status(cudnnStatus_t status, const char* call, const std::string& what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char more[2048] = "";
  library().last_error_string(more, sizeof more);
  fail(concat("cuDNN ", version_text(library().get_version()), ", ", what, ": ", call, ": ",
              library().error_string(status), more[0] == '\0' ? "" : ": ", more));
}

}  // namespace ladder::cudnn
