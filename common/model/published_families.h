// How the config.json of each family is read and written: what published_config.cc is made of.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/model/config.h"

namespace ladder {

inline constexpr size_t kMaxPublishedBytes = size_t{1} << 20;  // of a config.json

// PublishedFile reads the values of a config.json, or of an object in it. Each function throws a
// UserError "PATH: KEY is VALUE, ..." if a value is not what the function reads.
class PublishedFile {
 public:
  explicit PublishedFile(const std::string& path);

  [[noreturn]] void refuse(const std::string& key, const std::string& why) const;
  // Return whether the key is there and is null, and whether it is there and is not.
  bool is_null(const char* key) const;
  bool has(const char* key) const;
  // Return the value, or `missing` if the key is not there. Without `missing` it has to be.
  size_t size(const char* key, std::optional<size_t> missing = {}) const;
  double number(const char* key, std::optional<double> missing = {}) const;
  bool flag(const char* key, bool missing) const;
  std::string text(const char* key, const char* missing) const;
  // Throws unless the key is missing, or has one of the values that `who` computes with. The first
  // one is shown.
  void expect(const char* key, std::initializer_list<nlohmann::json> values,
              const std::string& who) const;
  // Throws if a key is there that is not one of these.
  void expect_only(std::initializer_list<const char*> keys, const std::string& who) const;
  // Returns the reader of the object at this key.
  PublishedFile in(const char* key) const;

 private:
  PublishedFile(std::string path, std::string prefix, nlohmann::json json)
      : path_(std::move(path)), prefix_(std::move(prefix)), json_(std::move(json)) {}

  std::string path_, prefix_;  // the prefix of keys in messages
  nlohmann::json json_;
};

// What a config.json says, with the key that says how many positions there are. What is a default
// of ModelConfig is left at 0: as many key-value heads as heads, the size of a head, 4 C.
struct PublishedModel {
  ModelConfig config;
  const char* positions;
};

// Return what the file says.
PublishedModel read_gpt2(const PublishedFile& file);
PublishedModel read_llama(const PublishedFile& file);
// Return whether the family has models of this type ("llama"), and the names of all, with commas.
bool is_llama_type(const std::string& type);
std::string llama_types();

// Return all that a config.json must say of the model, and what goes without saying.
nlohmann::ordered_json gpt2_json(const ModelConfig& config);
nlohmann::ordered_json llama_json(const ModelConfig& config);

}  // namespace ladder
