#include "common/train/report/timeline.h"

#include <cmath>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/io/picture_check.h"
#include "tests/common/io/test_files.h"
#include "tests/tools/course/pictures/svg_text.h"

namespace ladder {
namespace {

using testing::count_text;
using testing::rects_of;

std::string span(int rank, int lane, const std::string& name, double from, double length) {
  return concat(R"({"ph": "X", "pid": )", rank, R"(, "tid": )", 10 * (1 + lane) + rank,
                R"(, "name": ")", name, R"(", "ts": )", from, R"(, "dur": )", length, "}");
}

std::string trace_of(const std::vector<std::string>& events) {
  std::string text = R"({"traceEvents": [{"ph": "M", "pid": 0, "name": "process_name"})";
  // Rows may come in any order; those that compute are drawn first.
  const std::vector<std::string> rows = {"compute", "communication", "communication 2",
                                         "compute 2"};
  for (int rank = 0; rank < 2; ++rank) {
    for (size_t row = 0; row < rows.size(); ++row) {
      text += concat(R"(, {"ph": "M", "name": "thread_name", "pid": )", rank, R"(, "tid": )",
                     10 * (1 + row) + static_cast<size_t>(rank), R"(, "args": {"name": ")",
                     rows[row], R"("}})");
    }
  }
  for (const std::string& event : events) text += ", " + event;
  return text + "]}";
}

// Two steps of a model of one unit. In the second one rank 1 begins 100 us later.
const std::string kTrace = trace_of({
    span(0, 0, "h.0 forward", 0, 50),
    span(0, 0, "h.0 update", 60, 10),
    span(0, 0, "h.1 update", 70, 10),  // the first step ends at 80
    span(0, 1, "parameter all_gather", 80, 20),
    span(0, 0, "h.0 forward", 100, 200),
    span(0, 0, "h.0 backward", 300, 400),
    span(0, 1, "gradient all_reduce", 500, 300),
    span(0, 2, "control all_reduce", 800, 10),
    span(0, 0, "h.0 update", 900, 40),
    span(0, 0, "h.1 update", 940, 40),
    span(0, 1, "gradient all_reduce", 980, 5),
    span(1, 0, "h.0 forward", 0, 50),
    span(1, 0, "h.0 update", 60, 10),
    span(1, 0, "h.0 forward", 200, 200),
    span(1, 0, "h.0 update", 980, 100),
});

TEST_CASE("a step is what lies between two updates, on one scale for all ranks") {
  const std::string svg = timeline(kTrace, 2);
  // From 80 to 1080 us on 860 pixels, beginning at 180.
  CHECK(count_text(svg, "Step 2 on 2 ranks: 1 ms") == 1);
  // The last one of each colour is the legend's.
  CHECK(rects_of(svg, "forward").size() == 3);
  CHECK(rects_of(svg, "forward")[0] == "197.2 52 172 22");
  CHECK(rects_of(svg, "forward")[1] == "283.2 114 172 22");  // two rows below and a gap
  CHECK(rects_of(svg, "backward")[0] == "369.2 52 344 22");
  CHECK(rects_of(svg, "optimizer").size() == 4);
  // Communication that begins after the last update belongs to the next step.
  CHECK(rects_of(svg, "communication").size() == 2);
  CHECK(rects_of(svg, "communication")[0] == "541.2 78 258 22");
  CHECK(rects_of(svg, "parameters")[0] == "180 78 17.2 22");
  // Rank 1 does not communicate, and control messages have no row.
  CHECK(rects_of(svg, "idle").size() == 3);
  CHECK(count_text(svg, "communicates") == 1);
  // It is wider than the course's own pictures, because a run may have many units.
  CHECK(testing::picture_findings(svg) == std::vector<std::string>{"it is 1080 wide"});
  // The name of the unit where it fits.
  CHECK(count_text(svg, "h.0") == 5);
  CHECK(count_text(svg, "h.1") == 1);
}

TEST_CASE("the first step begins with the trace") {
  const std::string svg = timeline(kTrace, 1);
  CHECK(count_text(svg, "Step 1 on 2 ranks: 0.08 ms") == 1);
  CHECK(rects_of(svg, "parameters").empty());
}

