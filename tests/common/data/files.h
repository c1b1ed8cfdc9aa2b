// Data files made by the tests.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace ladder {

// A new folder for the files of one test, removed at the end.
class TestFolder {
 public:
  TestFolder() {
    const char* parent = std::getenv("TEST_TMPDIR");
    path_ = std::string(parent != nullptr ? parent : "/tmp") + "/data_XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make " + path_);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  // Writes a file into the folder and returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

 private:
  std::string path_;
};

// The bytes of a token shard whose header says (magic, version, count).
inline std::string shard_bytes(const std::vector<uint16_t>& tokens, int32_t count,
                               int32_t magic = 20240520, int32_t version = 1) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return std::string(reinterpret_cast<const char*>(header.data()), 1024) +
         std::string(reinterpret_cast<const char*>(tokens.data()), 2 * tokens.size());
}

inline std::string shard_bytes(const std::vector<uint16_t>& tokens) {
  return shard_bytes(tokens, static_cast<int32_t>(tokens.size()));
}

// first, first + 1, ...: where tokens count up, a token tells its place.
inline std::vector<uint16_t> counting(uint16_t first, size_t count) {
  std::vector<uint16_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

}  // namespace ladder
