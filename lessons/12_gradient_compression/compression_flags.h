// The flags that say how gradients are compressed.
#pragma once

#include <optional>
#include <string>

#include "common/train/trainer/flag_value.h"
#include "kernels/codec.h"

namespace ladder {

struct CompressionFlags {
  std::string compression = "none";
  bool error_feedback = false;
  std::optional<size_t> block_size = {};  // elements; nothing: the codec's own default
  bool stochastic_rounding = false;
  std::optional<size_t> powersgd_rank = {};  // nothing: 4

  bool is_powersgd() const { return compression == "powersgd"; }
  bool is_none() const { return compression == "none"; }
  size_t rank() const { return powersgd_rank.value_or(4); }

  void add_to(FlagTable& flags);
  // Throws UserError if the flags do not go together.
  void check() const;
  // REQUIRES: the compression is that of a codec.
  Codec codec() const;
};

}  // namespace ladder
