#include "common/io/file_format.h"

#include <algorithm>

#include "common/io/printable.h"

namespace ladder {
namespace {

using namespace std::string_view_literals;

struct Format {
  size_t offset;           // in the file
  std::string_view magic;  // the bytes that are there
  const char* description;
  const char* for_weights;  // what to do if weights are wanted
  const char* for_data;     // what to do if a text or token shards are wanted, null if it is a text
};

constexpr const char *kTakeWeights = "take the model's safetensors file instead",
                     *kSaveWeights =
                         "load it in PyTorch and write it with safetensors.torch.save_file",
                     *kUnpack = "unpack it first",
                     *kWriteText = "write its texts into a file, or its tokens into token shards",
                     *kNoWeights = "it holds no weights", *kNoData = "it holds no text";

constexpr Format kFormats[] = {
    {0, "PK\x03\x04"sv, "a zip archive, such as a checkpoint of PyTorch (torch.save)", kSaveWeights,
     kUnpack},
    // As torch.save wrote before version 1.6.
    {0, "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a"sv, "a checkpoint of PyTorch (torch.save)",
     kSaveWeights, kNoData},
    {0, "\x80\x02"sv, "a Python pickle", kTakeWeights, kWriteText},
    {0, "\x80\x03"sv, "a Python pickle", kTakeWeights, kWriteText},
    {0, "\x80\x04"sv, "a Python pickle", kTakeWeights, kWriteText},
    {0, "\x80\x05"sv, "a Python pickle", kTakeWeights, kWriteText},
    {0, "GGUF"sv, "a GGUF file, as llama.cpp reads", kTakeWeights, kNoData},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file", kTakeWeights, kWriteText},
    {0, "\x93NUMPY"sv, "a NumPy array", kTakeWeights,
     "tools/tokenize --convert makes token shards of tokens in it"},
    {0, "PAR1"sv, "a Parquet file", kTakeWeights, kWriteText},
    {0, "ARROW1"sv, "an Arrow file", kTakeWeights, kWriteText},
    {0, "Obj\x01"sv, "an Avro file", kTakeWeights, kWriteText},
    {0, "SQLite format 3\0"sv, "an SQLite database", kTakeWeights, kWriteText},
    {0, "MMIDIDX\0"sv, "the index of Megatron's tokens", kTakeWeights, kWriteText},
    {0, "LITPKDS"sv, "tokens that LitGPT has packed", kTakeWeights, kWriteText},
    {0, "\x7f\x45LF"sv, "a program", kTakeWeights, kNoData},
    {0, "%PDF-"sv, "a PDF document", kTakeWeights, kWriteText},
    {0, "\x89PNG\r\n\x1a\n"sv, "a picture (PNG)", kTakeWeights, kNoData},
    {0, "\xff\xd8\xff"sv, "a picture (JPEG)", kTakeWeights, kNoData},
    {0, "\x1f\x8b"sv, "compressed by gzip", kUnpack, kUnpack},
    {0, "\x28\xb5\x2f\xfd"sv, "compressed by zstd", kUnpack, kUnpack},
    {0, "\x04\x22\x4d\x18"sv, "compressed by lz4", kUnpack, kUnpack},
    {0, "\xfd\x37zXZ\0"sv, "compressed by xz", kUnpack, kUnpack},
    {4, "1AY&SY"sv, "compressed by bzip2", kUnpack, kUnpack},
    {0, "7z\xbc\xaf\x27\x1c"sv, "a 7z archive", kUnpack, kUnpack},
    {257, "ustar"sv, "a tar archive", kUnpack, kUnpack},
    {0, "\x88\xd8\x34\x01"sv, "a token shard of llm.c", "it is for --data", nullptr},
    {0, "\xc6\xd7\x34\x01"sv, "a checkpoint of llm.c",
     "take the safetensors file that the weights are published in", kNoData},
    {0, "version https://git-lfs"sv, "a pointer to a file that Git LFS has not fetched",
     "git lfs pull", "git lfs pull"},
    {0, "<!DOCTYPE"sv, "a web page", kNoWeights, nullptr},
    {0, "<!doctype"sv, "a web page", kNoWeights, nullptr},
    {0, "<html"sv, "a web page", kNoWeights, nullptr},
};

// Returns whether a file is a safetensors file: the length of the header, which is below 2^32, and
// the header's first letter. No text has a zero byte.
bool is_safetensors(std::string_view head) {
  return head.size() > 8 && head.substr(4, 5) == "\0\0\0\0{"sv;
}

// Returns whether a file is a stream of Arrow, as datasets are cached: a mark, then the length of a
// schema, which is below 2^16.
bool is_arrow_stream(std::string_view head) {
  return head.size() > 8 && head.starts_with("\xff\xff\xff\xff"sv) && head.substr(6, 2) == "\0\0"sv;
}

// Returns whether bytes look like text: no control characters, and more ASCII than other bytes.
bool is_text(std::string_view bytes) {
  size_t num_ascii = 0;
  for (const char c : bytes) {
    const bool is_space = c == '\n' || c == '\t' || c == '\r';
    if (static_cast<unsigned char>(c) < ' ' && !is_space) return false;
    num_ascii += static_cast<unsigned char>(c) < 128;
  }
  return 2 * num_ascii > bytes.size();
}

}  // namespace

std::string describe_format(std::string_view head, Wanted wanted) {
  const bool for_data = wanted == Wanted::data;
  for (const Format& format : kFormats) {
    const std::string_view magic = format.magic;
    if (head.substr(std::min(format.offset, head.size()), magic.size()) != magic) continue;
    // A text may begin with these four letters.
    if (for_data && magic.size() == 4 && is_text(magic) && is_text(head)) continue;
    const char* const advice = for_data ? format.for_data : format.for_weights;
    return advice == nullptr ? "" : std::string(format.description) + "; " + advice;
  }
  if (for_data && is_safetensors(head)) return "a safetensors file; weights are for --init";
  if (for_data && is_arrow_stream(head)) return std::string("an Arrow stream; ") + kWriteText;
  if (for_data) return "";
  constexpr size_t kShown = 30;
  if (!is_text(head.substr(0, kFormatBytes))) return "";
  return "a text that begins with " + quoted_name(head.substr(0, kShown));
}

}  // namespace ladder
