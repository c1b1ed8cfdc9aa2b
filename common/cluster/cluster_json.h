// Values in the JSON of a cluster's file, each checked.
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

// The numbers that a key may have.
enum class NumberRange { rate, seconds, part, share, count };
inline size_t whole(double number) { return static_cast<size_t>(number); }

// Throws the UserError of a key.
template <class... Parts>
[[noreturn]] void refuse(const ClusterFileContext& context, const std::string& key,
                         const Parts&... parts) {
  throw UserError(concat(context.place, ": ", quoted_name(key), ": ", parts...));
}

// Throws if an object has a key that is not in `known`.
void check_keys(const Json& json, const std::set<std::string>& known,
                const ClusterFileContext& context);

// Return json[key], which must be a number in the range, a text, or an array of objects, which may
// be missing. A number or text may come with its source.
double number_in(const Json& json, const char* key, NumberRange range,
                 const ClusterFileContext& context);
std::string text_of(const Json& json, const char* key, const ClusterFileContext& context);
std::span<const Json> objects_of(const Json& json, const char* key,
                                 const ClusterFileContext& context);

// Returns the choice that the text json[key] names.
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
