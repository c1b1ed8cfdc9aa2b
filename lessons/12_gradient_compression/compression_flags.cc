#include "lessons/12_gradient_compression/compression_flags.h"

#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Accepts a size of blocks that codecs can have.
CLI::Validator whole_words() {
  return CLI::Validator(
      [](std::string& text) {
        const std::string fault = whole(Codec::kBlockMultiple, Codec::kMostBlock)(text);
        const bool fits = fault.empty() && std::stoull(text) % Codec::kBlockMultiple == 0;
        return fits ? std::string()
                    : concat("'", text, "' is not a multiple of ", Codec::kBlockMultiple, " from ",
                             Codec::kBlockMultiple, " to ", Codec::kMostBlock);
      },
      "");
}

}  // namespace

void CompressionFlags::add_to(FlagTable& flags) {
  flags.heading("Compression");
  flags.add(
      "--compression", compression,
      "Of gradients between ranks: none, fp16, bf16, fp8-e4m3, fp8-e5m2, int8, 1bit, "
      "powersgd [none]",
      CLI::IsMember({"none", "fp16", "bf16", "fp8-e4m3", "fp8-e5m2", "int8", "1bit", "powersgd"})
          .description(""));
  flags.add("--error-feedback", error_feedback,
            "Keep what compression leaves out, and send it with the next step; powersgd always "
            "does");
  flags.add("--block-size", block_size,
            "Elements that share a scale, a multiple of 32; for 8 bits and 1 bit [256]",
            whole_words());
  flags.add("--stochastic-rounding", stochastic_rounding,
            "Round up or down by chance, right on average; for 8 bits");
  flags.add("--powersgd-rank", powersgd_rank,
            "Columns of the thin matrices that powersgd sends [4]", whole(1, 1024));
}

Codec CompressionFlags::codec() const {
  Codec codec;
  codec.block_size = block_size.value_or(codec.block_size);
  for (size_t i = 0; i < kNumFormats; ++i) {
    codec.format = static_cast<Format>(i);
    if (name_of(codec.format) == compression) return codec;
  }
  fail(concat("CompressionFlags::codec: ", compression, " is no codec"));
}

void CompressionFlags::check() const {
  const auto refuse = [this](const char* flag, const char* why) {
    throw UserError(concat(flag, " with --compression ", compression, ": ", why));
  };
  const bool is_codec = !is_none() && !is_powersgd();
  if (error_feedback && is_none()) refuse("--error-feedback", "there is no error; leave it out");
  if (block_size && (!is_codec || !has_scale(codec().format))) {
    refuse("--block-size", "it has no scales; take int8, fp8-e4m3, fp8-e5m2 or 1bit");
  }
  if (stochastic_rounding && (!is_codec || bits_of(codec().format) != 8)) {
    refuse("--stochastic-rounding", "only int8, fp8-e4m3 and fp8-e5m2 can be rounded by chance");
  }
  if (powersgd_rank && !is_powersgd()) refuse("--powersgd-rank", "take powersgd, or leave it out");
}

}  // namespace ladder
