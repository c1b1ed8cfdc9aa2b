#include "common/io/file_format.h"

#include <string_view>

#include "common/io/printable.h"

namespace ladder {
namespace {

using namespace std::string_view_literals;

struct Format {
  std::string_view begin;  // the first bytes of the file
  const char* description;
};

constexpr const char* kPyTorch =
    "a checkpoint of PyTorch (torch.save); load it there and write it with "
    "safetensors.torch.save_file";

constexpr Format kFormats[] = {
    {"PK\x03\x04"sv, kPyTorch},                                 // a zip archive
    {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a"sv, kPyTorch},  // as it was before version 1.6
    {"\x80\x02"sv, "a Python pickle"},
    {"\x80\x03"sv, "a Python pickle"},
    {"\x80\x04"sv, "a Python pickle"},
    {"\x80\x05"sv, "a Python pickle"},
    {"GGUF"sv, "a GGUF file, as llama.cpp reads; take the model's safetensors file instead"},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file; take the model's safetensors file instead"},
    {"\x93NUMPY"sv, "a NumPy array"},
    {"\x7f"
     "ELF"sv,
     "a program"},
    {"\x1f\x8b"sv, "compressed by gzip; unpack it first"},
    {"\x88\xd8\x34\x01"sv, "a token shard of llm.c, which is for --data"},
    {"\xc6\xd7\x34\x01"sv,
     "a checkpoint of llm.c; take the safetensors file that the weights are published in"},
    {"version https://git-lfs"sv, "a pointer to a file that Git LFS has not fetched: git lfs pull"},
    {"<!DOCTYPE"sv, "a web page"},
    {"<!doctype"sv, "a web page"},
    {"<html"sv, "a web page"},
};

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

std::string describe_format(std::span<const std::byte> file) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  for (const Format& format : kFormats) {
    if (bytes.starts_with(format.begin)) return format.description;
  }
  constexpr size_t kShown = 30;
  if (!is_text(bytes.substr(0, 512))) return "";
  return "a text that begins with " + quoted_name(bytes.substr(0, kShown));
}

}  // namespace ladder
