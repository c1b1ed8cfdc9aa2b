// JSON that other programs wrote, and what is refused as such.
#include "common/io/json_file.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

// What is said of a file with this text, without the path; "" if it is read.
std::string fault(const std::string& text, size_t max_bytes = 1000) {
  const TestFolder folder;
  const std::string path = folder.write("file.json", text);
  try {
    read_json_object(path, max_bytes);
  } catch (const UserError& error) {
    const std::string message = error.what();
    CHECK_THAT(message, StartsWith(path + ": ") && !ContainsSubstring("\n"));
    return message.substr(path.size() + 2);
  }
  return "";
}

TEST_CASE("an object is read") {
  const TestFolder folder;
  const auto json =
      read_json_object(folder.write("a", R"( {"a": [1, {"a": "\u00e9"}], "b": 2} )"), 99);
  CHECK(json.at("a").at(1).at("a") == "\u00e9");
  CHECK(json.at("b") == 2);
  CHECK(shown(json.at("a")) == R"([1,{"a":"\u00e9"}])");
  CHECK(shown(std::string(200, 'x')) == concat("\"", std::string(99, 'x'), "..."));
  CHECK(fault("{}", 2) == "");
  CHECK_THROWS_AS(read_json_object(folder / "none", 9), UserError);
}

TEST_CASE("everything else is refused in one line") {
  const std::string bad = "is not valid JSON in UTF-8, near its byte ";
  CHECK_THAT(fault(""), StartsWith(bad));
  CHECK(fault("{\"a\": 1") == bad + "8");
  CHECK(fault("{\"a\": 1}}") == bad + "9");
  CHECK_THAT(fault("{\"\xff\": 1}"), StartsWith(bad));
  CHECK_THAT(fault(std::string("{\"a\0\": 1}", 9)), StartsWith(bad));
  CHECK_THAT(fault("{\"a\": NaN}"), StartsWith(bad));
  CHECK(fault("[1]") == "expected a JSON object");
  CHECK(fault("1") == "expected a JSON object");
  CHECK(fault("{\"a\": 1e999}") == "has a number that is too large");
  CHECK(fault("{\"b\": {\"x\": 1, \"x\": 2}}") == "the key \"x\" is there twice");
  CHECK(fault("{\"a\\n\": 1, \"a\\n\": 2}") == "the key \"a\\n\" is there twice");
  CHECK(fault("{\"x\": {\"x\": [{\"x\": 1}, {\"x\": 1}]}}") == "");
  CHECK(fault("{}  ", 3) == "4 bytes, expected at most 3");
  const auto nested = [](size_t depth) {
    return concat("{\"a\":", std::string(depth - 1, '['), std::string(depth - 1, ']'), "}");
  };
  CHECK(fault(nested(64)) == "");
  CHECK(fault(nested(65)) == "the JSON nests too deep");
  CHECK(fault(concat("{\"a\":", std::string(5'000'000, '[')), 9'000'000) ==
        "the JSON nests too deep");
}

}  // namespace
}  // namespace ladder
