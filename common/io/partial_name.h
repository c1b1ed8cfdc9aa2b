// The names that files and folders have before they are whole, and how a running program marks them
// as its own.
#pragma once

#include <string>
#include <vector>

#include "common/io/descriptor.h"

namespace ladder {

// Returns a name for a partial file or folder that becomes `target`: `target`.partial-XXXXXX with
// six random letters.
std::string partial_name(const std::string& target);

// Locks the open file or folder at `path`, a partial_name(), then renames it: appends six letters,
// the mark, computed from its name and its inode number. So a file of the user, or a copy, does not
// have the right mark. The lock is taken before the mark is given, so a marked file that is not
// locked was left by a killed program. Returns the new name, or "" if it cannot be renamed; errno
// says why.
std::string mark_partial(const Descriptor& file, const std::string& path);
// Returns the name without the mark. What has this name stays.
std::string without_mark(const std::string& marked);

// Returns whether `path` lies in a folder that has the mark, or in a folder in one. A name in there
// cannot be lost yet: who gives the folder its name brings all names in it to the disk first.
bool is_in_partial_folder(const std::string& path);

// What flock says of a file or folder.
enum class Lock { taken, held_elsewhere, unavailable };

// Tries to lock the file or folder at `path` for a moment. If `is_folder` does not say what it is,
// if it is a link, or if the file system has no locks, the answer is `unavailable`.
Lock try_lock(const std::string& path, bool is_folder);

// What runs before this one have left of a target.
struct Abandoned {
  bool is_written = false;         // another process has a partial file or folder of it locked
  std::vector<std::string> stays;  // the paths of those that cannot be removed, each with why
};

// Removes the partial files of `target`, or its partial folders with all that is in them, that have
// the mark and that no process has locked: programs that were killed have left them. `own` is the
// path of one that stays.
Abandoned remove_abandoned(const std::string& target, const std::string& own, bool is_folder);

}  // namespace ladder
