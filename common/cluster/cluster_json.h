// Reads values from the JSON of a cluster's file (notes/clusters.md), and checks each one. What is
// wrong with the file ends in a UserError of one line: "FILE: "KEY": what is wrong". FILE is
// context.where.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>

#include "common/cluster/cluster_file.h"
#include "common/io/json_file.h"
#include "common/io/printable.h"
#include "kernels/runtime/check.h"

namespace ladder {

using Json = nlohmann::json;

// The interval that a number must lie in. NaN and infinity lie in none. The bounds are far beyond
// all machines; within them the time of a kernel or message is a finite number.
enum class NumberRange {
  rate,      // [1, 1e30): FLOP or bytes, alone or per second
  positive,  // [1e-12, 1e6): a time that cannot be 0, or a multiple of something
  seconds,   // [0, 1e6)
  part,      // [1e-6, 1]: what is reached of what is possible, an efficiency
  share,     // [0, 1): what is lost to something else, which never takes all
  count,     // whole numbers in [1, 1e18)
};
// Returns a number of the range `count` as an integer.
inline size_t whole(double number) { return static_cast<size_t>(number); }

// Throws the UserError of a key. `parts`, one after the other, say what is wrong.
template <class... Parts>
[[noreturn]] void refuse(const ClusterFileContext& context, const std::string& key,
                         const Parts&... parts) {
  throw UserError(concat(context.where, ": ", quoted_name(key), ": ", parts...));
}

// Throws a UserError if the object has a key that is not in `known`.
void check_keys(const Json& json, const std::set<std::string>& known,
                const ClusterFileContext& context);

// Returns json[key], a number in the range: 5, or {"value": 5, "source": "where it is from"}.
// Throws a UserError if it is missing or something else, or if context.sources_required and it has
// none.
double number_in(const Json& json, const char* key, NumberRange range,
                 const ClusterFileContext& context);
// Returns json[key], true or false. Throws a UserError if it is something else.
bool switch_in(const Json& json, const char* key, const ClusterFileContext& context);
// Returns json[key], a text: "ring", or {"value": "ring", ...}. Throws a UserError if it is missing
// or something else.
std::string text_of(const Json& json, const char* key, const ClusterFileContext& context);
// Returns json[key], an array of objects, which lie in `json`; empty if the key is missing. Throws
// a UserError if it is something else.
std::span<const Json> objects_of(const Json& json, const char* key,
                                 const ClusterFileContext& context);

// Returns the one of `choices` whose name_of() is the text json[key]. Throws a UserError if none
// is.
template <class Choice, size_t count>
Choice choice_of(const Json& json, const char* key, const std::array<Choice, count>& choices,
                 const ClusterFileContext& context) {
  const std::string name = text_of(json, key, context);
  for (Choice choice : choices) {
    if (name == name_of(choice)) return choice;
  }
  refuse(context, key, quoted_name(name), " is none");
}

}  // namespace ladder
