// The choices that make a model's family, each as a flag, as a key in an index of checkpoints, and
// as a text. The list is written here once.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/model/config.h"

namespace ladder {

struct FamilyChoice {
  const char* name;      // "key-value-heads": the flag without its dashes
  const char* help;      // of the flag, with the default
  const char* expected;  // "a whole number from 1", for messages
  // Returns the value as the flag has it, or an empty text if it is the default.
  std::string (*text)(const ModelConfig&);
  // Sets the value. Returns false if the text is none.
  bool (*set)(ModelConfig&, const std::string& text);

  std::string flag() const { return std::string("--") + name; }
  std::string key() const;  // "key_value_heads"
};

std::span<const FamilyChoice> family_choices();
// Returns what is not the default in a model, each with its text.
std::vector<std::pair<const FamilyChoice*, std::string>> chosen(const ModelConfig& model);

}  // namespace ladder
