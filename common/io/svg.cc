#include "common/io/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

struct Shade {
  const char *name, *light, *dark;
};

// In the order of Colour.
constexpr std::array<Shade, 17> kShades = {{{"parameters", "#4f8fcd", "#2a62ad"},
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
                                            {"data_group", "#3d5a94", "#23396b"},
                                            {"all_ranks", "#9c3d4a", "#7d1f3a"},
                                            {"other", "#5d6670", "#9aa4ae"}}};

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

// A picture brings its own page colour, so that it can be read on any page: what a picture in a
// page takes for dark is the reader's setting, not the page's. It has the colours that `body` uses.
std::string style(std::string_view body) {
  std::string light, dark;
  for (const Shade& shade : kShades) {
    if (body.find(concat("class=\"", shade.name)) == body.npos) continue;
    light += concat(".", shade.name, "{fill:", shade.light, ";color:", shade.light, "}");
    dark += concat(".", shade.name, "{fill:", shade.dark, ";color:", shade.dark, "}");
  }
  return concat("<style>text{font-family:sans-serif;fill:#222}line{stroke:#222}.head{fill:#222}",
                "rect{stroke:#fff;stroke-width:1}.page{fill:#fff}", light,
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

}  // namespace

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
  if (is_pale) layer += shade_text(Colour::idle, 0.5, x, y, width, height);
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
  body_ += concat("<text x=\"", number(x), "\" y=\"", number(y), "\" font-size=\"", text_style.size,
                  "\" text-anchor=\"", anchor, "\"", text_style.bold ? " font-weight=\"bold\"" : "",
                  ">", escaped(what), "</text>\n");
}

void Svg::line(double x1, double y1, double x2, double y2) {
  body_ += line_text("", x1, y1, x2, y2);
}

void Svg::line(Colour colour, double x1, double y1, double x2, double y2) {
  body_ += line_text(concat(" class=\"", shade_of(colour).name, " edge\""), x1, y1, x2, y2);
}

void Svg::curve(Colour colour, const std::vector<std::pair<double, double>>& points) {
  std::string text;
  for (const auto& [x, y] : points)
    text += concat(text.empty() ? "" : " ", number(x), ",", number(y));
  body_ += concat("<polyline class=\"", shade_of(colour).name, " edge\" points=\"", text, "\"/>\n");
}

void Svg::arrow(double x1, double y1, double x2, double y2) {
  constexpr double kHead = 7, kHalfWidth = 3;
  line(x1, y1, x2, y2);
  const double length = std::hypot(x2 - x1, y2 - y1);
  if (length == 0) return;
  const double dx = (x2 - x1) / length, dy = (y2 - y1) / length;
  const double bx = x2 - kHead * dx, by = y2 - kHead * dy;
  body_ += concat("<polygon class=\"head\" points=\"", number(x2), ",", number(y2), " ",
                  number(bx - kHalfWidth * dy), ",", number(by + kHalfWidth * dx), " ",
                  number(bx + kHalfWidth * dy), ",", number(by - kHalfWidth * dx), "\"/>\n");
}

double Svg::legend(double x, double y, Colour colour, std::string_view name) {
  constexpr double kSquare = 12, kLetter = 6.5, kGap = 18;
  rect(colour, x, y, kSquare, kSquare);
  text(x + kSquare + 5, y + kSquare - 2, name);
  return x + kSquare + 5 + kLetter * static_cast<double>(name.size()) + kGap;
}

std::string Svg::str() const {
  const std::string body = body_ + thin_;
  return concat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", number(width_), " ",
                number(height_), "\" width=\"", number(width_), "\">\n", style(body),
                rect_text("page", 0, 0, width_, height_), "/>\n", body, "</svg>\n");
}

}  // namespace ladder
