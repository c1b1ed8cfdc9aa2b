#include "common/train/timeline.h"

#include <fstream>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"
#include "tests/tools/pictures/svg_text.h"

namespace ladder {
namespace {

using testing::count_text;
using testing::rects_of;

std::string span(int rank, int lane, const std::string& name, double from, double length) {
  return concat(R"({"ph": "X", "pid": )", rank, R"(, "tid": )", lane, R"(, "name": ")", name,
                R"(", "ts": )", from, R"(, "dur": )", length, "}");
}

std::string trace_of(const std::vector<std::string>& events) {
  std::string text = R"({"traceEvents": [{"ph": "M", "pid": 0, "name": "process_name"})";
  for (const std::string& event : events) text += ", " + event;
  return text + "]}";
}

// Two steps of a model of one unit. In the second one rank 1 begins 100 us later.
const std::string kTrace = trace_of({
    span(0, 0, "h.0 forward", 0, 50),
    span(0, 0, "h.0 AdamW", 60, 10),
    span(0, 0, "h.1 AdamW", 70, 10),  // the first step ends at 80
    span(0, 1, "parameter all_gather", 80, 20),
    span(0, 0, "h.0 forward", 100, 200),
    span(0, 0, "h.0 backward", 300, 400),
    span(0, 1, "gradient all_reduce", 500, 300),
    span(0, 2, "control all_reduce", 800, 10),
    span(0, 0, "h.0 AdamW", 900, 40),
    span(0, 0, "h.1 AdamW", 940, 40),
    span(0, 1, "gradient all_reduce", 980, 5),
    span(1, 0, "h.0 forward", 0, 50),
    span(1, 0, "h.0 AdamW", 60, 10),
    span(1, 0, "h.0 forward", 200, 200),
    span(1, 0, "h.0 AdamW", 980, 100),
});

TEST_CASE("a step is what lies between two updates, on one scale for all ranks") {
  const std::string svg = timeline(kTrace, 2);
  // From 80 to 1080 us on 860 pixels, beginning at 160.
  CHECK(count_text(svg, "Step 2 on 2 ranks: 1 ms") == 1);
  // The last one of each colour is the legend's.
  CHECK(rects_of(svg, "forward").size() == 3);
  CHECK(rects_of(svg, "forward")[0] == "177.2 52 172 22");
  CHECK(rects_of(svg, "forward")[1] == "263.2 114 172 22");  // two rows below and a gap
  CHECK(rects_of(svg, "backward")[0] == "349.2 52 344 22");
  CHECK(rects_of(svg, "optimizer").size() == 4);
  // Communication that begins after the last update belongs to the next step.
  CHECK(rects_of(svg, "communication").size() == 2);
  CHECK(rects_of(svg, "communication")[0] == "521.2 78 258 22");
  CHECK(rects_of(svg, "parameters")[0] == "160 78 17.2 22");
  // Rank 1 does not communicate, and control messages have no row.
  CHECK(rects_of(svg, "idle").size() == 3);
  CHECK(count_text(svg, "communicates") == 1);
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
      span(0, 0, "h.0 AdamW", 60, 10),
      span(0, 0, "adamw", 60, 10),
  });
  const std::string svg = timeline(with_kernels, 1);
  CHECK(rects_of(svg, "forward").size() == 2);
  CHECK(rects_of(svg, "optimizer").size() == 2);
  CHECK(rects_of(svg, "workspace").size() == 2);  // what is of no unit: fill
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
  CHECK_THROWS_WITH(timeline(trace_of({span(0, 0, "h.0 forward", 0, 1)}), 1),
                    ContainsSubstring("no step 1") && ContainsSubstring("0 steps"));
}

}  // namespace
}  // namespace ladder
