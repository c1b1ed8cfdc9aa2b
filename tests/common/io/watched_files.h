// What a test's program asks of the system about files: the calls that decide whether a file can be
// lost, in their order.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ladder {

struct FileCall {
  std::string name;  // "open", "close", "write", "fsync", "flock", "rename" or "mkdir"
  int descriptor = -1;
  std::string path = {}, target = {};
  int flags = 0;  // of open; the operation of flock
};

// The calls that have succeeded, while it is watched.
struct WatchedFiles {
  bool is_watched = false;
  std::vector<FileCall> calls;
  std::function<void()> before_lock;  // called once, at the next flock
};
extern WatchedFiles watched_files;

}  // namespace ladder
