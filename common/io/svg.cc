#include "common/io/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

struct Shade {
  const char *name, *light, *dark;
};

// In the order of Colour.
constexpr std::array<Shade, 18> kShades = {{{"parameters", "#4f8fcd", "#2a62ad"},
                                            {"gradients", "#e8964a", "#b46f2e"},
                                            {"optimizer", "#7fb26f", "#56854a"},
                                            {"activations", "#b58cc9", "#8a62a0"},
                                            {"communication", "#d66a6a", "#b04a4a"},
                                            {"workspace", "#a7a7a7", "#777777"},
                                            {"forward", "#8fc1e3", "#4d88b0"},
                                            {"backward", "#f5b26b", "#b87b36"},
                                            {"idle", "#e6e6e6", "#3a3f45"},
                                            {"plain", "#dfe7ef", "#39424d"},
                                            {"classifier", "#d8d13a", "#8f9a2e"},
                                            {"recompute", "#a9754f", "#7a5235"},
                                            {"tensor_group", "#46b5a8", "#2f857b"},
                                            {"pipeline", "#c9418f", "#9c2f70"},
                                            {"data_group", "#3d5a94", "#6a6fd0"},
                                            {"all_ranks", "#9c3d4a", "#7d1f3a"},
                                            {"other", "#5d6670", "#9aa4ae"},
                                            {"emphasis", "#ffe08a", "#7d7330"}}};

// Hundredths of the size, of the characters from ' ' to '~': DejaVu Sans, and the same in bold.
constexpr std::array<uint8_t, 95> kWidths = {
    32, 40, 46, 84, 64, 95, 78, 27, 39,  39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 34, 34, 84, 84, 84, 53, 100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75, 79,
    60, 79, 69, 63, 61, 73, 68, 99, 69,  61, 69, 39, 34, 39, 84, 50, 50, 61, 63, 55, 63, 62, 35, 63,
    63, 28, 28, 58, 28, 97, 63, 61, 63,  63, 41, 52, 39, 63, 59, 82, 59, 59, 52, 64, 34, 64, 84};
constexpr std::array<uint8_t, 95> kBoldWidths = {
    35, 46,  52, 84, 70, 100, 87, 31,  46, 46, 52, 84, 38, 42,  38, 37, 70, 70,  70,
    70, 70,  70, 70, 70, 70,  70, 40,  40, 84, 84, 84, 58, 100, 77, 76, 73, 83,  68,
    68, 82,  84, 37, 37, 77,  64, 100, 84, 85, 73, 85, 77, 72,  68, 81, 77, 110, 77,
    72, 73,  46, 37, 46, 84,  50, 50,  67, 72, 59, 72, 68, 44,  72, 71, 34, 34,  67,
    34, 104, 71, 69, 72, 72,  49, 60,  48, 71, 65, 92, 65, 65,  58, 71, 37, 71,  84};

const Shade& shade_of(Colour colour) { return kShades.at(static_cast<size_t>(colour)); }

// At most two digits after the point, so that pictures do not change with the last bit of a number.
std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  std::string result = text.data();
  result.erase(result.find_last_not_of('0') + 1);
  if (result.back() == '.') result.pop_back();
  return result == "-0" ? "0" : result;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else {
      result += c;
    }
  }
  return result;
}

// The luminance of "#rrggbb", from 0 to 1. [WCAG 2.1]
double luminance(std::string_view colour) {
  double sum = 0;
  const auto digit = [&](size_t at) { return colour[at] - (colour[at] <= '9' ? '0' : 'a' - 10); };
  for (const auto& [at, weight] : {std::pair{1, 0.2126}, {3, 0.7152}, {5, 0.0722}}) {
    const double part = (16 * digit(at) + digit(at + 1)) / 255.0;
    sum += weight * (part <= 0.03928 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4));
  }
  return sum;
}

// Black or white, whichever is easier to read on the colour: one of them has a contrast of 4.5.
const char* ink_on(std::string_view colour) { return luminance(colour) > 0.179 ? "#000" : "#fff"; }

