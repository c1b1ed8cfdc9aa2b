// Any bytes are a readable tokenizer.json, config.json and index, or a UserError of one line that
// names the file: nothing else.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/data/tokenizer.h"
#include "common/io/safetensors_files.h"
#include "common/model/published_config.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// Runs `read`, which may throw a UserError about a file in `folder`.
template <class Read>
void survive(const std::string& folder, Read read) {
  try {
    read();
  } catch (const ladder::UserError& error) {
    const std::string message = error.what();
    require(message.starts_with(folder) && message.find('\n') == message.npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string folder = [] {
    std::string path = std::filesystem::temp_directory_path() / "inputs_fuzzer_XXXXXX";
    require(mkdtemp(path.data()) != nullptr);
    return path;
  }();
  const std::string path = folder + "/model.safetensors.index.json";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  survive(folder, [&] {
    const ladder::Tokenizer tokenizer(path);
    tokenizer.text_of(static_cast<int32_t>(tokenizer.size()) - 1);
  });
  survive(folder, [&] {
    const ladder::ModelConfig config = ladder::read_published_config(path);
    ladder::require_same_model(path, config);
  });
  survive(folder, [&] { ladder::SafetensorsFiles files(folder); });
  return 0;
}
