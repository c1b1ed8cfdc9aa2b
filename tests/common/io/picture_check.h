// What is wrong with a picture that common/io/svg.h has drawn, as its reader would see it.
#pragma once

#include <string>
#include <vector>

namespace ladder::testing {

// Returns a line for each finding; empty: the picture is fine.
//   text that is beyond the page, beyond the box that it stands in, over another text, or over the
//   border of a box or a line
//   a line or an arrow through a box, or that ends inside of one
//   text with a contrast below 4.5 to what it stands on, in a light or in a dark page
//   a picture wider than 720 pixels, or with text below 12: in a page of 360 pixels, a phone's, it
//   would have less than six
// Texts are measured in DejaVu Sans, the widest of the usual fonts (text_width in svg.h).
std::vector<std::string> picture_findings(const std::string& svg);

}  // namespace ladder::testing
