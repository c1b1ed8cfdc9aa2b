// Pictures as SVG: rectangles, lines and text in a few named colours that read well on a light and
// on a dark page.
#pragma once

#include <string>
#include <string_view>

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
};

// A picture under construction. Lengths are in pixels, y grows downwards.
class Svg {
 public:
  Svg(double width, double height);

  enum class Anchor { start, middle, end };
  struct TextStyle {
    Anchor anchor = Anchor::start;
    int size = 12;  // pixels
    bool bold = false;
  };
  // `tip` is shown where the pointer rests on the rectangle; empty = none.
  void rect(Colour colour, double x, double y, double width, double height,
            std::string_view tip = {});
  void text(double x, double y, std::string_view text, const TextStyle& style);
  void text(double x, double y, std::string_view what) { text(x, y, what, TextStyle()); }
  void line(double x1, double y1, double x2, double y2);
  // The same with a head at (x2, y2).
  void arrow(double x1, double y1, double x2, double y2);
  // A square of the colour and its name, beginning at (x, y). Returns where the next one may begin.
  double legend(double x, double y, Colour colour, std::string_view name);

  std::string str() const;

 private:
  double width_, height_;
  std::string body_;
};

}  // namespace ladder
