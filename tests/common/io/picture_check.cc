#include "tests/common/io/picture_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <regex>

#include "common/io/svg.h"
#include "kernels/runtime/check.h"

namespace ladder::testing {
namespace {

constexpr double kMostWidth = 720, kLeastText = 12, kLeastContrast = 4.5;

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
};
struct Line {
  double x1, y1, x2, y2;
};
using Rgb = std::array<double, 3>;  // 0 to 1

// What is filled, in the order in which it is drawn.
struct Shape {
  Box box;                                        // around it
  std::vector<std::pair<double, double>> points;  // empty: it is a rectangle
  std::string name;                               // of its colour
  double opacity = 1;
  std::string where;  // for findings
};
struct Text {
  Box box;
  std::string text, name;   // of its colour: "" is that of the page
  size_t shapes_below = 0;  // so many shapes were drawn before
  int size = 0;
};
struct Picture {
  double width = 0, height = 0;
  std::vector<Shape> shapes;
  std::vector<Text> texts;
  std::vector<Line> lines;    // with the arrows' shafts
  std::vector<Line> borders;  // of frames and curves: text may not stand on them
  std::map<std::string, std::array<Rgb, 2>>
      fills;  // by class or element, on a light and a dark page
};

using Attributes = std::map<std::string, std::string>;
Attributes attributes_of(const std::string& element) {
  static const std::regex kAttribute(R"re(([a-zA-Z0-9-]+)="([^"]*)")re");
  Attributes attributes;
  for (std::sregex_iterator at(element.begin(), element.end(), kAttribute), end; at != end; ++at) {
    attributes[(*at)[1]] = (*at)[2];
  }
  return attributes;
}
double number_of(const Attributes& attributes, const std::string& name) {
  const auto found = attributes.find(name);
  return found == attributes.end() ? 0 : std::stod(found->second);
}

std::string unescaped(std::string text) {
  for (const auto& [code, sign] : {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}}) {
    text = std::regex_replace(text, std::regex(code), sign);
  }
  return text;
}

Rgb rgb_of(const std::string& text) {
  Rgb rgb;
  const size_t digits = text.size() / 3;  // "#rgb" or "#rrggbb"
  for (size_t i = 0; i < 3; ++i) {
    const std::string part = text.substr(1 + i * digits, digits);
    rgb[i] = std::stoi(digits == 1 ? part + part : part, nullptr, 16) / 255.0;
  }
  return rgb;
}

void read_fills(Picture& picture, const std::string& style) {
  static const std::regex kFill(R"(([a-z0-9_.]+)\{[^}]*?fill:(#[0-9a-f]+))");
  const size_t dark = style.find("@media");
  for (std::sregex_iterator at(style.begin(), style.end(), kFill), end; at != end; ++at) {
    const std::string name = std::regex_replace((*at)[1].str(), std::regex("^(text)?\\."), "");
    const Rgb rgb = rgb_of((*at)[2]);
    const bool is_dark = static_cast<size_t>(at->position()) > dark;
    if (!is_dark) picture.fills[name] = {rgb, rgb};
    if (is_dark) picture.fills[name][1] = rgb;
  }
}

std::vector<std::pair<double, double>> points_of(const std::string& text) {
  static const std::regex kPoint(R"((-?[0-9.]+),(-?[0-9.]+))");
  std::vector<std::pair<double, double>> points;
  for (std::sregex_iterator at(text.begin(), text.end(), kPoint), end; at != end; ++at) {
    points.emplace_back(std::stod((*at)[1]), std::stod((*at)[2]));
  }
  return points;
}

void read_rect(Picture& picture, const Attributes& a) {
  const double x = number_of(a, "x"), y = number_of(a, "y");
  const Box box = {x, y, x + number_of(a, "width"), y + number_of(a, "height")};
  const std::string& name = a.at("class");
  const std::string where = concat(name, " at (", x, ", ", y, ")");
  if (name.ends_with(" edge")) {
    for (const Line& line : {Line{box.left, box.top, box.right, box.top},
                             {box.left, box.bottom, box.right, box.bottom},
                             {box.left, box.top, box.left, box.bottom},
                             {box.right, box.top, box.right, box.bottom}}) {
      picture.borders.push_back(line);
    }
    return;
  }
  picture.shapes.push_back(
      {box, {}, name, a.contains("fill-opacity") ? number_of(a, "fill-opacity") : 1, where});
}

// Of a curve, or of what is filled; an arrow's head has no opacity.
void read_points(Picture& picture, const Attributes& a, bool is_filled) {
  const auto points = points_of(a.at("points"));
  for (size_t i = 1; !is_filled && i < points.size(); ++i) {
    picture.borders.push_back(
        {points[i - 1].first, points[i - 1].second, points[i].first, points[i].second});
  }
  if (!is_filled || !a.contains("fill-opacity")) return;
  picture.shapes.push_back({{}, points, a.at("class"), number_of(a, "fill-opacity"), ""});
}

void read_text(Picture& picture, const Attributes& a, const std::string& written) {
  Text text = {.box = {},
               .text = unescaped(written),
               .name = a.contains("class") ? a.at("class") : "text",
               .shapes_below = picture.shapes.size(),
               .size = static_cast<int>(number_of(a, "font-size"))};
  const double width = text_width(text.text, text.size, a.contains("font-weight"));
  const std::string& anchor = a.at("text-anchor");
  const double left = number_of(a, "x") - (anchor == "middle" ? width / 2
                                           : anchor == "end"  ? width
                                                              : 0);
  // From the top of an 'h' to the bottom of a 'p'.
  const double y = number_of(a, "y"), ascent = 0.76 * text.size, descent = 0.21 * text.size;
  text.box = {left, y - ascent, left + width, y + descent};
  picture.texts.push_back(text);
}

Picture read_picture(const std::string& svg) {
  static const std::regex kElement(
      R"re(<(svg|style|rect|line|polyline|polygon|text)\b([^>]*)>([^<]*))re");
  Picture picture;
  for (std::sregex_iterator at(svg.begin(), svg.end(), kElement), end; at != end; ++at) {
    const std::string kind = (*at)[1];
    const Attributes a = attributes_of((*at)[2]);
    if (kind == "svg") {
      picture.width = number_of(a, "width");
      picture.height = std::stod(a.at("viewBox").substr(a.at("viewBox").rfind(' ')));
    } else if (kind == "style") {
      read_fills(picture, (*at)[3]);
    } else if (kind == "rect") {
      read_rect(picture, a);
    } else if (kind == "text") {
      read_text(picture, a, (*at)[3]);
    } else if (kind == "line") {
      picture.lines.push_back(
          {number_of(a, "x1"), number_of(a, "y1"), number_of(a, "x2"), number_of(a, "y2")});
    } else {
      read_points(picture, a, kind == "polygon");
    }
  }
  return picture;
}

// The length that two ranges share; negative: the gap between them.
double shared(double from, double to, double other_from, double other_to) {
  return std::min(to, other_to) - std::max(from, other_from);
}
double overlap_of(const Box& a, const Box& b) {
  return std::min(shared(a.left, a.right, b.left, b.right),
                  shared(a.top, a.bottom, b.top, b.bottom));
}
bool is_within(const Box& inner, const Box& outer) {
  constexpr double kSlack = 0.6;
  return inner.left >= outer.left - kSlack && inner.right <= outer.right + kSlack &&
         inner.top >= outer.top - kSlack && inner.bottom <= outer.bottom + kSlack;
}
bool has_point(const Box& box, double x, double y) {
  return box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
}
bool has_point(const Shape& shape, double x, double y) {
  if (shape.points.empty()) return has_point(shape.box, x, y);
  bool inside = false;
  for (size_t i = 0; i < shape.points.size(); ++i) {
    const auto [x1, y1] = shape.points[i];
    const auto [x2, y2] = shape.points[(i + 1) % shape.points.size()];
    if ((y1 > y) != (y2 > y) && x < x1 + (x2 - x1) * (y - y1) / (y2 - y1)) inside = !inside;
  }
  return inside;
}

// The length of the part of the line that is deeper than `depth` inside the box.
double length_inside(const Line& line, const Box& box, double depth) {
  double from = 0, to = 1;  // of the line
  const auto clip = [&](double start, double change, double least, double most) {
    if (change == 0) {
      if (start <= least || start >= most) to = -1;
      return;
    }
    const double a = (least - start) / change, b = (most - start) / change;
    from = std::max(from, std::min(a, b));
    to = std::min(to, std::max(a, b));
  };
  clip(line.x1, line.x2 - line.x1, box.left + depth, box.right - depth);
  clip(line.y1, line.y2 - line.y1, box.top + depth, box.bottom - depth);
  return to <= from ? 0 : (to - from) * std::hypot(line.x2 - line.x1, line.y2 - line.y1);
}

double luminance(const Rgb& rgb) {
  const auto linear = [](double part) {
    return part <= 0.03928 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(rgb[0]) + 0.7152 * linear(rgb[1]) + 0.0722 * linear(rgb[2]);
}

double contrast_of(const Picture& picture, const Text& text, size_t page) {
  const double x = (text.box.left + text.box.right) / 2, y = (text.box.top + text.box.bottom) / 2;
  Rgb below = {};
  for (size_t i = 0; i < text.shapes_below; ++i) {
    const Shape& shape = picture.shapes[i];
    if (!has_point(shape, x, y)) continue;
    const Rgb& fill = picture.fills.at(shape.name)[page];
    for (size_t k = 0; k < 3; ++k) below[k] += shape.opacity * (fill[k] - below[k]);
  }
  const double a = luminance(below), b = luminance(picture.fills.at(text.name)[page]);
  return (std::max(a, b) + 0.05) / (std::min(a, b) + 0.05);
}

using Findings = std::vector<std::string>;

void check_boxes(const Picture& picture, const Text& text, Findings& findings) {
  const double x = (text.box.left + text.box.right) / 2, y = (text.box.top + text.box.bottom) / 2;
  for (size_t i = 1; i < picture.shapes.size(); ++i) {  // 0 is the page
    const Shape& shape = picture.shapes[i];
    if (!shape.points.empty()) continue;
    if (has_point(shape, x, y) ? !is_within(text.box, shape.box)
                               : overlap_of(text.box, shape.box) > 1) {
      findings.push_back(
          concat("'", text.text, "' is beyond its box, or in another: ", shape.where));
    }
    if (i >= text.shapes_below && overlap_of(text.box, shape.box) > 0) {
      findings.push_back(concat("'", text.text, "' is covered by ", shape.where));
    }
  }
}

void check_texts(const Picture& picture, Findings& findings) {
  const Box page = {0, 0, picture.width, picture.height};
  for (size_t i = 0; i < picture.texts.size(); ++i) {
    const Text& text = picture.texts[i];
    const std::string quoted = concat("'", text.text, "'");
    if (!is_within(text.box, page)) findings.push_back(quoted + " is beyond the page");
    if (text.size < kLeastText) findings.push_back(concat(quoted, " has ", text.size, " pixels"));
    check_boxes(picture, text, findings);
    for (size_t k = 0; k < i; ++k) {
      if (overlap_of(text.box, picture.texts[k].box) < 1) continue;
      findings.push_back(concat(quoted, " is over '", picture.texts[k].text, "'"));
    }
    for (const std::vector<Line>& lines : {picture.lines, picture.borders}) {
      for (const Line& line : lines) {
        if (length_inside(line, text.box, 1) < 1) continue;
        findings.push_back(
            concat(quoted, " is crossed by a line at (", line.x1, ", ", line.y1, ")"));
      }
    }
    for (size_t dark = 0; dark < 2; ++dark) {
      const double contrast = contrast_of(picture, text, dark);
      if (contrast >= kLeastContrast) continue;
      findings.push_back(concat(quoted, " has a contrast of ", contrast, dark ? " in dark" : ""));
    }
  }
}

void check_lines(const Picture& picture, Findings& findings) {
  constexpr double kLeastBox = 10;  // points of a chart are smaller
  for (const Line& line : picture.lines) {
    for (size_t i = 1; i < picture.shapes.size(); ++i) {
      const auto& [box, points, name, opacity, where] = picture.shapes[i];
      if (!points.empty() || std::min(box.right - box.left, box.bottom - box.top) < kLeastBox) {
        continue;
      }
      const bool is_inside = has_point(box, line.x1, line.y1) && has_point(box, line.x2, line.y2);
      if (is_inside || length_inside(line, box, 1) < 2) continue;
      findings.push_back(concat("a line from (", line.x1, ", ", line.y1, ") to (", line.x2, ", ",
                                line.y2, ") goes into ", where));
    }
  }
}

}  // namespace

std::vector<std::string> picture_findings(const std::string& svg) {
  const Picture picture = read_picture(svg);
  Findings findings;
  if (picture.width > kMostWidth) findings.push_back(concat("it is ", picture.width, " wide"));
  check_texts(picture, findings);
  check_lines(picture, findings);
  return findings;
}

}  // namespace ladder::testing
