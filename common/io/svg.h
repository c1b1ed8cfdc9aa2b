// Pictures as SVG: rectangles, lines and text in a few named colours, for readers who want light
// pages and for those who want dark ones.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ladder {

// What a colour stands for, in all pictures of the course.
enum class Colour {
  parameters,
  gradients,
  optimizer,
  activations,
  communication,
  workspace,
  forward,
  backward,
  idle,
  plain,  // of boxes that stand for nothing in particular
  classifier,
  recompute,
  tensor_group,
  pipeline,
  data_group,
  all_ranks,
  other,     // communication that is none of these
  emphasis,  // what the picture is about
};

// The width of a text of `size` pixels in DejaVu Sans, the widest of the usual fonts: a reader's
// own font needs no more.
double text_width(std::string_view text, int size, bool bold = false);

// A picture under construction. Lengths are in pixels, y grows downwards.
class Svg {
 public:
  using Points = std::vector<std::pair<double, double>>;  // (x, y)

  Svg(double width, double height);

  enum class Anchor { start, middle, end };
  struct TextStyle {
    Anchor anchor = Anchor::start;
    int size = 13;  // pixels
    bool bold = false;
    std::optional<Colour> on = {};  // what the text stands on; nothing: the page
  };
  // `tip` is shown where the pointer rests on the rectangle; empty = none. A border in the page's
  // colour parts rectangles that touch; a thin one, which the border would cover, has none.
  void rect(Colour colour, double x, double y, double width, double height,
            std::string_view tip = {});
  void text(double x, double y, std::string_view text, const TextStyle& style);
  void text(double x, double y, std::string_view what) { text(x, y, what, TextStyle()); }
  // The picture's first line.
  void title(std::string_view what) { text(10, 24, what, {.size = 15, .bold = true}); }
  // Writes in the middle of a rectangle of that colour, or in one of which the page shows through.
  // Returns false, and writes nothing, where the text does not fit.
  bool label(std::optional<Colour> on, double x, double y, double width, double height,
             std::string_view what, TextStyle style);
  bool label(std::optional<Colour> on, double x, double y, double width, double height,
             std::string_view what) {
    return label(on, x, y, width, height, what, TextStyle());
  }
  // A rectangle in a row of them, which is never hidden: it is at least a pixel wide, and a thin
  // one lies over its neighbours and their borders.
  void box(Colour colour, double x, double y, double width, double height,
           std::string_view tip = {}, bool is_pale = false);
  // `opacity`: from 0, where nothing is seen of it, to 1.
  void shade(Colour colour, double opacity, double x, double y, double width, double height);
  // The border of a rectangle that does not cover what is inside.
  void frame(Colour colour, double x, double y, double width, double height);
  // Thin, in the colour of the text.
  void line(double x1, double y1, double x2, double y2);
  void line(Colour colour, double x1, double y1, double x2, double y2);
  // From each point to the next one.
  void curve(Colour colour, const Points& points);
  // What the points surround, without a border.
  void area(Colour colour, const Points& points, double opacity = 1);
  // A thin line with a head at its last point; in the colour of the text, if none is given.
  void arrow(const Points& points, std::optional<Colour> colour = {});
  void arrow(double x1, double y1, double x2, double y2) { arrow({{x1, y1}, {x2, y2}}); }
  // A square of the colour and its name, beginning at (x, y). Returns where the next one may begin.
  double legend(double x, double y, Colour colour, std::string_view name);

  std::string str() const;

 private:
  double width_, height_;
  std::string body_, thin_;  // thin boxes lie over all else
};

}  // namespace ladder
