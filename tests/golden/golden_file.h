// Reads what PyTorch computed.
#pragma once

#include <string>
#include <vector>

#include "common/io/safetensors.h"
#include "tests/catch.h"

namespace ladder::testing {

// A file that a script in this folder has written: tensors of doubles, and settings.NAME.
class GoldenFile {
 public:
  explicit GoldenFile(const std::string& path) : reader_(path) {}

  const SafetensorsReader& reader() const { return reader_; }
  std::vector<double> values(const std::string& name) const {
    const SafetensorsEntry* entry = reader_.find(name);
    REQUIRE(entry != nullptr);
    std::vector<double> values(entry->num_elements());
    reader_.read(*entry, {values.data(), DType::fp64, DeviceType::cpu, {values.size()}});
    return values;
  }
  double number(const std::string& name) const { return values(name).at(0); }
  size_t setting(const std::string& name) const {
    return static_cast<size_t>(number("settings." + name));
  }

 private:
  SafetensorsReader reader_;
};

}  // namespace ladder::testing
