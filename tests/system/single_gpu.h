// Lesson 01's program and the files that it reads and writes, for the tests of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/programs/process.h"

namespace ladder {

using Flags = std::vector<std::string>;

// Path of a program of this tree, "lessons/01_single_gpu/01_single_gpu", among the test's data.
std::string program_path(const std::string& path_from_root);

// "02_ddp": the program of that lesson.
std::string lesson_path(const std::string& lesson);

// Runs lesson 01 in `folder`, with relative paths being relative to it.
ProcessResult run_single_gpu(const Flags& flags, const ProcessOptions& options = {});

// a followed by b.
Flags operator+(Flags a, const Flags& b);

// Fails the test unless the program ended with status 2 and one line "error: ..." that contains all
// `mentions`.
void check_user_error(const ProcessResult& result, const std::vector<std::string>& mentions);

// Fails the test unless tools/compare finds two dumps in options.folder equal to `tolerance`.
void check_equal_dumps(const std::string& a, const std::string& b, const std::string& tolerance,
                       const ProcessOptions& options);

// The size of a model, and the flags for it.
struct ModelSize {
  size_t layers, heads, hidden, sequence_length, vocab = 256;

  Flags flags() const;
};
inline constexpr ModelSize kNano = {.layers = 2, .heads = 2, .hidden = 32, .sequence_length = 32};
// The smallest that has all tensors.
inline constexpr ModelSize kSmallest = {.layers = 1, .heads = 2, .hidden = 8, .sequence_length = 8};

// Every parameter of GPT-2 by its published name.
std::map<std::string, std::vector<size_t>> gpt2_shapes(const ModelSize& size);

// FLOP that training takes for a token: 6 N + 12 L C T, N = all parameters but positions.
double flops_per_token(const ModelSize& size);

// A safetensors file, read and written independently of the code under test.
struct Safetensors {
  nlohmann::ordered_json header;  // {"name": {"dtype": ..., "shape": ..., "data_offsets": ...}}
  std::string data;

  static Safetensors parse(const std::string& file);
  std::string text() const;
  // Appends a tensor of zeros.
  void add(const std::string& name, const std::vector<size_t>& shape,
           const std::string& dtype = "F32");
  std::string bytes_of(const std::string& name) const;
  // The first element of an F64 tensor.
  double number(const std::string& name) const;
};

// A file for --init: all weights zero, so that every token is equally likely.
Safetensors zero_weights(const ModelSize& size);

// A token shard in llm.c's format: 256 int32 of header, then uint16 tokens.
std::string token_shard(const std::vector<uint16_t>& tokens, int32_t magic = 20240520,
                        int32_t version = 1);

}  // namespace ladder
