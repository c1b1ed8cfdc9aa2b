#include "common/checkpoint/json_path.h"

namespace ladder {

const Json& JsonPath::at(const Json& object, const char* key) const {
  if (!object.is_object()) refuse("expected an object");
  const auto found = object.find(key);
  if (found == object.end()) refuse(quoted_name(key), " is missing");
  return *found;
}

std::vector<std::string> JsonPath::strings(const Json& object, const char* key) const {
  const Json& value = at(object, key);
  const auto is_string = [](const Json& one) { return one.is_string(); };
  if (!value.is_array() || !std::ranges::all_of(value, is_string)) {
    refuse("\"", key, "\": expected an array of strings");
  }
  return value.get<std::vector<std::string>>();
}

std::string JsonPath::string(const Json& object, const char* key) const {
  const Json& value = at(object, key);
  if (!value.is_string()) refuse(quoted_name(key), ": expected a string");
  return value.get<std::string>();
}

DType JsonPath::float_dtype(const Json& object, const char* key) const {
  const std::string name = string(object, key);
  for (DType dtype : {DType::fp32, DType::fp64, DType::bf16, DType::fp16}) {
    if (name == name_of(dtype)) return dtype;
  }
  refuse(quoted_name(key), ": ", quoted_name(name), " is not fp32, fp64, bf16 or fp16");
}

size_t JsonPath::checked(const Json& value, const char* key, size_t least, size_t most) const {
  if (!value.is_number_unsigned()) refuse(quoted_name(key), ": expected integers from 0");
  const auto number = value.get<size_t>();
  if (number < least || number > most) {
    refuse(quoted_name(key), ": ", number, " is not in ", least, " to ", most);
  }
  return number;
}

std::vector<size_t> JsonPath::numbers(const Json& object, const char* key, size_t count,
                                      size_t most) const {
  const Json& array = at(object, key);
  if (!array.is_array() || array.size() != count) {
    refuse(quoted_name(key), ": expected ", count, " integers");
  }
  std::vector<size_t> result;
  for (const Json& value : array) result.push_back(checked(value, key, 0, most));
  return result;
}

}  // namespace ladder
