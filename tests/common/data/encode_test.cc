// Texts as tokens of a byte-level BPE.
#include "common/data/encode.h"

#include <nlohmann/json.hpp>

#include "common/data/byte_level.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

using Json = nlohmann::json;
using Tokens = std::vector<int32_t>;

// A tokenizer.json as GPT-2's: token b is byte b, token 256 + i is what merge i makes, and one more
// is added by hand.
Json tokenizer(const std::vector<std::pair<std::string, std::string>>& merges) {
  Json json = {{"normalizer", nullptr},
               {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
               {"decoder", {{"type", "ByteLevel"}}},
               {"model", {{"type", "BPE"}, {"vocab", Json::object()}, {"merges", Json::array()}}},
               {"added_tokens", {{{"id", 900}, {"content", "<|end|>"}}}}};
  for (int byte = 0; byte < 256; ++byte) {
    json["model"]["vocab"][byte_level_character(static_cast<uint8_t>(byte))] = byte;
  }
  for (const auto& [a, b] : merges) {
    Json& vocabulary = json["model"]["vocab"];
    if (!vocabulary.contains(a + b)) vocabulary[a + b] = vocabulary.size();
    json["model"]["merges"].push_back(a + " " + b);
  }
  return json;
}

Tokens encoded(const Json& json, const std::string& text) {
  const TestFolder folder;
  return encode(folder.write("tokenizer.json", json.dump()), text);
}

// What a text is split into. Two neighbours are in one word if a merge of the two joins them. In
// the text no three neighbours in a word may be the same.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words = {text.substr(0, 1)};
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    const auto character = [&](size_t at) {
      return byte_level_character(static_cast<uint8_t>(text[at]));
    };
    bool are_joined = false;
    size_t at = 0;
    for (int32_t token : encoded(tokenizer({{character(i), character(i + 1)}}), text)) {
      are_joined = are_joined || (at == i && token == 256);
      at += token == 256 ? 2 : 1;
    }
    if (!are_joined) words.emplace_back();
    words.back() += text[i + 1];
  }
  return words;
}

TEST_CASE("a text is split into words as GPT-2 splits it") {
  using Words = std::vector<std::string>;
  CHECK(words_of("In the beginning") == Words{"In", " the", " beginning"});
  CHECK(words_of("it's we'll 'twas I'D") ==
        Words{"it", "'s", " we", "'ll", " '", "twas", " I", "'", "D"});
  CHECK(words_of("a  b\n\nc \n") == Words{"a", " ", " b", "\n", "\n", "c", " \n"});
  CHECK(words_of("x=12; (3)") == Words{"x", "=", "12", ";", " (", "3", ")"});
  CHECK(words_of("  ") == Words{"  "});
  CHECK(words_of("\tend ") == Words{"\t", "end", " "});
}

TEST_CASE("the pair that comes first in the list of merges is merged first, wherever it is") {
  // 256: lo, 257: el, 258: hel, 259: "Ġ" and lo.
  const Json json = tokenizer({{"l", "o"}, {"e", "l"}, {"h", "el"}, {"\u0120", "lo"}});
  CHECK(encoded(json, "hello") == Tokens{258, 256});
  CHECK(encoded(json, "helo") == Tokens{'h', 'e', 256});  // lo before el
  CHECK(encoded(json, "el lo") == Tokens{257, 259});
  CHECK(encoded(json, "lolo") == Tokens{256, 256});
  CHECK(encoded(json, "").empty());
  Json pairs = json;
  for (Json& merge : pairs["model"]["merges"]) {
    const std::string text = merge;
    merge = {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
  }
  CHECK(encoded(pairs, "hello") == Tokens{258, 256});
}

TEST_CASE("tokens that were added by hand are found in the text, the longest first") {
  Json json = tokenizer({{"a", "b"}});
  CHECK(encoded(json, "<|end|>ab<|end|><|end") == Tokens{900, 256, 900, '<', '|', 'e', 'n', 'd'});
  json["added_tokens"].push_back({{"id", 901}, {"content", "<|end|>ab"}});
  CHECK(encoded(json, "x<|end|>ab") == Tokens{'x', 901});
  CHECK(encoded(json, "<|end|>x") == Tokens{900, 'x'});
}

// What is said of a file, without its path.
std::string fault(const Json& json, const std::string& text = "a") {
  const TestFolder folder;
  const std::string path = folder.write("tokenizer.json", json.dump());
  try {
    encode(path, text);
  } catch (const UserError& error) {
    CHECK_THAT(error.what(), StartsWith(path + ": "));
    return std::string(error.what()).substr(path.size() + 2);
  }
  return "";
}

TEST_CASE("a tokenizer that splits in another way is refused, not taken for GPT-2's") {
  const Json good = tokenizer({});
  CHECK(fault(good) == "");
  const auto with = [&](const char* pointer, const Json& value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = value;
    return json;
  };
  CHECK_THAT(fault(with("/normalizer", {{"type", "NFC"}})), ContainsSubstring("\"normalizer\""));
  CHECK_THAT(fault(with("/pre_tokenizer/type", "Whitespace")),
             ContainsSubstring("\"pre_tokenizer\""));
  CHECK_THAT(fault(with("/pre_tokenizer/add_prefix_space", true)),
             ContainsSubstring("\"pre_tokenizer\""));
  CHECK_THAT(fault(with("/model/end_of_word_suffix", "</w>")),
             ContainsSubstring("end_of_word_suffix"));
  for (const char* part : {"/pre_tokenizer", "/model/vocab", "/model/merges", "/model"}) {
    CHECK_THAT(fault(with(part, 7)), ContainsSubstring("is not the tokenizer.json"));
  }
  CHECK_THAT(fault(with("/model/merges", {"ab"})), ContainsSubstring("has no two symbols"));
  Json few = good;
  few["model"]["vocab"].erase("a");
  CHECK(fault(few) == "the vocabulary has no token for \"a\"");
  CHECK_THAT(fault(good, "caf\u00e9"), ContainsSubstring("beyond ASCII"));
  // Where nothing is split there is no question of letters.
  CHECK(encoded(with("/pre_tokenizer/use_regex", false), "\u00e9") == Tokens{0xC3, 0xA9});
}

}  // namespace
}  // namespace ladder