TEST_CASE("0 stands for the last step") { CHECK(timeline(kTrace, 0) == timeline(kTrace, 2)); }

TEST_CASE("a simulated run lists the kernels of each unit, too: they are not drawn") {
  const std::string with_kernels = trace_of({
      span(0, 0, "h.0 forward", 0, 50),
      span(0, 0, "layernorm_forward", 0, 10),
      span(0, 0, "matmul", 10, 40),
      span(0, 0, "fill", 50, 5),
      span(0, 0, "h.0 update", 60, 10),
      span(0, 0, "adamw", 60, 10),
  });
  const std::string svg = timeline(with_kernels, 1);
  CHECK(rects_of(svg, "forward").size() == 2);
  CHECK(rects_of(svg, "optimizer").size() == 2);
  CHECK(rects_of(svg, "workspace").size() == 2);  // what is of no unit: fill
}

TEST_CASE("every row has a name, and those without a span are not drawn") {
  const std::string svg = timeline(trace_of({
                                       span(0, 0, "h.0 forward", 0, 50),
                                       span(0, 3, "adamw", 20, 50),
                                       span(0, 1, "tensor all_reduce", 0, 20),
                                       span(0, 2, "data all_reduce", 10, 20),
                                       span(0, 0, "h.0 update", 60, 10),
                                       span(1, 0, "h.0 update", 60, 10),
                                       span(1, 2, "data all_reduce", 10, 20),
                                   }),
                                   1);
  std::vector<std::string> labels;
  const std::regex text(R"re(<text x="10" y="([0-9]+)"[^>]*>([^<]*)<)re");
  for (std::sregex_iterator at(svg.begin(), svg.end(), text), end; at != end; ++at) {
    labels.push_back((*at)[1].str() + " " + (*at)[2].str());
  }
  CHECK(labels == std::vector<std::string>{"24 Step 1 on 2 ranks: 0.07 ms", "67 rank 0 computes",
                                           "93 computes 2", "119 communicates",
                                           "145 communicates 2", "181 rank 1 computes",
                                           "207 communicates 2"});
  // Spans lie in the rows that their labels name.
  CHECK(rects_of(svg, "tensor_group")[0].find(" 104 ") != std::string::npos);
  CHECK(rects_of(svg, "data_group")[0].find(" 130 ") != std::string::npos);
  CHECK(rects_of(svg, "data_group")[1].find(" 192 ") != std::string::npos);
}

// Many spans that are shorter than a pixel, between and below long ones.
TEST_CASE("no span is hidden by a border, be it as short as it may") {
  std::vector<std::string> events = {
      span(0, 0, "h.0 forward", 0, 10'000), span(0, 0, "wpe forward", 10'000, 1),
      span(0, 0, "h.1 forward", 10'001, 9'999), span(0, 0, "h.0 update", 30'000, 10'000)};
  for (int i = 0; i < 1000; ++i) events.push_back(span(0, 1, "tensor all_reduce", 30.0 * i, 10));
  const std::string svg = timeline(trace_of(events), 1);
  std::istringstream lines(svg);
  size_t num_short = 0;
  bool is_after_long = true;  // only short ones follow
  for (std::string line; std::getline(lines, line);) {
    const auto rects = rects_of(line, "(?:forward|optimizer|tensor_group)");
    if (rects.empty()) continue;
    const double width = std::stod(rects[0].substr(rects[0].find(' ', rects[0].find(' ') + 1)));
    CAPTURE(line);
    CHECK(width >= 1);
    // A border of a pixel covers half of one on either side.
    const bool has_border = line.find("stroke:none") == std::string::npos;
    CHECK((!has_border || width >= 3));
    num_short += !has_border;
    is_after_long = is_after_long && (num_short == 0 || !has_border);
  }
  CHECK(num_short == 1001);
  CHECK_THAT(svg, ContainsSubstring("<title>wpe forward: 1 us</title>") &&
                      ContainsSubstring("<title>tensor all_reduce: 0.01 ms</title>"));
  CHECK(is_after_long);
}

