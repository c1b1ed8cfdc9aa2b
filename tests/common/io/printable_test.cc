// What reaches the terminal of text from outside.
#include "common/io/printable.h"

#include <vector>

#include "tests/catch.h"

namespace ladder {
namespace {

TEST_CASE("bytes that do not print come as question marks") {
  CHECK(printable("a b\tc\n~") == "a b\tc\n~");
  CHECK(printable(std::string("\0\x1b[31m\x7f\r", 8)) == "??[31m??");
  const std::string characters = "\u00e9\u20ac\U0001F600\u00a0";
  CHECK(printable(characters) == characters);
  // U+009B begins a command as Escape does; the others are no UTF-8.
  for (const std::string two : {"\xc2\x9b", "\xc0\xaf", "\xc3(", "\x80\xff", "\xf5\x80"}) {
    CHECK(printable(two) == (two == "\xc3(" ? "?(" : "??"));
  }
  CHECK(printable("\xe0\x80\x80") == "???");       // too long a form
  CHECK(printable("\xed\xa0\x80") == "???");       // a surrogate
  CHECK(printable("\xf4\x90\x80\x80") == "????");  // beyond the last
  CHECK(printable("x\xe2\x82") == "x??");          // cut off
}

TEST_CASE("characters that reorder or break a line do not print, and their neighbours do") {
  for (const std::string character : {"\u2028", "\u2029", "\u202a", "\u202b", "\u202c", "\u202d",
                                      "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"}) {
    CHECK(printable("a" + character + "b") == "a???b");
  }
  for (const std::string character : {"\u2027", "\u202f", "\u2065", "\u206a", "\u20a9", "\u3028"}) {
    CHECK(printable(character) == character);
  }
}

TEST_CASE("one line says which bytes it replaced") {
  CHECK(one_line("plain, \"quoted\" \\ and \u00e9") == "plain, \"quoted\" \\ and \u00e9");
  CHECK(one_line("a\nb\tc\r") == "a\\nb\\tc\\x0d");
  CHECK(one_line(std::string("\0\x1b]0;x\x07\x7f\x9b", 9)) == "\\x00\\x1b]0;x\\x07\\x7f\\x9b");
  CHECK(one_line("\u202e") == "\\xe2\\x80\\xae");
}

TEST_CASE("one line has a bounded length, and both ends of the text") {
  const std::string longest(2000, 'x');
  CHECK(one_line(longest) == longest);
  CHECK(one_line("first" + longest + "last").size() == 2005);
  CHECK_THAT(one_line("first" + longest + "last"),
             StartsWith("firstx") && ContainsSubstring("x ... x") && EndsWith("xlast"));
  CHECK(one_line(std::string(5000, '\n')).size() == 4005);
}

TEST_CASE("a quoted name is short and in ASCII") {
  CHECK(quoted_name("h.0.ln_1.weight") == "\"h.0.ln_1.weight\"");
  CHECK(quoted_name("a\"b\\\n\x1b\x7f\u202e") == R"("a\"b\\\n\u001b\u007f\u202e")");
  CHECK(quoted_name("\xff") == "\"\\ufffd\"");
  CHECK(quoted_name(std::string(100, 'n')) == "\"" + std::string(100, 'n') + "\"");
  CHECK(quoted_name(std::string(101, 'n')) == "\"" + std::string(100, 'n') + "...\"");
}

}  // namespace
}  // namespace ladder
