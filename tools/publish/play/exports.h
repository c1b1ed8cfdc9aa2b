// What the pages of this folder compute, with the project's own functions: one function, which
// takes a line of words and returns JSON. It is compiled to WebAssembly for the pages, and natively
// for their test.
#pragma once

#include <istream>

#include "tools/publish/play/json.h"

namespace ladder {

// Each returns the answer to a request. Its words come from `words`; all are numbers if nothing
// else is said. F, B, W and `message` are the times of a stage's forward, of the halves of its
// backward for inputs and for weights, and of a message. What cannot be is an Error.
//
// schedule ORDER p m v F B W message
//     a named schedule of lessons 08 and 16, with v model chunks if it is interleaved
// drawing ORDER p m v F B W message duration
//     the same as SVG, as wide as `duration` (0: as the schedule)
// list p m buffers splits F B W message WORK
//     a list by hand: F0, B0 and W0 are the work for micro-batch 0, "/" stands between stages;
//     splits is 1 if backward runs in halves. A stage holds at most `buffers` micro-batches.
// par p m buffers splits F B W message
//     the fastest list that the search of lesson 16 finds
Json schedule_request(const std::string& what, std::istream& words);

// exchanges ALGORITHM COLLECTIVE N done
//     what each rank has when so many rounds are done, and the messages of the last of them
// words ALGORITHM COLLECTIVE N
//     what lesson 00's --show prints
// costs COLLECTIVE N n alpha beta
//     for each algorithm its rounds, bytes and time for a vector of n bytes
Json collective_request(const std::string& what, std::istream& words);

// attention SLICING T N
//     who has which tokens, and what each rank computes in each round
Json attention_request(std::istream& words);

}  // namespace ladder
