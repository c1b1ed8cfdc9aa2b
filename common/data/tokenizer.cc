#include "common/data/tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/data/byte_level.h"
#include "common/io/file.h"
#include "common/io/json_file.h"
#include "common/io/printable.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxBytes = size_t{256} << 20;
constexpr size_t kMaxTokens = 100'000'000;  // the largest --vocab

// Returns a member of an object, or null if there is none.
const Json& member(const Json& object, const char* key) {
  static const Json null;
  return object.is_object() && object.contains(key) ? object.at(key) : null;
}

// Returns whether a decoder of tokenizer.json turns byte-level characters into bytes.
bool decodes_bytes(const Json& decoder) {
  if (member(decoder, "type") == "ByteLevel") return true;
  const Json& parts = member(decoder, "decoders");
  return parts.is_array() && std::ranges::any_of(parts, [](const Json& part) {
           return member(part, "type") == "ByteLevel";
         });
}

// The tokens of a file, by number.
class Table {
 public:
  explicit Table(const std::string& path) : path_(path) {}

  // Adds a token. One of the vocabulary may come again among the added tokens. Its `bytes` are
  // those that were added last.
  void add(const std::string& text, const Json& number, const std::string& bytes) {
    if (!number.is_number_unsigned() || number >= kMaxTokens) {
      refuse(concat("token ", quoted_name(text), " has the number ", shown(number),
                    ", expected a whole number below ", kMaxTokens));
    }
    const auto [entry, is_new] = tokens_.insert({number.get<size_t>(), {text, bytes}});
    if (!is_new && entry->second.text != text) {
      refuse(concat("two tokens have the number ", shown(number), ": ",
                    quoted_name(entry->second.text), " and ", quoted_name(text)));
    }
    entry->second.bytes = bytes;
  }
  std::optional<int32_t> find(const std::string& text) const {
    for (const auto& [number, token] : tokens_) {
      if (token.text == text) return static_cast<int32_t>(number);
    }
    return std::nullopt;
  }
  std::map<size_t, std::string> bytes() const {
    std::map<size_t, std::string> result;
    for (const auto& [number, token] : tokens_) result[number] = token.bytes;
    return result;
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw UserError(concat(path_, ": ", why));
  }

 private:
  struct Token {
    std::string text;  // as the file writes it
    std::string bytes;
  };
  const std::string& path_;
  std::map<size_t, Token> tokens_;
};

// Returns the end of a text that the file tokenizer_config.json beside `path` names, if it is there
// and names one.
std::optional<int32_t> configured_end(const std::string& path, const Table& table) {
  const std::filesystem::path config =
      std::filesystem::path(path).replace_filename("tokenizer_config.json");
  std::error_code error;
  if (!std::filesystem::exists(config, error)) return std::nullopt;
  const Json json = read_json_object(config, kMaxBytes);
  const Json& token = member(json, "eos_token");
  const Json& text = token.is_object() ? member(token, "content") : token;
  if (text.is_null()) return std::nullopt;
  const auto end = text.is_string() ? table.find(text.get<std::string>()) : std::nullopt;
  if (end) return end;
  throw UserError(
      concat(config.string(), ": \"eos_token\" is ", shown(text), ", which is no token of ", path));
}

}  // namespace

Tokenizer::Tokenizer(const std::string& path) {
  const InputFile file(path);
  const Json json = read_json_object(file, kMaxBytes);
  Table table(path);
  const Json &model = member(json, "model"), &vocabulary = member(model, "vocab");
  if (!vocabulary.is_object() || vocabulary.empty()) {
    table.refuse(
        "\"model\" has no \"vocab\" of tokens and numbers; expected the tokenizer.json of "
        "a byte-level BPE, such as GPT-2's");
  }
  if (!decodes_bytes(member(json, "decoder"))) {
    table.refuse(concat("its \"decoder\" is ", shown(member(json, "decoder")),
                        ", expected ByteLevel, as GPT-2's tokenizer has"));
  }
  for (const auto& [text, number] : vocabulary.items()) {
    table.add(text, number, bytes_of_token(text));
  }
  for (const Json& added : member(json, "added_tokens")) {
    const Json& content = member(added, "content");
    if (!content.is_string()) table.refuse("one of its \"added_tokens\" has no \"content\"");
    const std::string text = content.get<std::string>();
    table.add(text, member(added, "id"), text);
  }
  tokens_ = table.bytes();
  end_of_text_ = configured_end(path, table);
  if (!end_of_text_) end_of_text_ = table.find("<|endoftext|>");
  file_ = file.text(0, file.size());
}

std::string Tokenizer::file() const {
  auto json = nlohmann::ordered_json::parse(file_);
  bool is_changed = false;
  for (const char* key : {"/truncation", "/padding", "/model/dropout"}) {
    const nlohmann::ordered_json::json_pointer entry(key);
    if (!json.contains(entry) || json[entry].is_null()) continue;
    json[entry] = nullptr;
    is_changed = true;
  }
  return is_changed ? json.dump(2) + "\n" : file_;
}

std::string Tokenizer::text_of(int32_t token) const {
  const auto found = tokens_.find(static_cast<size_t>(token));
  return found == tokens_.end() ? concat("[", token, "]") : found->second;
}

std::string byte_tokenizer(size_t vocab_size) {
  nlohmann::ordered_json vocabulary;
  for (size_t byte = 0; byte < std::min<size_t>(vocab_size, 256); ++byte) {
    vocabulary[byte_level_character(static_cast<uint8_t>(byte))] = byte;
  }
  // No space is put before a text, nothing is split off before bytes are looked up.
  const nlohmann::ordered_json byte_level = {{"type", "ByteLevel"},
                                             {"add_prefix_space", false},
                                             {"trim_offsets", false},
                                             {"use_regex", false}};
  nlohmann::ordered_json json = {{"version", "1.0"}};
  for (const char* absent : {"truncation", "padding"}) json[absent] = nullptr;
  json["added_tokens"] = nlohmann::ordered_json::array();
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = byte_level;
  json["post_processor"] = nullptr;
  json["decoder"] = byte_level;
  json["model"] = {{"type", "BPE"}};
  for (const char* absent :
       {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) {
    json["model"][absent] = nullptr;
  }
  json["model"]["fuse_unk"] = false;
  json["model"]["byte_fallback"] = false;
  json["model"]["vocab"] = vocabulary;
  json["model"]["merges"] = nlohmann::ordered_json::array();
  return json.dump(2) + "\n";
}

std::string tokenizer_config(size_t sequence_length, const std::string* end_of_text) {
  nlohmann::ordered_json end;
  if (end_of_text != nullptr) end = *end_of_text;
  const nlohmann::ordered_json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                       {"bos_token", end},
                                       {"eos_token", end},
                                       {"clean_up_tokenization_spaces", false},
                                       {"model_max_length", sequence_length},
                                       // Without this some versions also make token types, which
                                       // GPT-2 would add to its embeddings.
                                       {"model_input_names", {"input_ids", "attention_mask"}}};
  return json.dump(2) + "\n";
}

}  // namespace ladder
