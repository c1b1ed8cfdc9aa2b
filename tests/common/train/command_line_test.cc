// How flags are read: whole numbers, files of flags, what is said of words that are no flags.
#include "common/train/flags/command_line.h"

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <sstream>

#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

// Flags of every kind, none of which checks its own values.
struct Flags {
  size_t size = 0;
  int64_t signed_number = 0;
  int small = 0;
  std::optional<size_t> perhaps;
  double real = 0;
  std::string text;
  size_t bytes = 0;
  std::vector<size_t> list;
  bool on = false;
  FlagsFile file;
};

Flags parse(const std::string& line) {
  Flags flags;
  CLI::App app;
  app.add_option("--size", flags.size);
  app.add_option("--signed", flags.signed_number);
  app.add_option("--small", flags.small);
  app.add_option("--perhaps", flags.perhaps);
  app.add_option("--real", flags.real);
  app.add_option("--text", flags.text);
  app.add_option("--bytes", flags.bytes)->transform(byte_size());
  FlagTable(app).add_whole_list("--list", flags.list, "Numbers", 0, 99);
  app.add_flag("--on", flags.on);
  std::vector<std::string> words = {"program"};
  std::istringstream stream(line);
  for (std::string word; stream >> word;) words.push_back(word == "''" ? "" : word);
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  flags.file = parse_command_line(app, static_cast<int>(argv.size()), argv.data());
  return flags;
}