// A picture brings its own page colour, so that it can be read on any page: what a picture in a
// page takes for dark is the reader's setting, not the page's. It has the colours that `body` uses.
std::string style(std::string_view body) {
  std::string light, dark;
  for (const Shade& shade : kShades) {
    if (body.find(concat("class=\"", shade.name)) != body.npos) {
      light += concat(".", shade.name, "{fill:", shade.light, ";color:", shade.light, "}");
      dark += concat(".", shade.name, "{fill:", shade.dark, ";color:", shade.dark, "}");
    }
    if (body.find(concat("class=\"on_", shade.name)) == body.npos) continue;
    light += concat("text.on_", shade.name, "{fill:", ink_on(shade.light), "}");
    dark += concat("text.on_", shade.name, "{fill:", ink_on(shade.dark), "}");
  }
  return concat("<style>text{font-family:sans-serif;fill:#222}line{stroke:#222}",
                ".head{fill:#222}rect{stroke:#fff;stroke-width:1}.page{fill:#fff}", light,
                "line.edge,polyline.edge,rect.edge{fill:none;stroke:currentColor;stroke-width:2}",
                "@media(prefers-color-scheme:dark){text{fill:#ddd}line{stroke:#ddd}",
                ".head{fill:#ddd}rect{stroke:#0d1117}.page{fill:#0d1117}", dark, "}</style>\n");
}

bool is_thin(double width, double height) { return std::min(width, height) < 3; }

std::string rect_text(std::string_view classes, double x, double y, double width, double height) {
  return concat("<rect class=\"", classes, "\" x=\"", number(x), "\" y=\"", number(y),
                "\" width=\"", number(width), "\" height=\"", number(height), "\"");
}

std::string coloured(Colour colour, double x, double y, double width, double height) {
  return concat(rect_text(shade_of(colour).name, x, y, width, height),
                is_thin(width, height) ? " style=\"stroke:none\"" : "");
}

std::string tipped(std::string rect, std::string_view tip) {
  return rect + (tip.empty() ? "/>\n" : concat("><title>", escaped(tip), "</title></rect>\n"));
}

std::string shade_text(Colour colour, double opacity, double x, double y, double width,
                       double height) {
  return concat(coloured(colour, x, y, width, height), " fill-opacity=\"", number(opacity),
                "\"/>\n");
}

std::string line_text(std::string_view attributes, double x1, double y1, double x2, double y2) {
  return concat("<line", attributes, " x1=\"", number(x1), "\" y1=\"", number(y1), "\" x2=\"",
                number(x2), "\" y2=\"", number(y2), "\"/>\n");
}

std::string points_text(const Svg::Points& points) {
  std::string text;
  for (const auto& [x, y] : points)
    text += concat(text.empty() ? "" : " ", number(x), ",", number(y));
  return text;
}

}  // namespace

double text_width(std::string_view text, int size, bool bold) {
  double sum = 0;
  for (const char c : text)
    sum += c < ' ' || c > '~' ? 100 : (bold ? kBoldWidths : kWidths)[c - ' '];
  return sum * size / 100;
}

Svg::Svg(double width, double height) : width_(width), height_(height) {}

void Svg::rect(Colour colour, double x, double y, double width, double height,
               std::string_view tip) {
  body_ += tipped(coloured(colour, x, y, width, height), tip);
}

void Svg::box(Colour colour, double x, double y, double width, double height, std::string_view tip,
              bool is_pale) {
  width = std::max(width, 1.0);
  std::string& layer = is_thin(width, height) ? thin_ : body_;
  layer += tipped(coloured(colour, x, y, width, height), tip);
  if (is_pale) layer += shade_text(Colour::idle, 0.55, x, y, width, height);
}

void Svg::shade(Colour colour, double opacity, double x, double y, double width, double height) {
  body_ += shade_text(colour, opacity, x, y, width, height);
}

