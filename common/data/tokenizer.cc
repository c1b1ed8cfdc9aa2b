#include "common/data/tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/data/byte_level.h"
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

// Adds tokens to a table of their bytes by number.
class Table {
 public:
  Table(const std::string& path, std::map<size_t, std::string>& tokens)
      : path_(path), tokens_(tokens) {}

  void add(const std::string& text, const Json& number) {
    if (!number.is_number_unsigned() || number >= kMaxTokens) {
      refuse(concat("token ", quoted_name(text), " has the number ", shown(number),
                    ", expected a whole number below ", kMaxTokens));
    }
    const std::string bytes = bytes_of_token(text);
    const auto [place, is_new] = tokens_.insert({number.get<size_t>(), bytes});
    if (is_new || place->second == bytes) return;  // an added token may be in "vocab", too
    refuse(concat("two tokens have the number ", shown(number), ": ", quoted_name(place->second),
                  " and ", quoted_name(bytes)));
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw UserError(concat(path_, ": ", why));
  }

 private:
  const std::string& path_;
  std::map<size_t, std::string>& tokens_;
};

}  // namespace

Tokenizer::Tokenizer(const std::string& path) {
  const Json json = read_json_object(path, kMaxBytes);
  Table table(path, tokens_);
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
  for (const auto& [text, number] : vocabulary.items()) table.add(text, number);
  for (const Json& added : member(json, "added_tokens")) {
    const Json& content = member(added, "content");
    if (!content.is_string()) table.refuse("one of its \"added_tokens\" has no \"content\"");
    table.add(content.get<std::string>(), member(added, "id"));
  }
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

std::string tokenizer_config(size_t sequence_length) {
  const nlohmann::ordered_json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                       {"bos_token", nullptr},
                                       {"eos_token", nullptr},
                                       {"clean_up_tokenization_spaces", false},
                                       {"model_max_length", sequence_length},
                                       // Without this some versions also make token types, which
                                       // GPT-2 would add to its embeddings.
                                       {"model_input_names", {"input_ids", "attention_mask"}}};
  return json.dump(2) + "\n";
}

}  // namespace ladder