// "#rrggbb" of each class, in a light and in a dark page.
std::map<std::string, std::vector<int>> colours_of(const std::string& svg) {
  std::map<std::string, std::vector<int>> colours;
  const std::regex fill(R"(\.([a-z_]+)\{fill:#([0-9a-f]{6});)");
  for (std::sregex_iterator at(svg.begin(), svg.end(), fill), end; at != end; ++at) {
    for (size_t i = 0; i < 6; i += 2) {
      colours[(*at)[1]].push_back(std::stoi((*at)[2].str().substr(i, 2), nullptr, 16));
    }
  }
  return colours;
}

TEST_CASE("every kind of work and communication has a colour of its own, in light and dark") {
  std::vector<std::string> events;
  double time = 0;
  const auto add = [&](int lane, const std::string& name) {
    events.push_back(span(0, lane, name, time, 10));
    time += 10;
  };
  for (const char* name : {"h.0 forward", "wte classifier", "h.0 recompute", "h.0 backward",
                           "h.0 backward_input", "h.0 backward_weight", "fill"}) {
    add(0, name);
  }
  // Of real runs, then of simulated ones.
  for (const char* name :
       {"gradient all_reduce", "data gradient reduce_scatter", "embedding gradient all_reduce",
        "parameter all_gather", "data parameter all_gather", "tensor activation all_reduce",
        "pipeline activation send", "context activation send", "expert activation all_to_all",
        "all_reduce", "tensor all_gather", "pipeline send", "data all_reduce", "context send",
        "embedding all_reduce", "copy"}) {
    add(1, name);
  }
  add(0, "h.0 update");
  const std::string svg = timeline(trace_of(events), 1);
  // A square of the legend, and its name.
  const std::regex entry(
      R"re(<rect class="([a-z_]+)"[^>]*width="12" height="12"/>\n<text[^>]*>([^<]*)<)re");
  std::map<std::string, std::string> names;
  for (std::sregex_iterator at(svg.begin(), svg.end(), entry), end; at != end; ++at) {
    CAPTURE((*at)[2].str());
    CHECK(names.emplace((*at)[1], (*at)[2]).second);
  }
  CHECK(names.size() == 14);
  names["idle"] = "";
  const auto colours = colours_of(svg);
  for (const auto& [a, name] : names) {
    for (const auto& [b, other] : names) {
      if (a >= b) continue;
      CAPTURE(a, b);
      for (size_t page : {0, 3}) {
        double distance = 0;
        for (size_t i = page; i < page + 3; ++i) {
          distance += std::pow(colours.at(a).at(i) - colours.at(b).at(i), 2);
        }
        CHECK(std::sqrt(distance) >= 40);
      }
    }
  }
}

TEST_CASE("a message about a file names it") {
  const TestFolder folder;
  const std::string path = folder / "trace.json";
  std::ofstream(path) << kTrace;
  CHECK(timeline_of_file(path, 2) == timeline(kTrace, 2));
  CHECK_THROWS_WITH(timeline_of_file(path, 3),
                    ContainsSubstring(path) && ContainsSubstring("no step 3"));
}

TEST_CASE("what is no step is an error that says why") {
  CHECK_THROWS_WITH(timeline(kTrace, 3),
                    ContainsSubstring("no step 3") && ContainsSubstring("2 steps of rank 0"));
  CHECK_THROWS_WITH(timeline_of_file("/no/such/trace.json", 1),
                    ContainsSubstring("/no/such/trace.json"));
  CHECK_THROWS_WITH(timeline("step 1", 1), ContainsSubstring("no trace of a run"));
  CHECK_THROWS_WITH(timeline("{}", 1), ContainsSubstring("no trace of a run"));
  CHECK_THROWS_WITH(timeline(trace_of({}), 1), ContainsSubstring("no spans"));
  CHECK_THROWS_WITH(timeline(trace_of({span(0, 9, "h.0 forward", 0, 1)}), 1),
                    ContainsSubstring("a thread has no name"));
  CHECK_THROWS_WITH(timeline(trace_of({span(0, 0, "h.0 forward", 0, 1)}), 1),
                    ContainsSubstring("no step 1") && ContainsSubstring("0 steps"));
}

}  // namespace
}  // namespace ladder
