// Which files --data names, and in which order.
#include "common/data/data_files.h"

#include <algorithm>
#include <filesystem>

#include "common/data/corpus.h"
#include "tests/catch.h"
#include "tests/common/data/files.h"

namespace ladder {
namespace {

// A folder with the shards b_train_0, b_train_10, b_train_2, c_val_0 and Z_train_0, and two texts.
class Files : public TestFolder {
 public:
  Files() {
    uint16_t first = 0;
    for (const char* name : {"b_train_0", "b_train_10", "b_train_2", "c_val_0", "Z_train_0"}) {
      write(std::string(name) + ".bin", shard_bytes(counting(first, 10)));
      first = static_cast<uint16_t>(first + 10);
    }
    write("one.txt", "ab");
    write("two.txt", "cd");
  }
  // Turns names in it, with commas between them, into paths.
  std::string at(const std::string& names) const {
    std::string paths = *this / names;
    for (size_t comma = 0; (comma = paths.find(',', comma)) != std::string::npos;) {
      paths.insert(++comma, path() + "/");
    }
    return paths;
  }
  // The names in it of the files that data_files() finds.
  std::vector<std::string> found(const std::string& names) const {
    std::vector<std::string> result;
    for (const std::string& file : data_files(at(names))) {
      CHECK(file.starts_with(path() + "/"));
      result.push_back(file.substr(path().size() + 1));
    }
    return result;
  }
  // What is said of the names, without the beginning "--data PATH: ", where PATH is `named`.
  std::string fault(const std::string& names, const std::string& named) const {
    try {
      Corpus::open(at(names));
    } catch (const UserError& error) {
      const std::string begin = "--data " + at(named) + ": ", text = error.what();
      CHECK_THAT(text, StartsWith(begin) && !ContainsSubstring("\n"));
      return text.substr(std::min(begin.size(), text.size()));
    }
    return "";
  }
};

using Names = std::vector<std::string>;

TEST_CASE("a list is read in its order, a pattern and a folder by name") {
  const Files files;
  CHECK(files.found("one.txt") == Names{"one.txt"});
  CHECK(files.found("two.txt,one.txt") == Names{"two.txt", "one.txt"});
  // By bytes: capitals first, and 10 before 2.
  CHECK(files.found("*_train_*.bin") ==
        Names{"Z_train_0.bin", "b_train_0.bin", "b_train_10.bin", "b_train_2.bin"});
  CHECK(files.found("[bc]_*_?.bin") == Names{"b_train_0.bin", "b_train_2.bin", "c_val_0.bin"});
  CHECK(files.found("c_val_0.bin,b_*.bin,one.txt") ==
        Names{"c_val_0.bin", "b_train_0.bin", "b_train_10.bin", "b_train_2.bin", "one.txt"});
  CHECK(data_files(files.path()).size() == 5);
  std::filesystem::create_directory(files / "more");
  files.write("more/a.bin", shard_bytes(counting(0, 10)));
  CHECK(files.found("one.txt,more") == Names{"one.txt", "more/a.bin"});
  CHECK(files.found("m*/*.bin") == Names{"more/a.bin"});
}

TEST_CASE("a file whose name looks like a list or a pattern is found by its name") {
  const Files files;
  for (const char* name : {"a,b.bin", "b_*.bin", "[x].txt"}) {
    files.write(name, shard_bytes(counting(0, 10)));
    CHECK(data_files(files / name) == Names{files / name});
  }
}

TEST_CASE("the tokens of several files follow each other") {
  const Files files;
  const auto tokens = [&](const std::string& names) {
    const Corpus corpus = Corpus::open(files.at(names));
    CHECK(corpus.name() == files.at(names));
    std::vector<int32_t> result;
    for (size_t i = 0; i < corpus.num_tokens(); ++i) result.push_back(token_of(corpus, i));
    return result;
  };
  std::vector<int32_t> expected(20);
  std::iota(expected.begin(), expected.begin() + 10, 30);
  std::iota(expected.begin() + 10, expected.end(), 20);
  CHECK(tokens("c_val_0.bin,b_train_2.bin") == expected);
  CHECK(tokens("two.txt,one.txt") == std::vector<int32_t>{'c', 'd', 'a', 'b'});
  CHECK(Corpus::open(files.at("two.txt,one.txt")).is_text());
  CHECK(Corpus::open(files.at("b_*.bin")).files().size() == 3);
}

TEST_CASE("names that stand for nothing, or for too much, are refused") {
  const Files files;
  CHECK(files.fault("x*.bin", "x*.bin") == "no file matches this pattern");
  CHECK(files.fault("one.txt,x*", "x*") == "no file matches this pattern");
  CHECK(files.fault("one.txt,none.txt", "none.txt") == "there is no such file or folder");
  CHECK(files.fault("one.txt/*", "one.txt/*") == "no file matches this pattern");
  const std::string one = files / "one.txt", two = files / "two.txt";
  for (const std::string& names : {one + ",", "," + one, one + ",," + two, std::string(",")}) {
    CHECK_THROWS_WITH(data_files(names),
                      Equals("--data " + names + ": a name between the commas is empty"));
  }
  CHECK(files.fault("b_train_0.bin,b_*.bin", "b_train_0.bin,b_*.bin") ==
        files / "b_train_0.bin is there twice");
  std::filesystem::create_symlink("one.txt", files / "link.txt");
  CHECK(files.fault("one.txt,link.txt", "one.txt,link.txt") == files / "link.txt is there twice");
  CHECK(files.fault("*.txt", "*.txt") == files / "one.txt is there twice");
  std::filesystem::create_directory(files / "c_folder");
  CHECK(files.fault("c_*", "c_folder") == "is a folder, expected a regular file");
}

TEST_CASE("texts and token shards do not mix") {
  const Files files;
  CHECK(files.fault("one.txt,c_val_0.bin", "one.txt,c_val_0.bin") ==
        concat(files / "one.txt", " is a text and ", files / "c_val_0.bin",
               " is a token shard; texts and token shards do not mix"));
  CHECK(files.fault("c_val_0.bin,one.txt", "c_val_0.bin,one.txt") ==
        concat(files / "c_val_0.bin", " is a token shard and ", files / "one.txt",
               " is a text; texts and token shards do not mix"));
  // A shard is known by its magic, too.
  files.write("shard", shard_bytes(counting(0, 10)));
  CHECK(files.fault("c_val_0.bin,shard", "") == "");
}

}  // namespace
}  // namespace ladder
