#include "tools/publish/play/exports.h"

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

std::string answer_to(const std::string& request) {
  std::istringstream words(request);
  std::string what;
  words >> what;
  try {
    if (what == "attention") return attention_request(words).text;
    const bool is_collective = what == "exchanges" || what == "words" || what == "costs";
    return (is_collective ? collective_request(what, words) : schedule_request(what, words)).text;
  } catch (const std::runtime_error& error) {
    return json({{"error", json(error.what())}}).text;
  }
}

std::string request, answer;  // what the caller writes and reads

}  // namespace
}  // namespace ladder

// Returns memory for a request of so many bytes.
extern "C" char* play_request(size_t bytes) {
  ladder::request.resize(bytes);
  return ladder::request.data();
}
// Returns the answer to it, which is valid until the next call.
extern "C" const char* play_answer() {
  ladder::answer = ladder::answer_to(ladder::request);
  return ladder::answer.c_str();
}
