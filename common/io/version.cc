#include "common/io/version.h"

#include <CLI/CLI.hpp>
#include <array>

#include "kernels/runtime/check.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/gpu.h"
#include "kernels/runtime/isa.h"

// Libraries that only some programs are linked with: in all others these addresses are null. Their
// headers belong to other folders.
extern "C" {
struct OneDnnVersion {
  int major, minor, patch;
};
[[gnu::weak]] const OneDnnVersion* dnnl_version();
[[gnu::weak]] int MPI_Get_library_version(char* text, int* length);
[[gnu::weak]] int cudaRuntimeGetVersion(int* version);
}

namespace ladder {

// In programs that are linked with revision.cc.
[[gnu::weak]] extern const char kLinkedRevision[];

namespace {

std::string revision() {
  const std::string linked = kLinkedRevision != nullptr ? kLinkedRevision : "";
  // Bazel's own value is "0" if nobody names another.
  return linked.size() < 40 ? "unknown" : linked;
}

std::string compiler() {
#ifdef __clang__
  return concat("clang ", __clang_version__);
#else
  return concat("g++ ", __VERSION__);
#endif
}

std::string cuda() {
  if (cuda_device_of_build() == DeviceType::emulator) return "emulator";
  int version = 0;
  if (cudaRuntimeGetVersion != nullptr) cudaRuntimeGetVersion(&version);
  return concat(version / 1000, ".", version % 1000 / 10, " for ", gpu_code());
}

// Returns the first line of what MPI says of itself.
std::string mpi() {
  std::array<char, 8192> text{};  // MPI_MAX_LIBRARY_VERSION_STRING is at most that
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all = text.data();
  return all.substr(0, all.find('\n'));
}

}  // namespace

std::string version_text(const std::string& program) {
  std::string text = concat(program, "\nrevision  ", revision(), "\ncompiler  ", compiler(),
                            "\nCUDA      ", cuda());
  if (!instruction_set().empty()) text += concat("\nCPU       x86-64-", instruction_set());
  if (MPI_Get_library_version != nullptr) text += "\nMPI       " + mpi();
  if (dnnl_version != nullptr) {
    const OneDnnVersion& version = *dnnl_version();
    text += concat("\noneDNN    ", version.major, ".", version.minor, ".", version.patch);
  }
  return text;
}

void add_version_flag(CLI::App& app) {
  app.set_version_flag(
      "--version", [&app] { return version_text(app.get_name()); },
      "Print what the program is made of: revision, compiler, libraries");
}

}  // namespace ladder
