// Tokens as text: tokenizer.json, read and written.
#include "common/data/tokenizer.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/data/byte_level.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

using Json = nlohmann::json;

Json small() {
  return {{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"\u0120the", 1}, {"\u010a", 3}}}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"added_tokens", {{{"id", 5}, {"content", "<|end of text|>"}, {"special", true}}}}};
}

Tokenizer open(const std::string& text) {
  const TestFolder folder;
  return Tokenizer(folder.write("tokenizer.json", text));
}

// What is said of the file, without its path.
std::string fault(const Json& json) {
  const TestFolder folder;
  const std::string path = folder.write("tokenizer.json", json.dump());
  try {
    const Tokenizer tokenizer(path);
  } catch (const UserError& error) {
    const std::string text = error.what();
    CHECK_THAT(text, StartsWith(path + ": ") && !ContainsSubstring("\n"));
    return text.substr(path.size() + 2);
  }
  return "";
}

TEST_CASE("bytes are written as the characters that GPT-2 uses") {
  // From GPT-2's own vocabulary: the space, the line break, the first and the last byte.
  CHECK(byte_level_character(' ') == "\u0120");
  CHECK(byte_level_character('\n') == "\u010a");
  CHECK(byte_level_character(0) == "\u0100");
  CHECK(byte_level_character(0x7F) == "\u0121");
  CHECK(byte_level_character(0xA0) == "\u0142");
  CHECK(byte_level_character(0xAD) == "\u0143");
  CHECK(byte_level_character('!') == "!");
  CHECK(byte_level_character('~') == "~");
  CHECK(byte_level_character(0xA1) == "\u00a1");
  CHECK(byte_level_character(0xFF) == "\u00ff");
  std::string all, bytes;
  for (unsigned byte = 0; byte < 256; ++byte) {
    all += byte_level_character(static_cast<uint8_t>(byte));
    bytes += static_cast<char>(byte);
  }
  CHECK(bytes_of_token(all) == bytes);
}

TEST_CASE("a token with other characters stands for its own text") {
  for (const std::string text : {"<|end of text|>", "a b", "\u0144", "\u2603", "\U0001f600", ""}) {
    CHECK(bytes_of_token(text) == text);
  }
  CHECK(bytes_of_token("\xc4") == "\xc4");  // no UTF-8: never in JSON, but no reason to crash
}

TEST_CASE("numbers become text, and those that no token has a mark") {
  const Tokenizer tokenizer = open(small().dump());
  CHECK(tokenizer.size() == 6);
  CHECK(tokenizer.text_of(0) == "a");
  CHECK(tokenizer.text_of(1) == " the");
  CHECK(tokenizer.text_of(2) == "[2]");
  CHECK(tokenizer.text_of(3) == "\n");
  CHECK(tokenizer.text_of(5) == "<|end of text|>");
  CHECK(tokenizer.text_of(6) == "[6]");
  CHECK(tokenizer.text_of(50300) == "[50300]");
}

TEST_CASE("a decoder may be a sequence, and an added token may be in the vocabulary, too") {
  Json json = small();
  json["decoder"] = {{"type", "Sequence"},
                     {"decoders", {{{"type", "Fuse"}}, {{"type", "ByteLevel"}}}}};
  json["model"]["vocab"]["<|x|>"] = 6;
  json["added_tokens"].push_back({{"id", 6}, {"content", "<|x|>"}});
  CHECK(open(json.dump()).text_of(6) == "<|x|>");
  json.erase("added_tokens");
  CHECK(open(json.dump()).size() == 7);
}

TEST_CASE("an added token stands for its own text, whatever its letters are") {
  // All of these are characters that stand for another byte in a vocabulary.
  Json json = small();
  std::vector<std::string> added = {"\u00e9", "caf\u00e9", "\u0120", "\u010a\u010a", "\u00ff", "a"};
  for (size_t i = 0; i < added.size(); ++i) {
    json["added_tokens"].push_back({{"id", 10 + i}, {"content", added[i]}});
  }
  json["model"]["vocab"]["\u00a1"] = 30;  // in the vocabulary, too: there it is the byte A1
  json["added_tokens"].push_back({{"id", 30}, {"content", "\u00a1"}});
  const Tokenizer tokenizer = open(json.dump());
  for (size_t i = 0; i < added.size(); ++i) {
    CHECK(tokenizer.text_of(static_cast<int32_t>(10 + i)) == added[i]);
  }
  CHECK(tokenizer.text_of(30) == "\u00a1");
  CHECK(tokenizer.text_of(1) == " the");
  // Another text of the same bytes is another token.
  json["added_tokens"].push_back({{"id", 1}, {"content", " the"}});
  CHECK(fault(json) == "two tokens have the number 1: \"\\u0120the\" and \" the\"");
}

