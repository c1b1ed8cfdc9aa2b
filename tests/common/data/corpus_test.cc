#include "common/data/corpus.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <type_traits>
#include <utility>

#include "common/data/king_james.h"
#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/data/files.h"

namespace ladder {
namespace {

static_assert(std::is_move_constructible_v<Corpus> && !std::is_copy_constructible_v<Corpus>);

// The message of the UserError that `function` throws; "" if it throws none.
template <class Function>
std::string refusal(Function function) {
  try {
    function();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// Corpus::open(path) must throw "data `path`: `what`", on one line.
void check_refused(const std::string& path, const std::string& what) {
  const std::string message = refusal([&] { Corpus::open(path); });
  CHECK(message == "--data " + path + ": " + what);
  CHECK(message.find('\n') == std::string::npos);
}

// While it lives, file permissions hold for this thread even if it runs as root.
class WithoutPrivilege {
 public:
  WithoutPrivilege() {
    REQUIRE(syscall(SYS_capget, &header_, before_) == 0);
    const std::array<__user_cap_data_struct, 2> none = {
        {{0, before_[0].permitted, 0}, {0, before_[1].permitted, 0}}};
    REQUIRE(syscall(SYS_capset, &header_, none.data()) == 0);
  }
  ~WithoutPrivilege() { syscall(SYS_capset, &header_, before_); }
  WithoutPrivilege(const WithoutPrivilege&) = delete;
  WithoutPrivilege& operator=(const WithoutPrivilege&) = delete;

 private:
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct before_[2];
};

TEST_CASE("the built-in text is the whole King James text, in ASCII") {
  const std::string_view text = king_james_text();
  CHECK(text.size() > 4'000'000);
  CHECK(text.starts_with("Ge1:1 In the beginning God created the heaven and the earth.\n"));
  CHECK(text.ends_with("\nRev22:21 The grace of our Lord Jesus Christ be with you all. Amen.\n"));
  CHECK(std::all_of(text.begin(), text.end(), [](char letter) {
    return letter == '\n' || (letter >= ' ' && letter <= '~');
  }));

  const Corpus corpus = Corpus::king_james();
  CHECK(corpus.num_tokens() == text.size());
  CHECK(corpus.is_text());
  CHECK(corpus.name() == "King James text (built in)");
  CHECK(token_of(corpus, 0) == 'G');
  CHECK(token_of(corpus, text.size() - 1) == '\n');
  corpus.require(256, 1024);
  CHECK_THROWS_AS(corpus.require(64, 1024), UserError);
}

TEST_CASE("a text's tokens are its bytes") {
  const TestFolder folder;
  std::string bytes(256, '\0');
  for (int i = 0; i < 256; ++i) bytes[static_cast<size_t>(i)] = static_cast<char>(255 - i);
  const std::string path = folder.write("any.txt", bytes);
  const Corpus corpus = Corpus::open(path);
  CHECK(corpus.is_text());
  CHECK(corpus.name() == path);
  REQUIRE(corpus.num_tokens() == 256);
  for (size_t i = 0; i < 256; ++i) REQUIRE(token_of(corpus, i) == 255 - static_cast<int32_t>(i));
  corpus.require(256, 16);
}

TEST_CASE("a shard's tokens are its 16-bit words") {
  const TestFolder folder;
  const std::vector<uint16_t> tokens = {0, 1, 255, 256, 50256, 32767, 32768, 65535};
  const Corpus corpus = Corpus::open(folder.write("a.bin", shard_bytes(tokens)));
  CHECK(!corpus.is_text());
  REQUIRE(corpus.num_tokens() == tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) CHECK(token_of(corpus, i) == tokens[i]);
}

TEST_CASE("a shard is told by its magic or its name, in small letters or capitals") {
  const TestFolder folder;
  const std::vector<uint16_t> tokens = counting(300, 10);
  for (const char* name : {"a.BIN", "a.Bin", "tokens", "a.txt", "a.bin"}) {
    const Corpus corpus = Corpus::open(folder.write(name, shard_bytes(tokens)));
    CHECK(!corpus.is_text());
    CHECK(token_of(corpus, 9) == 309);
  }
  // Without a magic the name decides.
  const std::string headerless(2000, 'x');
  CHECK(refusal([&] { Corpus::open(folder.write("b.BIN", headerless)); }).find("nanoGPT") !=
        std::string::npos);
  CHECK(Corpus::open(folder.write("b.bi", headerless)).is_text());
  CHECK(Corpus::open(folder.write("bin", headerless)).is_text());
  CHECK(Corpus::open(folder.write("b\x0e"
                                  "bin",
                                  headerless))
            .is_text());
  CHECK(refusal([&] {
          Corpus::open(folder.write("llama", shard_bytes(tokens, 10, 20240801, 7)));
        }).find("Llama-3") != std::string::npos);
}

TEST_CASE("a file of another format is refused as what it is, whatever it is called") {
  using namespace std::string_literals;
  const TestFolder folder;
  std::string tar(600, '\0');
  tar.replace(257, 5, "ustar");
  const std::vector<std::pair<std::string, std::string>> formats = {
      {"\x93NUMPY\1\0v\0{'descr': '<u2'"s,
       "a NumPy array; tools/tokenize --convert makes token shards of tokens in it"},
      {"PAR1\x15\4\x15"s, "a Parquet file; write its texts"},
      {"\x28\xb5\x2f\xfd\x24"s, "compressed by zstd; unpack it first"},
      {"\x1f\x8b\x08\0"s, "compressed by gzip; unpack it first"},
      {"BZh91AY&SY", "compressed by bzip2; unpack it first"},
      {"\xfd\x37zXZ\0\0"s, "compressed by xz; unpack it first"},
      {tar, "a tar archive; unpack it first"},
      {"PK\3\4\x14"s, "a zip archive"},
      {"%PDF-1.7\n", "a PDF document"},
      {"SQLite format 3\0"s, "an SQLite database"},
      {"\xff\xff\xff\xff\x10\1\0\0"s, "an Arrow stream"},
      {"\x80\4\x95"s, "a Python pickle"},
      {file_of("{" + tensor("x", "2", 0, 8) + "}", 8),
       "a safetensors file; weights are for --init"},
      {"GGUF\3\0\0\0"s, "a GGUF file"},
      {"version https://git-lfs.github.com/spec/v1\noid", "a pointer to a file that Git LFS"}};
  for (const auto& [begin, description] : formats) {
    for (const std::string name : {"a.npy", "a.txt", "b", "a.bin"}) {
      const std::string path = folder.write(name, begin + std::string(2000, '\7'));
      CAPTURE(begin, name);
      CHECK_THAT(refusal([&] { Corpus::open(path); }),
                 StartsWith("--data " + path + ": is " + description));
    }
  }
}

TEST_CASE("a text may begin as the name of a format does, and a web page is a text") {
  const TestFolder folder;
  for (const std::string begin : {"PAR1, a golf course", "GGUF is a format", "BZh and more",
                                  "<!DOCTYPE html><html>", "ustar", "7z"}) {
    CHECK(Corpus::open(folder.write("text", begin + std::string(999, '.'))).is_text());
  }
  // Files of few bytes, of any value.
  for (size_t size = 1; size < 12; ++size) {
    CHECK(Corpus::open(folder.write("text", std::string(size, '\xff'))).is_text());
  }
}

TEST_CASE("a corpus of changing files never reads what was not there at the start") {
  const TestFolder folder;
  const auto write = [&](const std::string& name, uint16_t first) {
    const std::string path = folder.write(name, shard_bytes(counting(first, 1000)));
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() - std::chrono::seconds(10));
    return path;
  };
  write("a.bin", 0);
  const std::string second = write("b.bin", 1000);
  const Corpus corpus = Corpus::open(folder.path());
  std::vector<int32_t> tokens(20);
  corpus.read(990, tokens);  // over the end of the first shard
  for (int32_t i = 0; i < 20; ++i) CHECK(tokens[static_cast<size_t>(i)] == 990 + i);
  const std::string change = GENERATE("empty", "save", "remove");
  CAPTURE(change);
  if (change == "empty") std::filesystem::resize_file(second, 0);
  if (change == "save") folder.write("b.bin", shard_bytes(counting(0, 1000)));
  if (change == "remove") std::filesystem::remove(second);
  corpus.read(0, tokens);
  CHECK(tokens[19] == 19);
  if (change == "remove") {
    CHECK_NOTHROW(corpus.read(1980, tokens));
  } else {
    CHECK_THROWS_WITH(corpus.read(1980, tokens),
                      StartsWith("--data " + second + ": was written to while it was being read"));
    CHECK_THROWS_AS(corpus.require(1500, 4), Error);
  }
}

TEST_CASE("a corpus may have more files than a process usually opens") {
  const TestFolder folder;
  for (int i = 100; i < 180; ++i) {
    folder.write(concat(i, ".bin"), shard_bytes(counting(static_cast<uint16_t>(i), 1)));
  }
  rlimit before;
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit low{64, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  {
    const Corpus corpus = Corpus::open(folder.path());
    CHECK(corpus.num_tokens() == 80);
    CHECK(token_of(corpus, 79) == 179);
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("a corpus knows the files that it is read from") {
  const TestFolder folder;
  CHECK(Corpus::king_james().files().empty());
  const std::string text = folder.write("text", "text");
  CHECK(Corpus::open(text).files() == std::vector<std::string>{text});
  const std::string b = folder.write("b.BIN", shard_bytes(counting(0, 7)));
  const std::string a = folder.write("a.bin", shard_bytes(counting(0, 7)));
  CHECK(Corpus::open(folder.path()).files() == std::vector<std::string>{a, b});
}

TEST_CASE("a folder is its .bin files in the order of their names") {
  const TestFolder folder;
  folder.write("c.bin", shard_bytes(counting(8, 3)));
  folder.write("a.bin", shard_bytes(counting(0, 7)));
  folder.write("b.bin", shard_bytes(counting(7, 1)));
  folder.write("notes.txt", "not a shard");
  Corpus opened = Corpus::open(folder.path());
  const Corpus corpus = std::move(opened);
  CHECK(!corpus.is_text());
  CHECK(corpus.name() == folder.path());
  REQUIRE(corpus.num_tokens() == 11);
  for (size_t i = 0; i < 11; ++i) CHECK(token_of(corpus, i) == static_cast<int32_t>(i));
}

TEST_CASE("the last tenth of the tokens, rounded up, is for validation") {
  const TestFolder folder;
  const auto [count, num_train] = GENERATE(table<size_t, size_t>(
      {{1, 0}, {2, 1}, {9, 8}, {10, 9}, {11, 9}, {19, 17}, {20, 18}, {1001, 900}}));
  const Corpus corpus = Corpus::open(folder.write("text", std::string(count, 'x')));
  CHECK(corpus.begin(Split::train) == 0);
  CHECK(corpus.end(Split::train) == num_train);
  CHECK(corpus.begin(Split::validation) == num_train);
  CHECK(corpus.end(Split::validation) == count);
}

TEST_CASE("a file that is missing, empty or no file is refused") {
  const TestFolder folder;
  CHECK(refusal([] { Corpus::open(""); }) == "--data \"\": there is no such file or folder");
  check_refused(folder.path() + "/none", "there is no such file or folder");
  check_refused(folder.path() + "/none.bin", "there is no such file or folder");
  check_refused(folder.write("empty.txt", ""), "the file is empty");
  check_refused(folder.write("empty.bin", ""), "the file is empty");
  check_refused(folder.path() + "/empty.txt/x", "cannot be read: Not a directory");

  const std::string device = "/dev/zero";
  check_refused(device, "is a device, expected a regular file");
  const std::string pipe = folder.path() + "/pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  check_refused(pipe, "is a pipe, expected a regular file");
}

TEST_CASE("a folder without shards, or with something else called .bin, is refused") {
  const TestFolder folder;
  folder.write("text.txt", "text");
  check_refused(folder.path(), "the folder holds no .bin file (token shards); a text is a file");
  REQUIRE(mkdir((folder.path() + "/a.bin").c_str(), 0700) == 0);
  CHECK(refusal([&] {
          Corpus::open(folder.path());
        }).find("a.bin: is a folder, expected a regular file") != std::string::npos);
}

TEST_CASE("a file that may not be read is refused") {
  const TestFolder folder;
  const std::string path = folder.write("secret.txt", "text");
  REQUIRE(chmod(path.c_str(), 0) == 0);
  const WithoutPrivilege without_privilege;
  check_refused(path, "cannot be read: Permission denied");
}

TEST_CASE("a damaged shard is refused") {
  const TestFolder folder;
  const std::vector<uint16_t> tokens = counting(0, 10);
  const auto refused = [&](const std::string& bytes, const std::string& what) {
    check_refused(folder.write("a.bin", bytes), what);
  };
  refused(std::string(1023, '\0'), "1023 bytes, less than the 1024 of a token shard's header");
  refused(shard_bytes(tokens, 10, 1234),
          "magic 1234, expected 20240520 (an llm.c token shard); tools/tokenize --convert makes "
          "shards of tokens without a header, as nanoGPT's prepare.py writes them");
  refused(shard_bytes(tokens, 10, 20240801, 7),
          "magic 20240801 is llm.c's Llama-3 format (uint32 tokens); expected 20240520, its GPT-2 "
          "format (uint16 tokens)");
  refused(shard_bytes(tokens, 10, 20240520, 2), "version 2 of the token shard, expected 1");
  for (const int32_t count : {9, 11, 0, -1, -2147483647 - 1, 2147483647}) {
    refused(shard_bytes(tokens, count), concat("the header says ", count,
                                               " tokens of 2 bytes, but 20 bytes follow the "
                                               "header"));
  }
  refused(shard_bytes(tokens) + "x",
          "the header says 10 tokens of 2 bytes, but 21 bytes follow the header");
  refused(shard_bytes({}), "the shard holds no token");
}

TEST_CASE("a folder with one damaged shard is refused, naming the shard") {
  const TestFolder folder;
  folder.write("a.bin", shard_bytes(counting(0, 10)));
  folder.write("b.bin", shard_bytes(counting(0, 10), 11));
  CHECK(refusal([&] {
          Corpus::open(folder.path());
        }).starts_with("--data " + folder.path() + "/b.bin: the header says 11 tokens"));
}

TEST_CASE("each split must hold a row") {
  const TestFolder folder;
  // 41 tokens: 36 for training, 5 for validation.
  const std::string path = folder.write("text", std::string(41, 'x'));
  const Corpus corpus = Corpus::open(path);
  corpus.require(256, 4);
  CHECK(refusal([&] { corpus.require(256, 5); }) ==
        "--data " + path +
            ": too short: 5 of its 41 tokens are for validation, but one sequence of "
            "--sequence-length 5 takes 6");
  CHECK(refusal([&] { corpus.require(256, 36); }).find("36 of its 41 tokens are for training") !=
        std::string::npos);
  CHECK(refusal([&] { corpus.require(256, ~size_t{0}); }) != "");
}

TEST_CASE("every token must be below the vocabulary") {
  const TestFolder folder;
  folder.write("a.bin", shard_bytes(counting(0, 50)));
  std::vector<uint16_t> tokens = counting(0, 50);
  tokens[33] = 300;
  tokens[40] = 50256;
  tokens[41] = 299;
  const std::string second = folder.write("b.bin", shard_bytes(tokens));
  const Corpus corpus = Corpus::open(folder.path());
  corpus.require(50257, 4);
  corpus.require(65536, 4);
  const auto message = [&](const std::string& token, const std::string& vocabulary) {
    return "--data " + second + ": token " + token + " is not below the vocabulary of " +
           vocabulary + "; this file needs --vocab 50257 or more";
  };
  CHECK(refusal([&] { corpus.require(300, 4); }) == message("300 at place 33", "300"));
  CHECK(refusal([&] { corpus.require(301, 4); }) == message("50256 at place 40", "301"));
  CHECK(refusal([&] { corpus.require(50256, 4); }) == message("50256 at place 40", "50256"));

  const std::string text = folder.write("text", std::string(99, 'a') + "\xff");
  CHECK(refusal([&] { Corpus::open(text).require(255, 4); }) ==
        "--data " + text +
            ": token 255 at place 99 is not below the vocabulary of 255; this file needs --vocab "
            "256 or more");
  Corpus::open(text).require(256, 4);
  const Corpus largest =
      Corpus::open(folder.write("c.bin", shard_bytes(std::vector<uint16_t>(100, uint16_t{65535}))));
  largest.require(65536, 4);
  CHECK_THROWS_AS(largest.require(65535, 4), UserError);
}

}  // namespace
}  // namespace ladder
