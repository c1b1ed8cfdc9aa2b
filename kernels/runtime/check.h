// The two kinds of errors: those of the user, and all others.
#pragma once

#include <source_location>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ladder {

// Something went wrong that is not the user's doing: a broken invariant, a full disk, no memory.
// Programs end with exit status 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The user asked for something impossible: a wrong flag, a damaged file. The message is one line
// that says what is wrong and what would be right. Programs end with exit status 2.
class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Writes its arguments one after the other: concat("rows ", 3) == "rows 3".
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// Writes a count with its noun, as in "1 stage", "2 stages", "2 batches".
template <class Number>
std::string counted(Number count, std::string_view singular) {
  return concat(count, " ", singular, count == 1 ? "" : singular.ends_with("ch") ? "es" : "s");
}

// Throws Error(why) with the line of the source.
[[noreturn]] inline void fail(const std::string& why,
                              std::source_location where = std::source_location::current()) {
  throw Error(concat(where.file_name(), ":", where.line(), ": ", why));
}

// Throws Error(why) unless `condition` holds. For a message that must be composed, write
// `if (!condition) fail(concat(...))`, so that it is composed only when needed.
inline void check(bool condition, const char* why,
                  std::source_location where = std::source_location::current()) {
  if (!condition) fail(why, where);
}

}  // namespace ladder
