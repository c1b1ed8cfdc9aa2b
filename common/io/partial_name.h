// The names that files and folders have before they are whole, and how a running program marks them
// as its own.
#pragma once

#include <string>

namespace ladder {

// Returns a name for a partial file or folder that becomes `target`: `target`.partial-XXXXXX with
// six random letters.
std::string partial_name(const std::string& target);

// What flock says of a file or folder. A program locks what it is writing, so what is not locked
// and has a partial name was left by a program that was killed.
enum class Lock { taken, held_elsewhere, unavailable };

// Tries to lock the file or folder at `path` for a moment. If `is_folder` does not say what it is,
// if it is a link, or if the file system has no locks, the answer is `unavailable`.
Lock try_lock(const std::string& path, bool is_folder);

// Removes the partial files of `target`, or its partial folders with all that is in them, that no
// process has locked. `own` is the path of one that stays. Returns whether another process has one
// of them locked.
bool remove_abandoned(const std::string& target, const std::string& own, bool is_folder);

}  // namespace ladder
