#include "tools/course/pictures/block_split.h"

#include "tests/catch.h"
#include "tests/common/io/picture_check.h"
#include "tests/tools/course/pictures/svg_text.h"

namespace ladder {
namespace {

using testing::count_text;
using testing::rects_of;

constexpr ModelConfig kModel = {2, 4, 64, 256, 32};

// With two heads of k and v.
ModelConfig llama(size_t num_heads) {
  ModelConfig config = find_preset("nano-llama").config;
  config.num_heads = num_heads;
  config.hidden = 16 * num_heads;
  config.ffn = 256;
  config.key_value_heads = 2;
  return config;
}

// Those of the weights, and those of the activations, which are 48 high, from left to right;
// without the legend's square.
std::vector<std::string> rects_with(const std::string& svg, const std::string& colour,
                                    bool of_activations) {
  std::vector<std::string> rects = rects_of(svg, colour);
  std::erase_if(rects, [&](const std::string& rect) {
    return rect.ends_with(" 12 12") || rect.ends_with(" 48") != of_activations;
  });
  return rects;
}

TEST_CASE("each weight in its shape, with the rank's part where it lies") {
  const std::string svg = block_split(kModel, 1, 2);
  // C is 40 pixels: c_attn (C, 3 C), attn.c_proj (C, C), c_fc (C, 4 C), mlp.c_proj (4 C, C).
  CHECK(rects_with(svg, "idle", false) ==
        std::vector<std::string>{"188 112 120 40", "504 112 40 40", "188 352 160 40",
                                 "544 292 40 160"});
  // The second half of the columns of each of q, k and v; of the rows; of the columns; of the rows.
  CHECK(rects_with(svg, "parameters", false) ==
        std::vector<std::string>{"208 112 20 40", "248 112 20 40", "288 112 20 40", "504 132 40 20",
                                 "268 352 80 40", "544 372 40 80"});
  CHECK(count_text(svg, "2 of 4 heads") == 1);
  // f before both column splits, g after both row splits.
  CHECK(count_text(svg, "f") == 2);
  CHECK(count_text(svg, "g") == 2);
  CHECK(count_text(svg, "rows") == 2);
  CHECK(count_text(svg, "columns") == 1);
  CHECK(count_text(svg, "columns of q, k and v") == 1);
  CHECK(testing::picture_findings(svg).empty());
}

TEST_CASE(
    "activations are split by columns between f and g, and by tokens if those are split, too") {
  // C is 14 pixels. Half of q, k and v, of attention's output, of c_fc's and of GELU's.
  const std::vector<std::string> between = {"325 108 7 48", "339 108 7 48",  "353 108 7 48",
                                            "487 108 7 48", "386 348 28 48", "506 348 28 48"};
  const std::string whole = block_split(kModel, 1, 2);
  std::vector<std::string> found = rects_with(whole, "activations", true);
  // Outside of the two all of it: norms, input, middle, output.
  for (const std::string rect :
       {"128 108 14 48", "128 348 14 48", "20 108 14 48", "670 108 14 48", "670 348 14 48"}) {
    CHECK(std::erase(found, rect) == 1);
  }
  CHECK(found == between);
  const std::string split = block_split(kModel, 1, 2, true);
  CHECK(rects_with(split, "activations", true) == between);
  CHECK(rects_with(split, "activations", false) ==
        std::vector<std::string>{"128 132 14 24", "128 372 14 24", "20 132 14 24", "670 132 14 24",
                                 "670 372 14 24"});
  CHECK(testing::picture_findings(split).empty());
}

TEST_CASE("one rank has everything whole, and nobody to communicate with") {
  const std::string svg = block_split(kModel, 0, 1);
  CHECK(rects_with(svg, "parameters", false) == rects_with(svg, "idle", false));
  CHECK(count_text(svg, "f") == 0);
  CHECK(count_text(svg, "attention") == 1);
  CHECK(rects_of(svg, "emphasis").empty());
  CHECK(testing::picture_findings(svg).empty());
}

TEST_CASE(
    "a block of the Llama family: what differs is marked, weights are drawn by their shapes") {
  const std::string svg = block_split(llama(6), 0, 1);
  // Two norms, rotary positions, shared heads, SwiGLU, and the legend's square.
  CHECK(rects_of(svg, "emphasis").size() == 6);
  CHECK(count_text(svg, "6 heads, 2 of k and v") == 1);
  CHECK(count_text(svg, "self_attn.q_proj, k_proj, v_proj") == 1);
  // q (C, C), k and v (C, C/3) side by side, o (C, C); gate and up (C, 8/3 C), down (8/3 C, C).
  CHECK(count_text(svg, "5/3 C") == 1);
  CHECK(count_text(svg, "16/3 C") == 1);
  CHECK(testing::picture_findings(svg).empty());
}

TEST_CASE("of fewer heads of k and v than ranks, two ranks hold the same one") {
  // Rank 2: the third head of q, and the second of k and of v, which lie turned in memory.
  std::vector<std::string> held = rects_with(block_split(llama(4), 2, 4), "parameters", false);
  held.resize(3);
  CHECK(held == std::vector<std::string>{"230 112 10 40", "260 112 10 40", "280 112 10 40"});
}

}  // namespace
}  // namespace ladder
