// Files for tests: where to put them, what to put in, and a disk that is full.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/runtime/check.h"

namespace ladder {

// A path for this test run.
inline std::string temporary(const std::string& name) {
  const char* const folder = std::getenv("TEST_TMPDIR");
  return (std::filesystem::path(folder != nullptr ? folder : "/tmp") / name).string();
}

inline std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A new folder for the files of one test, removed at the end.
class TestFolder {
 public:
  TestFolder() : path_(temporary("XXXXXX")) {
    if (mkdtemp(path_.data()) == nullptr) fail("cannot make " + path_);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  // The path of `name` in it.
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file into it and returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(*this / name, std::ios::binary) << content;
    return *this / name;
  }
  // The names of what lies in it, or in its folder `name`, sorted.
  std::vector<std::string> list(const std::string& name = "") const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(*this / name)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string path_;
};

// The bytes of a file with this header text and a data section of `data_bytes` bytes.
inline std::string file_of(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, '\1');
}

// The JSON of one F32 tensor; `shape` is the inside of its brackets.
inline std::string tensor(const std::string& name, const std::string& shape, size_t begin,
                          size_t end) {
  return concat("\"", name, "\":{\"dtype\":\"F32\",\"shape\":[", shape, "],\"data_offsets\":[",
                begin, ",", end, "]}");
}

// No file may grow beyond `bytes` while this lives: the disk is full, as far as write() can tell.
class FullDisk {
 public:
  explicit FullDisk(size_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_;
  void (*handler_)(int);
};

}  // namespace ladder