TEST_CASE("the end of a text is what the settings beside it say, otherwise <|endoftext|>") {
  const TestFolder folder;
  Json json = small();
  const auto end_with = [&](const std::string& config) {
    const std::string path = folder.write("tokenizer.json", json.dump());
    if (config.empty()) std::filesystem::remove(folder / "tokenizer_config.json");
    if (!config.empty()) folder.write("tokenizer_config.json", config);
    return Tokenizer(path).end_of_text();
  };
  CHECK(end_with("") == std::nullopt);
  CHECK(end_with(R"({"eos_token": "<|end of text|>"})") == 5);
  CHECK(end_with(R"({"eos_token": {"content": "<|end of text|>", "special": true}})") == 5);
  CHECK(end_with(R"({"eos_token": null})") == std::nullopt);
  json["added_tokens"].push_back({{"id", 2}, {"content", "<|endoftext|>"}});
  CHECK(end_with("") == 2);
  CHECK(end_with("{}") == 2);
  CHECK(end_with(R"({"eos_token": "<|end of text|>"})") == 5);
  json.erase("added_tokens");
  json["model"]["vocab"]["<|endoftext|>"] = 7;
  CHECK(end_with("") == 7);
  for (const std::string bad : {R"("<|none|>")", "3", "false", R"({"content": 1})"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(end_with("{\"eos_token\": " + bad + "}"), UserError);
    CHECK_THROWS_WITH(end_with("{\"eos_token\": " + bad + "}"),
                      StartsWith(folder / "tokenizer_config.json: \"eos_token\" is ") &&
                          ContainsSubstring("which is no token of " + folder / "tokenizer.json"));
  }
  CHECK_THROWS_WITH(end_with("{"), StartsWith(folder / "tokenizer_config.json: is not valid JSON"));
}

TEST_CASE("saved settings for truncation, padding and dropout are not handed on, and all else is") {
  using Ordered = nlohmann::ordered_json;
  Ordered plain = Ordered::parse(small().dump());
  plain["truncation"] = nullptr;
  plain["model"]["dropout"] = nullptr;
  plain["z"] = {{"b", 1.5}, {"a", "\u00e9"}};
  CHECK(open(plain.dump(1)).file() == plain.dump(1));  // to the byte
  for (const std::string key : {"truncation", "padding", "dropout"}) {
    CAPTURE(key);
    Ordered saved = plain;
    Ordered& object = key == "dropout" ? saved["model"] : saved;
    if (key == "dropout") object[key] = 0.5;
    if (key == "truncation") object[key] = {{"max_length", 512}, {"strategy", "LongestFirst"}};
    if (key == "padding") object[key] = {{"strategy", {{"Fixed", 8192}}}, {"pad_id", 0}};
    Ordered expected = saved;
    (key == "dropout" ? expected["model"] : expected)[key] = nullptr;
    CHECK(open(saved.dump()).file() == expected.dump(2) + "\n");
  }
}

TEST_CASE("a file of another kind, or a damaged one, is refused") {
  const std::string no_vocabulary =
      "\"model\" has no \"vocab\" of tokens and numbers; expected the tokenizer.json of a "
      "byte-level BPE, such as GPT-2's";
  const auto fault_with = [](const auto& change) {
    Json json = small();
    change(json);
    return fault(json);
  };
  CHECK(fault(Json::object()) == no_vocabulary);
  CHECK(fault({{"a", 0}, {"b", 1}}) == no_vocabulary);  // GPT-2's vocab.json
  CHECK(fault_with([](Json& j) { j["model"]["vocab"] = {"a", "b"}; }) == no_vocabulary);
  CHECK(fault_with([](Json& j) { j["model"] = "BPE"; }) == no_vocabulary);
  CHECK(
      fault_with([](Json& j) {
        j["decoder"] = {{"type", "Metaspace"}};
      }) ==
      "its \"decoder\" is {\"type\":\"Metaspace\"}, expected ByteLevel, as GPT-2's tokenizer has");
  CHECK_THAT(fault_with([](Json& j) { j.erase("decoder"); }),
             StartsWith("its \"decoder\" is null"));
  const std::string number = ", expected a whole number below 100000000";
  for (const Json& bad : {Json(-1), Json(1.5), Json("1"), Json(nullptr), Json(100'000'000)}) {
    CHECK(fault_with([&](Json& j) { j["model"]["vocab"]["a"] = bad; }) ==
          "token \"a\" has the number " + bad.dump() + number);
  }
  CHECK(fault_with([](Json& j) { j["model"]["vocab"]["b"] = 0; }) ==
        "two tokens have the number 0: \"a\" and \"b\"");
  CHECK(fault_with([](Json& j) { j["added_tokens"][0]["id"] = 0; }) ==
        "two tokens have the number 0: \"a\" and \"<|end of text|>\"");
  const std::string no_content = "one of its \"added_tokens\" has no \"content\"";
  for (const Json& bad : {Json("x"), Json(1), Json({1}), Json({{"id", 7}})}) {
    CHECK(fault_with([&](Json& j) { j["added_tokens"] = {bad}; }) == no_content);
  }
  CHECK_THAT(fault_with([](Json& j) {
               j["added_tokens"] = {{{"content", "x"}}};
             }),
             StartsWith("token \"x\" has the number null"));
}

TEST_CASE("the bytes' own tokenizer gives each byte its value") {
  const std::string text = byte_tokenizer(50257);
  const Tokenizer tokenizer = open(text);
  CHECK(tokenizer.size() == 256);
  for (int byte = 0; byte < 256; ++byte) {
    CHECK(tokenizer.text_of(byte) == std::string(1, static_cast<char>(byte)));
  }
  CHECK(open(byte_tokenizer(100)).size() == 100);

  Json json = Json::parse(text);
  CHECK(json["model"]["vocab"].size() == 256);
  json["model"].erase("vocab");
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", false},
                           {"use_regex", false}};
  CHECK(json == Json{{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", Json::array()},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", byte_level},
                     {"post_processor", nullptr},
                     {"decoder", byte_level},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"merges", Json::array()}}}});
  CHECK(Json::parse(tokenizer_config(32, nullptr)) ==
        Json{{"tokenizer_class", "PreTrainedTokenizerFast"},
             {"bos_token", nullptr},
             {"eos_token", nullptr},
             {"clean_up_tokenization_spaces", false},
             {"model_max_length", 32},
             {"model_input_names", {"input_ids", "attention_mask"}}});
  const std::string end = "<|x|>";
  const Json with_end = Json::parse(tokenizer_config(32, &end));
  CHECK(with_end.at("eos_token") == end);
  CHECK(with_end.at("bos_token") == end);
}

}  // namespace
}  // namespace ladder