// What is said of a wrong command line; "" of a right one.
std::string fault(const std::string& line) {
  try {
    parse(line);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// The same of a file with this content, without its path.
std::string fault_of_file(const std::string& content) {
  const TestFolder folder;
  const std::string path = folder.write("flags", content);
  std::string text = fault("--config " + path);
  const size_t at = text.find(path);
  return at == text.npos ? text : text.replace(at, path.size(), "FILE");
}

TEST_CASE("flags arrive, from the command line before the file") {
  const TestFolder folder;
  const std::string path = folder.write(
      "flags",
      "# a comment\nsize = 10\nsigned = -3\nreal = 1e-3\ntext = \"a b\"\nbytes = 2KiB\n"
      "list = [5, 3]\non = true\n");
  const Flags flags = parse("--size 7 --config " + path + " --perhaps 0");
  CHECK(flags.size == 7);
  CHECK(flags.signed_number == -3);
  CHECK(flags.perhaps == 0);
  CHECK(flags.real == 1e-3);
  CHECK(flags.text == "a b");
  CHECK(flags.bytes == 2048);
  CHECK(flags.list == std::vector<size_t>{5, 3});
  CHECK(flags.on);
  CHECK(flags.file.path == path);
  CHECK(flags.file.note == "  flags    from " + path +
                               ": signed, real, text, bytes, list, on; the command line overrules "
                               "size\n");
  CHECK(parse("--list 1,0,2").list == std::vector<size_t>{1, 0, 2});
  CHECK(parse("--text 010 --real 010.5").text == "010");
  CHECK(parse("--text 010 --real 010.5").real == 10.5);
  CHECK(parse("").file.path == "");
  CHECK(parse("").file.note == "");
  CHECK(parse("--config " + folder.write("empty", "# nothing\n")).file.note ==
        "  flags    from " + folder / "empty: none\n");
}

TEST_CASE("--help and --version end the reading with what they print; a file cannot ask for it") {
  CHECK_THROWS_WITH(parse("--size 3 --help"), ContainsSubstring("--size"));
  CHECK_THROWS_WITH(parse("--size 3 --version"), ContainsSubstring("\ncompiler  "));
  CHECK_THROWS_AS(parse("--version"), CLI::Success);
  CHECK_THAT(fault_of_file("version = true\n"),
             ContainsSubstring("version: This option is not allowed"));
}

TEST_CASE("whole numbers are decimal, whatever checks a flag has") {
  const std::string flag = GENERATE("size", "signed", "small", "perhaps");
  CHECK(fault("--" + flag + " 10") == "");
  CHECK(fault("--" + flag + " 0") == "");
  for (const std::string value : {"010", "00", "08", "0x10", "0b1", "1e3", "1.0", "+5", "1'000"}) {
    const std::string message =
        "--" + flag + ": '" + value + "' is not a whole number in decimal, without leading zeros";
    CHECK(fault("--" + flag + " " + value) == message + "; see --help");
    if (value != "1'000") {
      CHECK(fault_of_file("# none\n" + flag + " = " + value + "\n") ==
            "--config FILE, line 2: " + message + "; see --help");
    }
  }
}

TEST_CASE("other numbers are decimal and finite") {
  for (const std::string value : {"0x1p3", "inf", "-inf", "nan", "1e400", "1.5x", "+1.5", "1,5"}) {
    CHECK_THAT(fault("--real " + value), StartsWith("--real: '" + value + "' is not a number"));
  }
  CHECK_THAT(fault_of_file("real = inf\n"),
             StartsWith("--config FILE, line 1: --real: 'inf' is not a number"));
  CHECK(parse("--real -1.5e-300").real == -1.5e-300);
}

TEST_CASE("a flag has one value, once") {
  CHECK(fault("--size") == "--size: its value is missing; see --help");
  CHECK(fault("--size 1 --text") == "--text: its value is missing; see --help");
  CHECK(fault("--size 1 --text x --size 2 --size 3") ==
        "--size: given 3 times, expected once; see --help");
  CHECK(fault_of_file("size = 1\nsize = 2\n") ==
        "--config FILE, line 1: --size: given 2 times, expected once; see --help");
  // CLI11 would take the first of lines that are apart, the last of a switch, and a list of both.
  for (const std::string name : {"size", "on", "list", "text", "bytes"}) {
    const std::string line = name + " = 1\n", again = name + " = 0\n";
    const std::string fault = "--config FILE, line 2: --" + name + ": given ";
    CHECK(fault_of_file("real = 1\n" + line + "signed = 3\n--" + again) ==
          fault + "2 times, expected once; see --help");
    CHECK(fault_of_file("\n" + line + again + line) ==
          fault + "3 times, expected once; see --help");
  }
}

TEST_CASE("sizes and lists are decimal too, and a list has no empty place") {
  for (const std::string value : {"010", "0x10", "010KiB", "0x1KiB", "00", "1KiB2"}) {
    CHECK(fault("--bytes " + value) ==
          "--bytes: '" + value + "' is not a size such as 64MiB, from 1 byte to 4 EiB; see --help");
  }
  for (const std::string value : {"0,1,,1,0", ",1", "1,", ",", "1,x", "1,-1", "1,100", "1,010"}) {
    CHECK_THAT(fault("--list " + value), StartsWith("--list: '"));
  }
  CHECK(fault("--list 1,,2") == "--list: '' is not a whole number from 0 to 99; see --help");
  CHECK_THAT(fault_of_file("list = 0,1,,1,0\n"), ContainsSubstring("line 1: --list: ''"));
  CHECK_THAT(fault_of_file("list = [0, 010]\n"), ContainsSubstring("line 1: --list: '010'"));
}

TEST_CASE("what is no flag is said to be none, in the order of the command line") {
  CHECK(fault("--lay 2") == "no such flag: --lay; see --help");
  CHECK(fault("--stepz=3 --size 1 --other") == "no such flag: --stepz=3 --other; see --help");
  CHECK(fault("train now") == "words that belong to no flag: train now; see --help");
  CHECK(fault_of_file("lay = 2\n") == "--config FILE, line 1: no such flag: lay; see --help");
  CHECK_THAT(fault_of_file("help = true\n"), StartsWith("--config FILE: help: "));
}

TEST_CASE("what was probably meant is said: near misses, and the names of other programs") {
  const auto fault_of = [](const std::string& line) {
    CLI::App app;
    std::string value;
    for (const char* const flag :
         {"--learning-rate", "--min-learning-rate", "--global-batch-size", "--micro-batch-size",
          "--steps", "--step-file", "--clip-norm", "--sequence-length", "--seed", "--checkpoint",
          "--checkpoint-every", "--layers", "--tensorboard", "--tensor-parallel-size"}) {
      app.add_option(flag, value);
    }
    app.get_option("--checkpoint-every")->needs(app.get_option("--checkpoint"));
    std::vector<std::string> words = {"program"};
    std::istringstream stream(line);
    for (std::string word; stream >> word;) words.push_back(word);
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    try {
      parse_command_line(app, static_cast<int>(argv.size()), argv.data());
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto check_meant = [&](const std::string& flag, const std::string& meant) {
    for (const std::string& given : {flag, flag + " 1e-3", flag + "=1e-3"}) {
      CHECK(fault_of(given) == "no such flag " + flag + "; did you mean " + meant + "?");
    }
  };
  check_meant("--lr", "--learning-rate");
  check_meant("--batch-size", "--global-batch-size or --micro-batch-size");
  check_meant("--max-iters", "--steps");
  check_meant("--max_steps", "--steps");
  check_meant("--grad-clip", "--clip-norm");
  check_meant("--seq-length", "--sequence-length");
  check_meant("--block_size", "--sequence-length");
  check_meant("--learning_rate", "--learning-rate");
  check_meant("--Learning-Rate", "--learning-rate");
  check_meant("--learnign-rate", "--learning-rate");
  check_meant("--learning-rat", "--learning-rate");
  check_meant("--sed", "--seed");
  check_meant("--step", "--steps");
  check_meant("--layer", "--layers");
  check_meant("--lay", "--layers");
  check_meant("-seed", "--seed");
  // A flag that another one needs.
  check_meant("--chekpoint", "--checkpoint");
  CHECK(fault_of("--chekpoint c --checkpoint-every 2") ==
        "no such flag --chekpoint; did you mean --checkpoint?");
  CHECK(fault_of("steps=3") == "no such flag steps; did you mean --steps?");
  CHECK(fault_of("--lr 1 --foo --max-iters 2") ==
        "no such flag --lr; did you mean --learning-rate? no such flag --max-iters; did you mean "
        "--steps? no such flag: --foo; see --help");
  for (const char* const strange : {"--foo", "--tensor", "--se", "-x", "--", "--_", "--=3"}) {
    CAPTURE(strange);
    CHECK_THAT(fault_of(concat(strange, " --other")), !ContainsSubstring("mean"));
  }
  CHECK(fault_of_file("siz = 2\n") ==
        "--config FILE, line 1: no such flag: siz; did you mean --size?");
}

TEST_CASE("a value that cannot be read is said in our words, with its line in a file") {
  for (const std::string value : {"perhaps", "7", "-1", "+", "-", "2", "10", "01", "0.5", "nope"}) {
    CHECK(fault("--on=" + value) ==
          concat("--on: '", value, "' is neither true nor false; see --help"));
  }
  for (const std::string value : {"1", "true", "on", "yes", "True"})
    CHECK(parse("--on=" + value).on);
  for (const std::string value : {"0", "false", "off", "no"}) CHECK(!parse("--on=" + value).on);
  CHECK(fault("--small 99999999999") == "--small: '99999999999' is no value for it; see --help");
  const std::string list = "list = [5,\n  3]  # a comment = [\n\n; size = 3\n";
  for (const std::string value : {"perhaps", "7"}) {
    CHECK(
        fault_of_file(list + "on = " + value + "\n") ==
        concat("--config FILE, line 5: --on: '", value, "' is neither true nor false; see --help"));
  }
  CHECK(fault_of_file(list + "--small = 99999999999\n") ==
        "--config FILE, line 5: --small: '99999999999' is no value for it; see --help");
}

TEST_CASE("no value is empty") {
  for (const std::string flag : {"--size", "--text", "--list", "--on", "--config", "--bytes"}) {
    const std::string message = flag + ": its value is empty; see --help";
    if (flag != "--on") CHECK(fault("--real 1 " + flag + " '' --signed 3") == message);
    CHECK(fault("--real 1 " + flag + "= --signed 3") == message);
  }
  CHECK(fault("--real 1 ''") == "an argument is empty; see --help");
  CHECK(fault("'' --real 1") == "an argument is empty; see --help");
  for (const std::string value : {"", " ", "\"\"", "''", " # 3", "[]"}) {
    CHECK(fault_of_file("size = 1\ntext =" + value + "\n") ==
          "--config FILE: line 2: the value of text is empty; see --help");
  }
}

TEST_CASE("a file of something else than flags is refused by its line") {
  const auto check_refused = [](const std::string& content, const char* line) {
    CHECK(fault_of_file(content) ==
          concat("--config FILE: line ", line, ", expected one such as `steps = 100`; see --help"));
  };
  check_refused("{\"size\": 3}\n", "1 is \"{\\\"size\\\": 3}\"");
  check_refused("{\n", "1 is \"{\"");
  check_refused("# flags\nsize: 3\n", "2 is \"size: 3\"");
  check_refused("---\nsize: 3\n", "2 is \"size: 3\"");
  check_refused("size = 3\n[text]\n", "2 is \"[text]\"");
  check_refused("size = 3\n= 3\n", "2 is \"= 3\"");
  check_refused("\xff\xfes\n", "1 is \"\\ufffd\\ufffds\"");
  CHECK(fault_of_file("list = [1\nsize = 3\n") ==
        "--config FILE: the last list has no ]; see --help");
}

TEST_CASE("a file of flags may begin with a byte order mark") {
  const TestFolder folder;
  const Flags flags = parse("--config " + folder.write("flags", "\xef\xbb\xbfsize = 3\n"));
  CHECK(flags.size == 3);
  CHECK_THAT(flags.file.note, EndsWith(": size\n"));
  CHECK_THAT(fault_of_file("\xef\xbb\xbfsize = x\n"),
             StartsWith("--config FILE, line 1: --size: 'x' is not"));
}

TEST_CASE("a file of flags is a regular file of some bytes") {
  const TestFolder folder;
  CHECK(fault("--config /dev/zero") ==
        "--config: /dev/zero: is a device, expected a regular file; see --help");
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(fault("--config " + folder / "pipe"), ContainsSubstring("is a pipe, expected"));
  CHECK_THAT(fault("--config " + folder.path()), ContainsSubstring("is a folder, expected"));
  CHECK_THAT(fault("--config " + folder / "none"), ContainsSubstring("No such file"));
  const std::string most = "size = 1\n#" + std::string((1 << 20) - 10, 'x');
  CHECK(fault_of_file(most) == "");
  CHECK(fault_of_file(most + "x") ==
        "--config: FILE: 1048577 bytes are too many for flags; see --help");
}

}  // namespace
}  // namespace ladder
