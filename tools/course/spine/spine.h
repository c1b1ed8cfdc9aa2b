// One model on one cluster in every lesson: does it fit, what is sent, and how fast does it train?
#pragma once

#include <string>
#include <vector>

namespace ladder {

// What a lesson makes of the model: the memory and the messages that the lessons' own programs
// predict, and the time of a step that they take on the virtual device.
struct SpineLine {
  std::string lesson;        // "04_zero2", the folder of its page
  std::string why;           // why it is so, or what is timed instead of a step
  std::string command = {};  // the program and its flags, without spine_flags(); "": no step
  size_t memory = 0;         // bytes of tensors on the card that has most
  bool fits = true;          // if not, nothing of the following is known
  double sent = 0;           // bytes that a card sends in a step, the mean of all cards
  double seconds = 0;        // of a step
  double tokens_a_day = 0;   // of all cards
};

// Returns a line for each lesson, in order. The first call takes ten seconds.
const std::vector<SpineLine>& spine_lines();

// Returns what all lessons are asked, in words; the same as flags of the commands; and the bytes
// that a card has for tensors.
std::string spine_question();
std::string spine_flags();
size_t spine_card_memory();

// Returns the lines as a table in Markdown.
std::string spine_table(const std::vector<SpineLine>& lines);

// Draws the lines in which a model is trained: its memory, and the tokens of a day.
std::string draw_spine(const std::vector<SpineLine>& lines);

// A file of the course.
struct SpineFile {
  std::string path;  // from the root
  std::string text;
};

// Returns all files that show lines, as they have to be: the end of each lesson's page, the end of
// notes/lessons.md, and the picture.
std::vector<SpineFile> spine_files(const std::string& root, const std::vector<SpineLine>& lines);

}  // namespace ladder
