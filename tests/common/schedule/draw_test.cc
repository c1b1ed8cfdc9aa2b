// The pictures of a schedule, sign by sign, and its list for other programs.
#include "common/schedule/draw.h"

#include "common/schedule/build.h"
#include "common/schedule/csv.h"
#include "tests/catch.h"
#include "tests/common/io/picture_check.h"
#include "tests/common/schedule/lines.h"

namespace ladder {
namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("a row a stage, forward and backward told apart, idle time visible") {
  const Schedule schedule = good_schedule();
  CHECK(draw_text(schedule, simulate(schedule, uniform_costs(1, 2))) ==
        "stage 0 |0 1 2 ........[0 ]3 [1 ]..[2 ]..[3 ]| idle 33 %\n"
        "stage 1 |..0 1 ....[0 ]2 [1 ]3 [2 ]..[3 ]....| idle 33 %\n"
        "stage 2 |....0 [0 ]1 [1 ]2 [2 ]3 [3 ]........| idle 33 %\n"
        "n forward, [n] backward, . idle; bubble 33.3 %\n");
}

TEST_CASE("the unit of time and its origin are moot") {
  const Schedule schedule = good_schedule();
  Timeline timeline = simulate(schedule, uniform_costs(0.001, 0.002));
  const std::string text = draw_text(schedule, timeline);
  for (auto& stage : timeline) {
    for (Span& span : stage) span = {1e3 * span.begin + 50, 1e3 * span.end + 50};
  }
  CHECK(draw_text(schedule, timeline) == text);
}

TEST_CASE("numbers have the room that the longest one needs") {
  const auto draw = [](size_t m) {
    std::string forwards, backwards;
    for (size_t k = 0; k < m; ++k) {
      forwards += concat("F", k, " ");
      backwards += concat("B", k, " ");
    }
    const Schedule schedule = schedule_of({forwards + backwards, forwards + backwards});
    return draw_text(schedule, simulate(schedule, uniform_costs(1, 1)));
  };
  CHECK_THAT(draw(10), ContainsSubstring("|0  1  2  ") && ContainsSubstring("8  9  ...") &&
                           ContainsSubstring("[8][9]|"));
  CHECK_THAT(draw(11), ContainsSubstring("|0   1   ") && ContainsSubstring("9   10  ....") &&
                           ContainsSubstring("[9 ][10]|"));
  CHECK_THAT(draw(32), ContainsSubstring("|0   1   ") && ContainsSubstring("30  31  ....") &&
                           ContainsSubstring("[30][31]|"));
}

TEST_CASE("boxes too short for their number are marked, and the row does not grow without bound") {
  const Schedule schedule = schedule_of({"F0 F1 B0 B1", "F0 B0 F1 B1"});
  const auto costs = [](size_t stage, const Action& action) {
    if (!is_work(action.kind)) return 0.0;
    return stage == 0 ? 1e-6 : 1.0;
  };
  // Four times the columns that the eight numbers need on average, over the time of two stages.
  CHECK(draw_text(schedule, simulate(schedule, costs)) ==
        concat("stage 0 |", std::string(80, '.'), "| idle 100 %\n",  //
               "stage 1 |0                   [0                 ]",
               "1                   [1                 ]| idle 0 %\n",
               "n forward, [n] backward, . idle; bubble 50.0 %\n"));
  const Schedule alone = schedule_of({"F0 B0 F1 B1"});
  const auto draw = [&](double forward, double backward) {
    return draw_text(alone, simulate(alone, uniform_costs(forward, backward)));
  };
  CHECK_THAT(draw(0.1, 1), ContainsSubstring("|0 [0               ]1 [1               ]|"));
  CHECK_THAT(draw(0.05, 1), ContainsSubstring("|f[0                ]f[1                ]|"));
  CHECK_THAT(draw(1, 0.1), ContainsSubstring("|0                 bb1                 bb|"));
}

TEST_CASE("the SVG has a box for each forward and backward, all stages, and says the bubble") {
  const Schedule schedule = good_schedule();
  const std::string svg = draw_svg("1f1b", schedule, simulate(schedule, uniform_costs(1, 2)));
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK_THAT(svg, ContainsSubstring(">1f1b; stages: 3; micro-batches: 4; bubble: 33.3 %<"));
  CHECK(count_of(svg, "<rect class=\"forward\"") == 12 + 1);  // and one that explains the colour
  CHECK(count_of(svg, "<rect class=\"backward\"") == 12 + 1);
  // Each stage waits for two forwards and two backwards of others.
  CHECK(count_of(svg, "<rect class=\"idle\"") == 3 * (2 + 2) + 1);
  CHECK(count_of(svg, "text-anchor=\"middle\"") == 24);  // numbers
  for (const char* label : {">stage 0<", ">stage 1<", ">stage 2<", ">idle 33 %<"}) {
    CHECK_THAT(svg, ContainsSubstring(label));
  }
  // The last box of stage 0 ends where the row does: x + width = 60 + 588.
  CHECK(count_of(svg, "x=\"582.67\" y=\"44\" width=\"65.33\"") == 1);
  // Stage s holds 3 - s micro-batches at most.
  for (const char* label : {">holds 3<", ">holds 2<", ">holds 1<"})
    CHECK(count_of(svg, label) == 1);
  CHECK(testing::picture_findings(svg) == std::vector<std::string>());
}

// One stage runs one micro-batch through all of its chunks and back.
std::string drawing_of_chunks(size_t num_chunks) {
  Schedule schedule(1);
  for (size_t chunk = 0; chunk < num_chunks; ++chunk) {
    schedule[0].push_back({.kind = ActionKind::forward, .chunk = chunk});
  }
  for (size_t chunk = num_chunks; chunk-- > 0;) {
    schedule[0].push_back({.kind = ActionKind::backward, .chunk = chunk});
  }
  return draw_svg("chunks", schedule, simulate(schedule, uniform_costs(1, 2)));
}

TEST_CASE("of two chunks the second is pale; more have letters; each is a part of what is held") {
  const std::string two = drawing_of_chunks(2), three = drawing_of_chunks(3);
  CHECK(count_of(two, ">0<") == 4);
  CHECK(count_of(two, "fill-opacity=\"0.55\"") == 2);
  CHECK(count_of(two, ">holds 1<") == 1);
  CHECK(count_of(three, ">0a<") == 2);
  CHECK(count_of(three, ">0c<") == 2);
  CHECK(count_of(three, ">holds 1<") == 1);
  CHECK(testing::picture_findings(two) == std::vector<std::string>());
  CHECK(testing::picture_findings(three) == std::vector<std::string>());
}

TEST_CASE(
    "the curve of what is held grows where a forward begins and falls where a backward ends") {
  const Schedule schedule = schedule_of({"F0 F1 B0 B1"});
  const std::string svg = draw_svg("gpipe", schedule, simulate(schedule, uniform_costs(1, 2)));
  // Six units of time are 588 pixels, an eighth of 32 is one micro-batch, and 108 is the bottom.
  CHECK(count_of(svg,
                 "points=\"60,108 60,108 60,104 158,104 158,100 452,100 452,104 648,104 "
                 "648,108\"") == 1);
}

TEST_CASE("the SVG leaves out numbers that do not fit") {
  const Schedule schedule = schedule_of({"F0 F1 B0 B1", "F0 B0 F1 B1"});
  const auto costs = [](size_t stage, const Action& action) {
    if (!is_work(action.kind)) return 0.0;
    return stage == 0 ? 1e-3 : 1.0;
  };
  const std::string svg = draw_svg("uneven", schedule, simulate(schedule, costs));
  CHECK(count_of(svg, "text-anchor=\"middle\"") == 4);
}

TEST_CASE("no box of the SVG is hidden by a border, however many there are") {
  std::string actions;
  for (size_t k = 0; k < 2000; ++k) actions += concat("F", k, " B", k, " ");
  const Schedule schedule = schedule_of({actions});
  const std::string svg = draw_svg("1f1b", schedule, simulate(schedule, uniform_costs(1, 2)));
  CHECK(count_of(svg, "width=\"1\" height=\"28\" style=\"stroke:none\"/>") == 4000);
}

TEST_CASE("as CSV a schedule is its work, each with the virtual stage") {
  using enum ActionKind;
  const ChunkPlacement v = {2, 2, true};
  const auto on = [](ActionKind kind, size_t micro_batch, size_t chunk) {
    return Action{.kind = kind, .micro_batch = micro_batch, .chunk = chunk};
  };
  const Schedule work = {
      {on(forward, 12, 0), on(forward, 12, 1), on(backward_input, 12, 1), on(backward, 12, 0),
       on(backward_weight, 12, 1)},
      {on(forward, 12, 0), on(forward, 12, 1), on(backward, 12, 1), on(backward, 12, 0)}};
  const std::string csv = "0F12,3F12,3I12,0B12,3W12\n1F12,2F12,2B12,1B12\n";
  CHECK(csv_of(work, v) == csv);
  CHECK(csv_of(complete(work, v, true), v) == csv);
}

}  // namespace
}  // namespace ladder
