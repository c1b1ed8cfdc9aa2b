#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "common/io/file_format.h"
#include "common/io/printable.h"
#include "common/io/safetensors.h"

namespace ladder {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxHeaderBytes = 100'000'000, kLengthBytes = sizeof(uint64_t);
constexpr std::string_view kMetadata = "__metadata__";

// Returns the bytes of one element, or 0 for a dtype that the format does not have.
size_t element_bytes(std::string_view dtype) {
  constexpr std::pair<std::string_view, size_t> kSizes[] = {
      {"F64", 8}, {"F32", 4}, {"F16", 2},  {"BF16", 2}, {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},   {"U64", 8},     {"U32", 4},
      {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"C64", 8},  {"F8_E8M0", 1}};
  for (const auto& [name, bytes] : kSizes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

// Receives the header's JSON event by event, and accepts exactly the header's grammar. So it sees
// duplicate keys, which a parsed object no longer shows, and refuses deep nesting when it begins.
class HeaderHandler {
 public:
  explicit HeaderHandler(const std::string& path) : path_(path) {}

  std::vector<SafetensorsEntry> entries() && { return std::move(entries_); }

  bool start_object(size_t) {
    if (section_ == Section::outside) {
      section_ = Section::header;
    } else if (section_ == Section::header) {
      section_ = name_ == kMetadata ? Section::metadata : Section::tensor;
      fields_ = {};
      metadata_keys_.clear();
    } else {
      wrong_value("an object");
    }
    return true;
  }
  bool end_object() {
    if (section_ == Section::tensor) finish_tensor();
    section_ = section_ == Section::header ? Section::outside : Section::header;
    return true;
  }
  bool start_array(size_t) {
    if (section_ != Section::tensor || key_ == "dtype") wrong_value("an array");
    section_ = Section::array;
    (key_ == "shape" ? fields_.shape : fields_.offsets).emplace();
    return true;
  }
  bool end_array() {
    section_ = Section::tensor;
    return true;
  }
  bool key(std::string& key) {
    const bool fresh = section_ == Section::header     ? names_.insert(key).second
                       : section_ == Section::metadata ? metadata_keys_.insert(key).second
                                                       : !is_set(key);
    (section_ == Section::header ? name_ : key_) = key;
    if (!fresh) {
      refuse(section_ == Section::header ? std::string("is there twice")
                                         : concat(quoted_name(key), " is there twice"));
    }
    return true;
  }
  bool string(std::string& value) {
    if (section_ == Section::metadata) return true;
    if (section_ != Section::tensor || key_ != "dtype") wrong_value("a string");
    fields_.dtype = value;
    return true;
  }
  bool number_unsigned(uint64_t value) {
    if (section_ != Section::array) wrong_value("a number");
    (key_ == "shape" ? fields_.shape : fields_.offsets)->push_back(value);
    return true;
  }
  bool number_integer(int64_t value) { return wrong_value(std::to_string(value)); }
  bool number_float(double, const std::string& text) { return wrong_value(text.substr(0, 40)); }
  // The safetensors package takes this for no metadata.
  bool null() { return (section_ == Section::header && name_ == kMetadata) || wrong_value("null"); }
  bool boolean(bool value) { return wrong_value(value ? "true" : "false"); }
  bool binary(std::vector<uint8_t>&) { return wrong_value("binary data"); }
  bool parse_error(size_t position, const std::string&, const std::exception&) {
    throw UserError(
        concat(path_, ": the header is not valid JSON in UTF-8, near its byte ", position));
  }

 private:
  enum class Section { outside, header, metadata, tensor, array };
  struct Fields {
    std::optional<std::string> dtype;
    std::optional<std::vector<size_t>> shape, offsets;
  };

  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(
        concat(path_, ": ", name_ == kMetadata ? "" : "tensor ", quoted_name(name_), ": ", what));
  }

  // Throws a UserError that says what the value at the present place should have been.
  bool wrong_value(const std::string& got) const {
    if (section_ == Section::header) refuse(concat("expected an object, got ", got));
    const bool text = section_ == Section::metadata || key_ == "dtype";
    const char* const expected = text                         ? "a string"
                                 : section_ == Section::array ? "integers from 0"
                                                              : "an array";
    refuse(concat(quoted_name(key_), ": expected ", expected, ", got ", got));
  }

  // Returns whether this field of the tensor has been seen. Throws UserError if the format has no
  // such field.
  bool is_set(const std::string& key) const {
    if (key == "dtype") return fields_.dtype.has_value();
    if (key == "shape") return fields_.shape.has_value();
    if (key == "data_offsets") return fields_.offsets.has_value();
    refuse(concat("unknown field ", quoted_name(key)));
  }

  // Checks the fields against each other and appends the tensor.
  void finish_tensor() {
    if (!fields_.dtype) refuse("\"dtype\" is missing");
    if (!fields_.shape) refuse("\"shape\" is missing");
    if (!fields_.offsets) refuse("\"data_offsets\" is missing");
    const std::vector<size_t>& offsets = *fields_.offsets;
    if (offsets.size() != 2) {
      refuse(concat("\"data_offsets\" has ", offsets.size(), " numbers, expected 2"));
    }
    if (offsets[0] > offsets[1]) {
      refuse(concat("\"data_offsets\" begin at ", offsets[0], ", after their end ", offsets[1]));
    }
    size_t bytes = element_bytes(*fields_.dtype);
    if (bytes == 0) refuse(concat("unknown dtype ", quoted_name(*fields_.dtype)));
    for (size_t extent : *fields_.shape) {
      if (__builtin_mul_overflow(bytes, extent, &bytes)) refuse("\"shape\" overflows 64 bits");
    }
    if (offsets[1] - offsets[0] != bytes) {
      refuse(concat("\"data_offsets\" hold ", offsets[1] - offsets[0],
                    " bytes, dtype and shape need ", bytes));
    }
    entries_.push_back({name_, *fields_.dtype, *fields_.shape, offsets[0], offsets[1]});
  }

  const std::string& path_;
  Section section_ = Section::outside;
  std::string name_;  // the latest key of the header
  std::string key_;   // the latest key inside a tensor or the metadata
  Fields fields_;     // the fields of the tensor that is being read
  std::set<std::string> names_, metadata_keys_;
  std::vector<SafetensorsEntry> entries_;
};

// Throws UserError unless the tensors, which are sorted by `begin`, cover `data_bytes` bytes
// without overlap or hole.
void check_coverage(const std::vector<SafetensorsEntry>& entries, size_t data_bytes,
                    const std::string& path) {
  size_t covered = 0;
  for (const SafetensorsEntry& entry : entries) {
    const auto refuse = [&](const std::string& what) {
      throw UserError(concat(path, ": tensor ", quoted_name(entry.name), ": ", what));
    };
    if (entry.end > data_bytes) {
      refuse(concat("ends at byte ", entry.end, ", the file has ", data_bytes, " bytes of data"));
    }
    if (entry.begin < covered) {
      refuse(concat("begins at byte ", entry.begin, ", inside the tensor before it, which ends at ",
                    covered));
    }
    if (entry.begin > covered) {
      refuse(concat("begins at byte ", entry.begin, ", leaving a hole after byte ", covered));
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    throw UserError(concat(path, ": ", data_bytes - covered, " bytes after the last tensor"));
  }
}

// Returns the length of the header, which is the number that a file begins with.
uint64_t header_length(std::string_view head) {
  uint64_t length = 0;
  std::memcpy(&length, head.data(), std::min(head.size(), kLengthBytes));
  return length;
}

// Returns the header's text. Throws UserError if its length cannot be right.
std::string_view header_text(std::string_view head, size_t num_bytes, const std::string& path) {
  if (num_bytes < kLengthBytes) {
    throw UserError(concat(path, ": not a safetensors file: ", num_bytes,
                           " bytes, shorter than the 8 bytes of the header's length"));
  }
  const uint64_t length = header_length(head);
  // Files of other formats have an impossible length or an impossible first letter.
  const auto refuse = [&](const std::string& what) {
    const std::string format = describe_format(head, Wanted::weights);
    throw UserError(concat(path, ": not a safetensors file", format.empty() ? ": " : " but ",
                           format.empty() ? what : format));
  };
  if (length == 0) refuse("a header of 0 bytes");
  const size_t after = num_bytes - kLengthBytes;
  if (length > after) {
    refuse(concat("a header of ", length, " bytes, of which only ", after, " are there"));
  }
  if (length > kMaxHeaderBytes) {
    refuse(concat("a header of ", length, " bytes, at most ", kMaxHeaderBytes, " are allowed"));
  }
  const std::string_view text = head.substr(kLengthBytes, length);
  if (text[0] != '{') refuse("the header is not a JSON object");
  // The JSON parser would end at a zero byte.
  if (text.find('\0') != text.npos) refuse("the header is not valid JSON, it holds a zero byte");
  return text;
}

}  // namespace

size_t SafetensorsEntry::num_elements() const {
  size_t product = 1;
  for (size_t extent : shape) product *= extent;
  return product;
}

std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view head, size_t num_bytes,
                                                       const std::string& path) {
  const std::string_view text = header_text(head, num_bytes, path);
  HeaderHandler handler(path);
  Json::sax_parse(text.begin(), text.end(), &handler);
  std::vector<SafetensorsEntry> entries = std::move(handler).entries();
  // We sort by `end` as well, so that a tensor without elements comes before the one that begins at
  // the same byte.
  std::stable_sort(entries.begin(), entries.end(), [](const auto& left, const auto& right) {
    return std::pair(left.begin, left.end) < std::pair(right.begin, right.end);
  });
  check_coverage(entries, num_bytes - kLengthBytes - text.size(), path);
  return entries;
}

std::vector<SafetensorsEntry> read_safetensors_header(const InputFile& file) {
  const uint64_t length = header_length(file.text(0, kLengthBytes));
  // In a file of another format this may be any number. Its first bytes say what it is.
  const size_t header = length <= kMaxHeaderBytes ? length : 0;
  const std::string head = file.text(0, std::max(kLengthBytes + header, kFormatBytes));
  return parse_safetensors_header(head, file.size(), file.path());
}

}  // namespace ladder
