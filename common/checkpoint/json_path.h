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

// A JsonPath reads values of one JSON object. It holds no JSON, only the text that messages begin
// with: the file and where in it the object is, such as
//   c/step_00000050/checkpoint.json: tensor "param.wte.weight"
// Each function throws a UserError of one line, "WHERE: "KEY": what is wrong", if the value is
// missing or is not what the function reads. `key` is the key of the value in `object`.
class JsonPath {
 public:
  explicit JsonPath(std::string text) : text_(std::move(text)) {}
  // Returns the reader of an object inside this one. `part` names it: "tensor "wte.weight"".
  JsonPath in(const std::string& part) const { return JsonPath(concat(text_, ": ", part)); }

  // Throws the UserError "WHERE: " and `parts`, one after the other.
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw UserError(concat(text_, ": ", parts...));
  }

  // Parses a text that is one object, in which no object has a key twice.
  Json parse(std::string_view text) const { return parse_json_object(text, text_); }

  // Returns object[key], whatever it is. It lives as long as `object`.
  const Json& at(const Json& object, const char* key) const;
  // Returns object[key], a string.
  std::string string(const Json& object, const char* key) const;
  // Returns object[key], an array of strings.
  std::vector<std::string> strings(const Json& object, const char* key) const;
  // Returns object[key], a string that is "fp32", "fp64", "bf16" or "fp16".
  DType float_dtype(const Json& object, const char* key) const;
  // Returns object[key], an integer in [least, most].
  size_t number(const Json& object, const char* key, size_t least, size_t most) const {
    return checked(at(object, key), key, least, most);
  }
  // Returns object[key], an array of exactly `count` integers, each in [0, most].
  std::vector<size_t> numbers(const Json& object, const char* key, size_t count, size_t most) const;
  // Returns a value that has been read already, an integer in [least, most]. `key` is for the
  // message.
  size_t checked(const Json& value, const char* key, size_t least, size_t most) const;

 private:
  std::string text_;
};

}  // namespace ladder