void Svg::frame(Colour colour, double x, double y, double width, double height) {
  body_ += rect_text(concat(shade_of(colour).name, " edge"), x, y, width, height) + "/>\n";
}

void Svg::text(double x, double y, std::string_view what, const TextStyle& text_style) {
  const char* const anchor = text_style.anchor == Anchor::start    ? "start"
                             : text_style.anchor == Anchor::middle ? "middle"
                                                                   : "end";
  const std::string on =
      text_style.on ? concat(" class=\"on_", shade_of(*text_style.on).name, "\"") : "";
  body_ += concat("<text", on, " x=\"", number(x), "\" y=\"", number(y), "\" font-size=\"",
                  text_style.size, "\" text-anchor=\"", anchor, "\"",
                  text_style.bold ? " font-weight=\"bold\"" : "", ">", escaped(what), "</text>\n");
}

bool Svg::label(std::optional<Colour> on, double x, double y, double width, double height,
                std::string_view what, TextStyle text_style) {
  constexpr double kBorder = 1, kHalfOfDigit = 0.36;  // the latter of the size
  if (text_width(what, text_style.size, text_style.bold) + kBorder > width) return false;
  text_style.anchor = Anchor::middle;
  text_style.on = on;
  text(x + width / 2, y + height / 2 + kHalfOfDigit * text_style.size, what, text_style);
  return true;
}

void Svg::line(double x1, double y1, double x2, double y2) {
  body_ += line_text("", x1, y1, x2, y2);
}

void Svg::line(Colour colour, double x1, double y1, double x2, double y2) {
  body_ += line_text(concat(" class=\"", shade_of(colour).name, " edge\""), x1, y1, x2, y2);
}

void Svg::curve(Colour colour, const Points& points) {
  body_ += concat("<polyline class=\"", shade_of(colour).name, " edge\" points=\"",
                  points_text(points), "\"/>\n");
}

void Svg::area(Colour colour, const Points& points, double opacity) {
  body_ += concat("<polygon class=\"", shade_of(colour).name, "\" fill-opacity=\"", number(opacity),
                  "\" points=\"", points_text(points), "\"/>\n");
}

void Svg::arrow(const Points& points, std::optional<Colour> colour) {
  constexpr double kHead = 7, kHalfWidth = 3.5;
  const std::string name = colour ? shade_of(*colour).name : "head";
  for (size_t i = 1; i < points.size(); ++i) {
    const std::string attributes = colour ? concat(" class=\"", name, " edge\"") : "";
    body_ += line_text(attributes, points[i - 1].first, points[i - 1].second, points[i].first,
                       points[i].second);
  }
  const auto [x1, y1] = points[points.size() - 2];
  const auto [x2, y2] = points.back();
  const double length = std::hypot(x2 - x1, y2 - y1);
  if (length == 0) return;
  const double dx = (x2 - x1) / length, dy = (y2 - y1) / length;
  const double bx = x2 - kHead * dx, by = y2 - kHead * dy;
  body_ += concat("<polygon class=\"", name, "\" points=\"",
                  points_text({{x2, y2},
                               {bx - kHalfWidth * dy, by + kHalfWidth * dx},
                               {bx + kHalfWidth * dy, by - kHalfWidth * dx}}),
                  "\"/>\n");
}

double Svg::legend(double x, double y, Colour colour, std::string_view name) {
  constexpr double kSquare = 12, kGap = 18;
  rect(colour, x, y, kSquare, kSquare);
  text(x + kSquare + 5, y + kSquare - 1, name);
  return x + kSquare + 5 + text_width(name, TextStyle().size) + kGap;
}

std::string Svg::str() const {
  const std::string body = body_ + thin_;
  return concat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", number(width_), " ",
                number(height_), "\" width=\"", number(width_), "\">\n", style(body),
                rect_text("page", 0, 0, width_, height_), "/>\n", body, "</svg>\n");
}

}  // namespace ladder
