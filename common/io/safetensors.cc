#include "common/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "common/io/printable.h"

namespace ladder {
namespace {

// Returns a dtype in the file's spelling.
const char* file_dtype(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return "F32";
    case DType::fp64:
      return "F64";
    case DType::int32:
      return "I32";
    case DType::bf16:
      return "BF16";
    case DType::fp16:
      return "F16";
  }
  fail(concat("safetensors: no spelling for dtype ", name_of(dtype)));
}

// Sets destination[i] to element i of a file, whose elements begin at this byte.
template <class Source, class Destination>
void read_elements(const InputFile& file, size_t begin, std::span<Destination> destination) {
  if constexpr (std::is_same_v<Source, Destination>) {
    file.read(begin, std::as_writable_bytes(destination));
  } else {
    constexpr size_t kBufferElements = 1 << 16;
    std::vector<Source> buffer(std::min(destination.size(), kBufferElements));
    for (size_t done = 0; done < destination.size(); done += buffer.size()) {
      buffer.resize(std::min(destination.size() - done, kBufferElements));
      file.read(begin + done * sizeof(Source), std::as_writable_bytes(std::span(buffer)));
      for (size_t i = 0; i < buffer.size(); ++i) {
        destination[done + i] = static_cast<Destination>(buffer[i]);
      }
    }
  }
}

// Returns the length field and the JSON text, with its padding.
std::string make_header(const std::vector<SafetensorsWriter::Tensor>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  for (const auto& [key, value] : metadata) header["__metadata__"][key] = value;
  std::set<std::string> names = {"__metadata__"};
  size_t offset = 0;
  for (const SafetensorsWriter::Tensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      fail(concat("SafetensorsWriter: the name ", quoted_name(tensor.name), " is taken"));
    }
    size_t bytes = size_of(tensor.dtype);
    for (size_t extent : tensor.shape) bytes *= extent;
    header[tensor.name] = {{"dtype", file_dtype(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string result(sizeof length, '\0');
  std::memcpy(result.data(), &length, sizeof length);
  return result + text;
}

}  // namespace

std::optional<DType> SafetensorsEntry::float_dtype() const {
  for (DType known : {DType::fp32, DType::fp64, DType::bf16, DType::fp16}) {
    if (dtype == file_dtype(known)) return known;
  }
  return std::nullopt;
}

SafetensorsReader::SafetensorsReader(const std::string& path)
    : path_(path),
      file_(path),
      entries_(read_safetensors_header(file_)),
      data_begin_(file_.size() - (entries_.empty() ? 0 : entries_.back().end)) {
  for (size_t i = 0; i < entries_.size(); ++i) by_name_.push_back(i);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](size_t left, size_t right) { return entries_[left].name < entries_[right].name; });
}

const SafetensorsEntry* SafetensorsReader::find(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](size_t i, std::string_view key) { return entries_[i].name < key; });
  if (found == by_name_.end() || entries_[*found].name != name) return nullptr;
  return &entries_[*found];
}

void SafetensorsReader::read(const SafetensorsEntry& entry, TensorView destination) const {
  if (destination.num_elements() != entry.num_elements()) {
    throw UserError(concat(path_, ": tensor ", quoted_name(entry.name), " has ",
                           entry.num_elements(), " elements, expected ",
                           destination.num_elements()));
  }
  read_part(entry, 0, destination);
}

void SafetensorsReader::read_part(const SafetensorsEntry& entry, size_t first,
                                  TensorView destination) const {
  check(entry.begin <= entry.end && entry.end <= file_.size() - data_begin_,
        "SafetensorsReader::read: an entry of another file");
  check(destination.device() == DeviceType::cpu, "SafetensorsReader::read: not host memory");
  const std::optional<DType> dtype = entry.float_dtype();
  if (!dtype) {
    throw UserError(concat(path_, ": tensor ", quoted_name(entry.name), " is ", entry.dtype,
                           ", only F32, F64, BF16 and F16 can be read"));
  }
  const size_t count = destination.num_elements();
  check(first <= entry.num_elements() && count <= entry.num_elements() - first,
        "SafetensorsReader::read: elements that the tensor has not");
  if (count == 0) return;
  check(!destination.empty(), "SafetensorsReader::read: the destination is empty");
  const size_t begin = data_begin_ + entry.begin + first * size_of(*dtype);
  dispatch_float(destination.dtype(), [&](auto zero) {
    const std::span elements(destination.as<decltype(zero)>(), count);
    dispatch_float(*dtype,
                   [&]<class Source>(Source) { read_elements<Source>(file_, begin, elements); });
  });
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, const std::vector<Tensor>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : tensors_(tensors), file_(path) {
  const std::string header = make_header(tensors, metadata);
  writer_.write(std::as_bytes(std::span(header)));
}

void SafetensorsWriter::write(ConstTensorView host_tensor) { append(host_tensor, true); }

void SafetensorsWriter::write_part(ConstTensorView host_elements) { append(host_elements, false); }

void SafetensorsWriter::append(ConstTensorView elements, bool is_whole) {
  check(next_ < tensors_.size(), "SafetensorsWriter::write: more tensors than declared");
  const Tensor& declared = tensors_[next_];
  size_t left = 1;
  for (size_t extent : declared.shape) left *= extent;
  left -= written_;
  const size_t n = elements.num_elements();
  if (elements.device() != DeviceType::cpu || elements.dtype() != declared.dtype ||
      (is_whole ? n != left || written_ > 0 : n > left) || (elements.empty() && n > 0)) {
    fail(concat("SafetensorsWriter::write: expected ", quoted_name(declared.name), " (", left,
                " elements of ", name_of(declared.dtype), "), got ", n, " elements of ",
                name_of(elements.dtype())));
  }
  writer_.write({static_cast<const std::byte*>(elements.data()), elements.num_bytes()});
  written_ += n;
  if (n < left) return;
  ++next_;
  written_ = 0;
}

void SafetensorsWriter::finish() {
  check(next_ == tensors_.size(), "SafetensorsWriter::finish: not all tensors are written");
  writer_.finish();
  file_.commit();
}

}  // namespace ladder
