// What the header's parser refuses, what it says, and that nothing crashes it.
#include <cstdint>
#include <string>
#include <vector>

#include "common/io/safetensors.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace ladder {
namespace {

std::vector<SafetensorsEntry> parse(const std::string& bytes) {
  return parse_safetensors_header(bytes, bytes.size(), "some/file");
}

// The message of the UserError that parsing throws; "" if it throws none.
std::string refusal(const std::string& bytes) {
  try {
    parse(bytes);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::string refusal(const std::string& header, size_t data_bytes) {
  return refusal(file_of(header, data_bytes));
}

// A header of one tensor "x" with these fields.
std::string one(const std::string& fields) { return concat("{\"x\":{", fields, "}}"); }

TEST_CASE("a damaged header is refused, and the message says how") {
  const std::string good = "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]";
  REQUIRE(refusal(one(good), 8) == "");
  const auto refuses = [](const std::string& header, size_t data_bytes, const std::string& why) {
    INFO(header.substr(0, 200));
    const std::string message = refusal(header, data_bytes);
    CHECK_THAT(message, StartsWith("some/file: "));
    CHECK_THAT(message, ContainsSubstring(why));
  };
  SECTION("not JSON of the right form") {
    refuses("[]", 0, "not a JSON object");
    refuses(" {}", 0, "not a JSON object");
    refuses("{", 0, "not valid JSON");
    refuses("{}}", 0, "not valid JSON");
    refuses("{\"x\":{" + good + "},}", 8, "not valid JSON");
    refuses("{\"\xff\":{" + good + "}}", 8, "not valid JSON in UTF-8");
    refuses(std::string("{}\0garbage", 10), 0, "zero byte");
    refuses("{\"x\":" + std::string(1'000'000, '['), 0, "expected an object, got an array");
    std::string nested = "{";
    for (int depth = 0; depth < 100'000; ++depth) nested += "\"x\":{";
    refuses(nested, 0, "unknown field");
  }
  SECTION("fields") {
    refuses("{\"x\":3}", 0, "tensor \"x\": expected an object, got a number");
    refuses("{\"x\":null}", 0, "expected an object, got null");
    refuses(one("\"dtype\":\"F32\",\"shape\":[2]"), 8, "\"data_offsets\" is missing");
    refuses(one("\"dtype\":\"F32\",\"data_offsets\":[0,8]"), 8, "\"shape\" is missing");
    refuses(one("\"shape\":[2],\"data_offsets\":[0,8]"), 8, "\"dtype\" is missing");
    refuses(one(good + ",\"more\":1"), 8, "tensor \"x\": unknown field \"more\"");
    refuses(one(good + ",\"dtype\":\"F32\""), 8, "\"dtype\" is there twice");
    refuses(one(good + ",\"shape\":[2]"), 8, "\"shape\" is there twice");
    refuses(one("\"dtype\":4,\"shape\":[2],\"data_offsets\":[0,8]"), 8, "expected a string");
    refuses(one("\"dtype\":[\"F32\"]"), 8, "\"dtype\": expected a string, got an array");
    refuses(one("\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]"), 8,
            "unknown dtype \"F33\"");
  }
  SECTION("shapes") {
    const auto shape = [](const std::string& text) {
      return one("\"dtype\":\"F32\",\"shape\":" + text + ",\"data_offsets\":[0,8]");
    };
    refuses(shape("2"), 8, "\"shape\": expected an array, got a number");
    refuses(shape("{}"), 8, "\"shape\": expected an array, got an object");
    refuses(shape("[-2]"), 8, "\"shape\": expected integers from 0, got -2");
    refuses(shape("[2.0]"), 8, "expected integers from 0, got 2.0");
    refuses(shape("[18446744073709551616]"), 8, "expected integers from 0");
    refuses(shape("[\"2\"]"), 8, "expected integers from 0, got a string");
    refuses(shape("[true]"), 8, "expected integers from 0, got true");
    refuses(shape("[[2]]"), 8, "expected integers from 0, got an array");
    refuses(shape("[4294967296,4294967296]"), 8, "overflows");
    refuses(shape("[9223372036854775808]"), 8, "overflows");
    refuses(shape("[3]"), 8, "hold 8 bytes, dtype and shape need 12");
  }
  SECTION("offsets") {
    const auto offsets = [](const std::string& text) {
      return one("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" + text);
    };
    refuses(offsets("8"), 8, "\"data_offsets\": expected an array, got a number");
    refuses(offsets("[8]"), 8, "has 1 numbers, expected 2");
    refuses(offsets("[0,4,8]"), 8, "has 3 numbers, expected 2");
    refuses(offsets("[-8,0]"), 8, "expected integers from 0, got -8");
    refuses(offsets("[0,8.5]"), 8, "expected integers from 0, got 8.5");
    refuses(offsets("[8,0]"), 8, "begin at 8, after their end 0");
    refuses(offsets("[0,8]"), 7, "ends at byte 8, the file has 7 bytes of data");
    refuses(offsets("[18446744073709551608,18446744073709551615]"), 8, "hold 7 bytes");
    refuses(offsets("[0,8]"), 9, "1 bytes after the last tensor");
    refuses(offsets("[4,12]"), 12, "leaving a hole after byte 0");
    refuses("{}", 1, "1 bytes after the last tensor");
  }
  SECTION("several tensors") {
    const std::string a = tensor("a", "2", 0, 8);
    refuses(std::string("{") + a + "," + a + "}", 8, "tensor \"a\": is there twice");
    refuses(std::string("{") + a + "," + tensor("\\u0061", "0", 8, 8) + "}", 8,
            "tensor \"a\": is there twice");
    refuses(std::string("{") + a + "," + tensor("b", "2", 4, 12) + "}", 12,
            "tensor \"b\": begins at byte 4");
    refuses(std::string("{") + a + "," + tensor("b", "2", 0, 8) + "}", 8,
            "inside the tensor before it");
    refuses(std::string("{") + a + "," + tensor("b", "2", 12, 20) + "}", 20,
            "leaving a hole after byte 8");
    refuses(std::string("{") + a + "," + tensor("b", "0", 4, 4) + "}", 8,
            "inside the tensor before it");
  }
  SECTION("metadata") {
    REQUIRE(refusal("{\"__metadata__\":{}}", 0) == "");
    refuses("{\"__metadata__\":[]}", 0, "\"__metadata__\": expected an object, got an array");
    refuses("{\"__metadata__\":{\"a\":1}}", 0, "\"a\": expected a string, got a number");
    refuses("{\"__metadata__\":{\"a\":{}}}", 0, "\"a\": expected a string, got an object");
    refuses("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0, "\"a\" is there twice");
    refuses("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "is there twice");
  }
  SECTION("a long name with control characters stays one short line") {
    const std::string message = refusal("{\"" + std::string(1'000, 'n') + "\\n\":3,\"a\\n\":0}", 0);
    CHECK(message.size() < 300);
    // Cut in the middle of a letter of two bytes.
    CHECK(refusal(concat("{\"", std::string(99, 'n'), "\u00e9\":3}"), 0) != "");
    CHECK(refusal("{\"a\\n\":3}", 0).find('\n') == std::string::npos);
  }
}

TEST_CASE("a file is refused by its length field") {
  CHECK_THAT(refusal(""), ContainsSubstring("0 bytes, shorter than the 8 bytes"));
  CHECK_THAT(refusal("1234567"), ContainsSubstring("7 bytes, shorter"));
  CHECK_THAT(refusal(std::string(8, '\0')), ContainsSubstring("header of 0 bytes"));
  CHECK_THAT(
      refusal(std::string(8, '\xff') + "{}"),
      ContainsSubstring("a header of 18446744073709551615 bytes, of which only 2 are there"));
  // Near the end of the file: of a header of 16 bytes some are there, or all and no data.
  const std::string text = "{}" + std::string(14, ' ');
  CHECK(refusal(file_of(text, 0)) == "");
  for (size_t missing = 1; missing <= 16; ++missing) {
    const std::string cut = file_of(text, 0).substr(0, 24 - missing);
    CHECK(refusal(cut) ==
          concat("some/file: not a safetensors file: a header of 16 bytes, of which ", "only ",
                 16 - missing, " are there"));
  }
  // The limit holds for a header that is all there: one byte more is refused before it is parsed.
  CHECK(refusal("{}" + std::string(100'000'000 - 2, ' '), 0) == "");
  CHECK_THAT(refusal("{}" + std::string(100'000'000 - 1, ' '), 0),
             ContainsSubstring("at most 100000000 are allowed"));
}

TEST_CASE("a file of another format is said to be what it is") {
  using namespace std::string_literals;
  const auto check_format = [](const std::string& begin, const std::string& description) {
    const std::string message = refusal(begin + std::string(100, '\x07'));
    CHECK_THAT(message, StartsWith("some/file: not a safetensors file but " + description));
  };
  check_format(
      "PK\3\4\0\0\x08"s,
      "a zip archive, such as a checkpoint of PyTorch (torch.save); load it in PyTorch and");
  check_format("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19."s, "a checkpoint of PyTorch");
  for (const char version : {'\2', '\3', '\4', '\5'}) {
    check_format("\x80"s + version + "}q", "a Python pickle");
  }
  check_format("GGUF\3\0\0\0"s, "a GGUF file, as llama.cpp reads");
  check_format("\x89HDF\r\n\x1a\n", "an HDF5 file");
  check_format("\x93NUMPY\1", "a NumPy array");
  check_format(
      "\x7f"
      "ELF\2\1\1",
      "a program");
  check_format("\x1f\x8b\x08", "compressed by gzip; unpack it first");
  const auto number = [](int32_t magic) {
    return std::string(reinterpret_cast<const char*>(&magic), 4);
  };
  check_format(number(20240520), "a token shard of llm.c; it is for --data");
  check_format(number(20240326), "a checkpoint of llm.c");
  check_format("version https://git-lfs.github.com/spec/v1\noid",
               "a pointer to a file that Git LFS");
  for (const char* begin : {"<!DOCTYPE html>", "<!doctype html>", "<html><head>"}) {
    check_format(begin, "a web page");
  }
  CHECK(refusal("{\n  \"metadata\": {}}") ==
        "some/file: not a safetensors file but a text that begins with "
        "\"{\\n  \\\"metadata\\\": {}}\"");
  CHECK(refusal(std::string(10'000, 'x')) ==
        "some/file: not a safetensors file but a text that begins with \"" + std::string(30, 'x') +
            "\"");
  // Nothing known: what the length field says.
  CHECK_THAT(refusal(std::string(20, '\x07')),
             ContainsSubstring("a header of 506381209866536711 bytes"));
}

// A valid file with every kind of thing in it.
std::string seed_file() {
  return file_of("{\"__metadata__\":{\"by\":\"\\u00e9\"}," + tensor("a", "2,3", 0, 24) + "," +
                     tensor("none", "0", 24, 24) +
                     ",\"d\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[24,32]}," +
                     "\"i\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[32,40]}} ",
                 40);
}

void feed(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

TEST_CASE("no truncation is accepted or crashes") {
  const std::string good = seed_file();
  REQUIRE(refusal(good) == "");
  feed(good);
  for (size_t length = 0; length < good.size(); ++length) {
    CHECK(refusal(good.substr(0, length)) != "");
    feed(good.substr(0, length));
  }
}

TEST_CASE("no changed byte crashes") {
  const std::string good = seed_file();
  for (size_t place = 0; place < good.size() - 40; ++place) {
    for (const char* other = "\"{}[],:-.0919aeF \n\\\x01\x7f\x80\xff"; *other != '\0'; ++other) {
      std::string bytes = good;
      bytes[place] = *other;
      feed(bytes);
      bytes.insert(place, 1, *other);
      feed(bytes);
    }
    std::string bytes = good;
    bytes[place] = '\0';
    feed(bytes);
    feed(good.substr(0, place) + good.substr(place + 1));
  }
  SUCCEED("still here");
}

}  // namespace
}  // namespace ladder
