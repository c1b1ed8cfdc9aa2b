// What holds for every file that a run writes, whatever part of the program writes it: it is locked
// before anything is in it, it is on the disk before it has its name, and so is the name at the
// end; no link is followed, and no child process inherits it.
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include "common/train/run/run.h"
#include "lessons/01_single_gpu/trainer.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"
#include "tests/common/io/watched_files.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;
using Flags = std::vector<std::string>;

std::string folder_of(const std::string& path) { return fs::path(path).parent_path(); }

// Whether the path is one that files have only until they are whole.
bool is_partial(const std::string& path) { return path.find(".partial-") != std::string::npos; }

// Follows the calls and collects what is wrong with them.
class Watch {
 public:
  explicit Watch(const std::string& root) : root_(root) {}

  void follow(const std::vector<FileCall>& calls) {
    for (const FileCall& call : calls) follow(call);
  }
  // Call it after the run. Adds what is wrong with the files that are there.
  void look_at_end() {
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      const std::string path = entry.path();
      if (!made_.contains(path)) fault("was made in another way", path);
      if (dirty_.contains(path)) fault("is not on the disk at the end", path);
      if (unsynced_names_.contains(path)) fault("has a name that is not on the disk", path);
    }
  }
  const std::set<std::string>& faults() const { return faults_; }

 private:
  void fault(const std::string& what, const std::string& path) {
    faults_.insert(concat(path.substr(root_.size()), " ", what));
  }
  void follow(const FileCall& call) {
    if (call.name == "open") return open_file(call);
    if (call.name == "mkdir") return name_appears(call.path);
    if (call.name == "rename") return rename(call.path, call.target);
    const auto found = paths_.find(call.descriptor);
    if (found == paths_.end()) return;
    const std::string path = found->second;
    if (call.name == "close") {
      locked_.erase(call.descriptor);
      paths_.erase(found);
    } else if (call.name == "flock" && (call.flags & LOCK_EX) != 0) {
      locked_.insert(call.descriptor);
    } else if (call.name == "fsync") {
      dirty_.erase(path);
      std::erase_if(unsynced_names_, [&](const auto& name) { return folder_of(name) == path; });
    } else if (call.name == "write") {
      const bool is_locked = std::ranges::any_of(locked_, [&](int file) {
        return paths_.at(file) == path || paths_.at(file) == folder_of(path);
      });
      if (!is_locked) fault("is written without a lock", path);
      dirty_.insert(path);
    }
  }
  void open_file(const FileCall& call) {
    if (!call.path.starts_with(root_)) return;
    paths_[call.descriptor] = call.path;
    const auto require = [&](bool holds, const char* flag) {
      if (!holds) fault(concat("is opened without ", flag), call.path);
    };
    const bool writes = (call.flags & O_ACCMODE) != O_RDONLY;
    require((call.flags & O_CLOEXEC) != 0, "O_CLOEXEC");
    const bool is_folder = (call.flags & O_DIRECTORY) != 0;
    const bool may_be_link = writes || (is_partial(fs::path(call.path).filename()) && !is_folder);
    require((call.flags & O_NOFOLLOW) != 0 || !may_be_link, "O_NOFOLLOW");
    if ((call.flags & O_CREAT) == 0) return;
    require((call.flags & O_EXCL) != 0, "O_EXCL");
    name_appears(call.path);
  }
  void name_appears(const std::string& path) {
    if (!path.starts_with(root_)) return;
    made_.insert(path);
    unsynced_names_.insert(path);
  }
  void rename(const std::string& from, const std::string& to) {
    if (!from.starts_with(root_)) return;
    if (!is_partial(to)) {
      for (const std::string& path : dirty_) {
        if (path == from) fault("gets its name before its bytes are on the disk", to);
      }
      for (const std::string& path : unsynced_names_) {
        const bool is_within =
            path.starts_with(from + "/") && fs::exists(to + path.substr(from.size()));
        if (is_within) fault("gets its name before those in it are on the disk", to);
      }
    }
    for (std::set<std::string>* paths : {&made_, &dirty_, &unsynced_names_}) {
      std::set<std::string> moved;
      for (const std::string& path : *paths) moved.insert(moved_path(path, from, to));
      *paths = moved;
    }
    for (auto& [file, path] : paths_) path = moved_path(path, from, to);
    name_appears(to);
  }
  static std::string moved_path(const std::string& path, const std::string& from,
                                const std::string& to) {
    const bool moves = path == from || path.starts_with(from + "/");
    return moves ? to + path.substr(from.size()) : path;
  }

  std::string root_;
  std::map<int, std::string> paths_;  // of what is open
  std::set<int> locked_;              // those of them that are locked
  std::set<std::string> made_, dirty_, unsynced_names_, faults_;
};

// Runs lesson 01 in this process and gives its calls to the watch.
void run_watched(const Flags& flags, const Flags& more, Watch& watch) {
  Flags words = {"01_single_gpu", "--model", "nano", "--threads", "1", "--evaluate-every", "0"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  watched_files.calls.clear();
  watched_files.is_watched = true;
  const int status = run<SingleGpuTrainer>(static_cast<int>(argv.size()), argv.data());
  watched_files.is_watched = false;
  CHECK(status == 0);
  watch.follow(watched_files.calls);
}

TEST_CASE("every file that a run writes is locked, synced, and reached through no link") {
  const TestFolder folder;
  Watch watch(folder.path());
  const Flags run = {"--sample",   "2",         "--checkpoint", folder / "new/c",
                     "--keep",     "1",         "--resume",     "--checkpoint-every",
                     "1",          "--metrics", folder / "m",   "--tensorboard",
                     folder / "b", "--dump",    folder / "d",   "--trace",
                     folder / "t"};
  run_watched(run, {"--steps", "2"}, watch);
  run_watched(run, {"--steps", "3", "--checkpoint-async", "--export", folder / "e"}, watch);
  watch.look_at_end();
  CHECK(watch.faults() == std::set<std::string>{});
  CHECK(folder.list() == Flags{"b", "d", "e", "m", "new", "t"});
  CHECK(folder.list("new/c") == Flags{"step_00000003"});
  CHECK(folder.list("d").size() == 3);
}

}  // namespace
}  // namespace ladder
