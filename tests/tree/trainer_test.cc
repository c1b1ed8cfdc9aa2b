// What a trainer and its lesson may leave out is a compile error where it is misspelt: it would be
// ignored without a word.
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {

// Returns what the compiler says of a trainer that has this member, and of a lesson that has this
// function; "" if it compiles.
std::string compiled(const std::string& member, const std::string& function) {
  const char* const folder = std::getenv("TEST_TMPDIR");
  const std::filesystem::path file = std::filesystem::path(folder) / "trainer.cc";
  std::ofstream(file) << "#include \"common/train/trainer/trainer.h\"\n"
                         "namespace ladder {\n"
                         "struct Flags {};\n"
                         "std::string lines(const Flags&, const RunConfig&, const ProcessGrid&,\n"
                         "                  const SharedPlan&);\n"
                         "Lesson<Flags> lesson = {.info = {}, "
                      << function << "};\nclass Learner : public Trainer {\n  " << member
                      << "\n};\n}\n";
  const std::string command = "${CXX:-g++} -std=c++20 -fsyntax-only -I '" + source_root().string() +
                              "' '" + file.string() + "' 2>&1";
  std::FILE* const output = ::popen(command.c_str(), "r");
  REQUIRE(output != nullptr);
  std::string text;
  std::array<char, 4096> part;
  while (std::fgets(part.data(), part.size(), output) != nullptr) text += part.data();
  REQUIRE((::pclose(output) == 0) == text.empty());
  return text;
}

TEST_CASE("a misspelt member of a trainer does not compile") {
  const std::string right = ".describe = lines";
  CHECK(compiled("void check_replicas() override;", right).empty());
  CHECK_THAT(compiled("void check_replica() override;", right), ContainsSubstring("check_replica"));
  CHECK_THAT(compiled("std::string report(int) override;", right), ContainsSubstring("report"));
}

TEST_CASE("a misspelt function of a lesson does not compile") {
  CHECK_THAT(compiled("", ".descibe = lines"), ContainsSubstring("descibe"));
  CHECK_THAT(compiled("", ".arrange = lines"), ContainsSubstring("conversion"));
}

}  // namespace
}  // namespace ladder
