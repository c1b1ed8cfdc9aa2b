// Bubbles that a paper computes from the measured times of a stage [Qi23, tables 5 and 6].
#pragma once

#include <array>
#include <string>
#include <vector>

#include "lessons/16_pipeline_schedules/schedules.h"

namespace ladder::bubbles {

// A model on a pipeline whose stages are equal.
struct Row {
  std::string model;
  size_t stages = 1, micro_batches = 1, chunks = 1;     // chunks: of a stage, if interleaved
  double forward = 0, input = 0, weight = 0, send = 0;  // ms of a stage and a micro-batch
  double sequence_length = 0, hidden = 0, heads = 0;
  std::vector<double> published;  // by kColumns

  // The part of a micro-batch's activations that is kept between the halves of backward: the inputs
  // of linear layers, 32 of 34 + 5 a s / h bytes for an element of the hidden size. a heads, s
  // tokens, hidden size h; all scores and their masks are in memory. [Qi23, table 1]
  double kept_for_weights() const { return 32 / (34 + 5 * heads * sequence_length / hidden); }
};

// What a row has a bubble of: a named schedule, or a list found with memory for so many
// micro-batches that all stages have `pipelines` times the number of stages of them.
struct Column {
  const char* title;
  const char* key;  // in the file
  Order order = Order::one_f_one_b;
  size_t pipelines = 0;  // 0: the named schedule
};
inline constexpr std::array kColumns = {
    Column{"1F1B", "bubble_1f1b", Order::one_f_one_b},
    Column{"interleaved", "bubble_interleaved", Order::interleaved},
    Column{"ZB-H1", "bubble_zb_h1", Order::zb_h1},
    Column{"ZB-H2", "bubble_zb_h2", Order::zb_h2},
    Column{"search, memory for p", "bubble_zb_1p", Order::zb_h1, 1},
    Column{"search, memory for 2 p", "bubble_zb_2p", Order::zb_h2, 2},
};

// Reads a file such as tests/published/zero_bubble_golden.json. Throws a UserError of one line that
// names the file, the row and the key if something is missing or is not what it has to be.
std::vector<Row> read_rows(const std::string& path);

struct Simulated {
  double bubble = 0;  // 1 - m (F + B + W) / the longest_stage()
  double time = 0;    // ms until all stages have ended
};
// Simulates the row with Links::eager. A column of a search takes what find_work() finds among its
// rules and the named schedules, without trials.
Simulated simulated(const Row& row, const Column& column);

// Bubbles are published with four digits. Returns a bubble in 1e-4.
long digits(double bubble);

}  // namespace ladder::bubbles
