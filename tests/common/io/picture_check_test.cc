// Each thing that can be wrong with a picture, once.
#include "tests/common/io/picture_check.h"

#include "common/io/svg.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using testing::picture_findings;
using Findings = std::vector<std::string>;

// A box with a name, and a line from it to another one.
Svg good_picture() {
  Svg svg(300, 100);
  svg.rect(Colour::forward, 10, 40, 100, 30);
  CHECK(svg.label(Colour::forward, 10, 40, 100, 30, "forward"));
  svg.rect(Colour::plain, 180, 40, 100, 30);
  svg.arrow(110, 55, 180, 55);
  svg.text(10, 20, "a title");
  return svg;
}

Findings findings_with(const std::function<void(Svg&)>& draw) {
  Svg svg = good_picture();
  draw(svg);
  return picture_findings(svg.str());
}

void check_finding(const std::function<void(Svg&)>& draw, const std::string& mention) {
  const Findings findings = findings_with(draw);
  CAPTURE(mention, findings);
  REQUIRE(findings.size() == 1);
  CHECK_THAT(findings[0], ContainsSubstring(mention));
}

TEST_CASE("a picture in which all is well has no findings") {
  CHECK(findings_with([](Svg&) {}).empty());
  // Text next to boxes, lines along their borders and within them, small points on lines.
  CHECK(findings_with([](Svg& svg) {
          svg.text(114, 50, "next");
          svg.line(10, 70, 110, 70);
          svg.line(190, 60, 270, 60);
          svg.line(10, 90, 290, 90);
          svg.rect(Colour::gradients, 50, 86.5, 7, 7);
        }).empty());
}

TEST_CASE("text beyond the page, its box, or over something else") {
  check_finding([](Svg& svg) { svg.text(250, 90, "too far right"); },
                "'too far right' is beyond the page");
  check_finding([](Svg& svg) { svg.text(10, 98, "y"); }, "'y' is beyond the page");
  const Svg::TextStyle middle = {.anchor = Svg::Anchor::middle};
  check_finding([&](Svg& svg) { svg.text(230, 67, "longer than a box", middle); },
                "'longer than a box' is beyond its box");
  check_finding([&](Svg& svg) { svg.text(120, 66, "too wide", middle); },
                "'too wide' is beyond its box, or in another: forward at (10, 40)");
  check_finding([](Svg& svg) { svg.text(30, 22, "other"); }, "'other' is over 'a title'");
  check_finding([](Svg& svg) { svg.line(0, 90, 300, 90), svg.text(100, 94, "line"); },
                "'line' is crossed by a line at (0, 90)");
  check_finding(
      [](Svg& svg) { svg.frame(Colour::idle, 100, 80, 50, 18), svg.text(90, 94, "frame"); },
      "'frame' is crossed by a line");
  check_finding(
      [](Svg& svg) { svg.text(200, 90, "hidden"), svg.shade(Colour::idle, 1, 190, 75, 80, 20); },
      "'hidden' is covered by idle at (190, 75)");
}

TEST_CASE("lines and arrows through boxes, and into them") {
  check_finding([](Svg& svg) { svg.arrow(20, 25, 20, 90); },
                "a line from (20, 25) to (20, 90) goes into forward at (10, 40)");
  check_finding([](Svg& svg) { svg.line(230, 50, 230, 95); }, "goes into plain at (180, 40)");
}

TEST_CASE("text that is hard to read") {
  // White ink, which stands on orange in light pages only where it is dark enough.
  check_finding(
      [](Svg& svg) {
        svg.rect(Colour::all_ranks, 10, 76, 100, 20);
        svg.text(14, 91, "ink");
      },
      "'ink' has a contrast of");
  check_finding([](Svg& svg) { svg.text(200, 90, "small", {.size = 11}); },
                "'small' has 11 pixels");
  CHECK(picture_findings(Svg(721, 10).str()) == Findings{"it is 721 wide"});
}

TEST_CASE("ink can be read on every colour, in light and dark") {
  for (int i = 0; i <= static_cast<int>(Colour::emphasis); ++i) {
    Svg svg(100, 40);
    svg.rect(static_cast<Colour>(i), 0, 0, 100, 40);
    svg.label(static_cast<Colour>(i), 0, 0, 100, 40, "text");
    CHECK(picture_findings(svg.str()).empty());
  }
}

}  // namespace
}  // namespace ladder
