// Any bytes are a readable file or a UserError of one line that names the file: nothing else.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "common/io/safetensors.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// A file without a name that holds `size` bytes; one descriptor serves all inputs.
std::string file_with(const uint8_t* data, size_t size) {
  static const int descriptor = memfd_create("safetensors_fuzzer", MFD_CLOEXEC);
  require(descriptor >= 0);
  require(ftruncate(descriptor, 0) == 0);
  require(pwrite(descriptor, data, size, 0) == static_cast<ssize_t>(size));
  return ladder::concat("/proc/self/fd/", descriptor);
}

// Reads every tensor that can be read, into every element type.
void read_all(const ladder::SafetensorsReader& reader) {
  using ladder::DType;
  std::vector<double> elements;
  for (const ladder::SafetensorsEntry& entry : reader.entries()) {
    const ladder::SafetensorsEntry* const found = reader.find(entry.name);
    require(found == &entry);
    if (!entry.float_dtype()) continue;
    elements.resize(entry.num_elements() + 1);
    for (DType dtype : {DType::fp32, DType::fp64, DType::bf16, DType::fp16}) {
      reader.read(entry, ladder::TensorView(elements.data(), dtype, ladder::DeviceType::cpu,
                                            {entry.num_elements()}));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string path = file_with(data, size);
  try {
    read_all(ladder::SafetensorsReader(path));
  } catch (const ladder::UserError& error) {
    const std::string message = error.what();
    require(message.starts_with(path + ": ") && message.find('\n') == message.npos);
  }
  return 0;
}
