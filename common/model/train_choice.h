// What --train names: the parameters that a run trains. The others are frozen.
#pragma once

#include <string>
#include <vector>

#include "common/model/config.h"

namespace ladder {

inline constexpr const char* kTrainAll = "all";    // the default, but in lesson 18
inline constexpr const char* kTrainLora = "lora";  // goes with ModelConfig::lora
inline constexpr const char* kTrainHead = "head";  // goes with ModelConfig::labels

// Returns the names of what to freeze (ModelConfig::frozen) so that the model trains
//   all      everything: nothing is frozen;
//   bias     the biases of linear layers and norms, of a GPT-2; [BenZaken22 BitFit]
//   last-K   the last K transformer blocks and the final norm. Embeddings are frozen, and with them
//            the classifier, be its weight the token embedding's or, in an untied model, its own;
//   lora     the model's low-rank adapters; [Hu21] REQUIRES: it has them.
//   head     the classification head alone, of a model that has labels. The other choices train a
//            head, too: it has only what it has learned.
// Ignores what the model freezes already. Throws a UserError that begins with "--train"
// if the choice is none of these, K is 0 or more than there are blocks, or the family has no
// biases or the model no head; and what check_lora() throws.
std::vector<std::string> frozen_names(const ModelConfig& model, const std::string& choice);

// Returns the choice that freezes what this model has frozen, such as "last-2"; "" if no choice
// matches.
std::string train_choice(const ModelConfig& model);

// Returns text for a user on what is trained: "--train last-2",
// "--train lora, rank 8, alpha 16 on attn.c_attn", or, if no choice freezes so, "frozen wte, h.0".
std::string train_text(const ModelConfig& model);

}  // namespace ladder
