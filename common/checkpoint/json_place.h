// Reads JSON strictly: a value that is missing or of another kind is an error that says where.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/io/json_file.h"
#include "common/io/printable.h"
#include "kernels/runtime/dtype.h"

namespace ladder {

// Its objects are sorted by key, so that a key is found quickly however many there are.
using Json = nlohmann::json;

// A JsonPlace says what is being parsed, for messages, such as
// "c/step_00000050/checkpoint.json: tensor "param.wte.weight"". Its functions return a value of an
// object; each throws a UserError of one line, which begins with the place, if there is none.
class JsonPlace {
 public:
  explicit JsonPlace(std::string text) : text_(std::move(text)) {}
  // Returns the place of a part.
  JsonPlace in(const std::string& part) const { return JsonPlace(concat(text_, ": ", part)); }

  // Throws the UserError.
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw UserError(concat(text_, ": ", parts...));
  }

  // Parses a text that is one object.
  Json parse(std::string_view text) const { return parse_json_object(text, text_); }

  const Json& at(const Json& object, const char* key) const;
  std::string string(const Json& object, const char* key) const;
  DType float_dtype(const Json& object, const char* key) const;  // "fp32" and so on
  // An integer in [least, most].
  size_t number(const Json& object, const char* key, size_t least, size_t most) const {
    return checked(at(object, key), key, least, most);
  }
  // An array of so many integers, each up to `most`.
  std::vector<size_t> numbers(const Json& object, const char* key, size_t count, size_t most) const;
  // Returns `value`, which must be an integer in [least, most]. `key` is for the message.
  size_t checked(const Json& value, const char* key, size_t least, size_t most) const;

 private:
  std::string text_;
};

}  // namespace ladder
