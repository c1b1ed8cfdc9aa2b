#include "common/io/safetensors.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <vector>

#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

template <class T>
ConstTensorView view(const std::vector<T>& elements) {
  return {elements.data(), dtype_of<T>, DeviceType::cpu, {elements.size()}};
}

template <class T>
std::vector<T> read(const SafetensorsReader& reader, const std::string& name) {
  const SafetensorsEntry* const entry = reader.find(name);
  REQUIRE(entry != nullptr);
  std::vector<T> elements(entry->num_elements());
  reader.read(*entry, {elements.data(), dtype_of<T>, DeviceType::cpu, {elements.size()}});
  return elements;
}

TEST_CASE("what is written is read back, as it was or converted") {
  const std::string path = temporary("round_trip.safetensors");
  const std::vector<float> floats = {1.5f, -0.0f, 1e-45f, 0.1f, -3e38f, INFINITY};
  // 1 + 2^-24 lies between two floats and rounds to the even one, 1.
  const std::vector<double> doubles = {0.1, 1 + std::ldexp(1.0, -24), 1e300};
  SafetensorsWriter writer(path, {{"z \"quoted\" \n", DType::fp32, {2, 3}},
                                  {"a", DType::fp64, {3}},
                                  {"none", DType::fp32, {0, 4}},
                                  {"scalar", DType::fp64, {}}});
  writer.write(view(floats));
  writer.write(view(doubles));
  writer.write(view(std::vector<float>{}));
  writer.write(view(std::vector<double>{7}));
  writer.finish();

  const SafetensorsReader reader(path);
  REQUIRE(reader.entries().size() == 4);
  CHECK(reader.entries()[0].name == "z \"quoted\" \n");
  CHECK(reader.entries()[0].dtype == "F32");
  CHECK(reader.entries()[0].shape == std::vector<size_t>{2, 3});
  CHECK(reader.find("a")->shape == std::vector<size_t>{3});
  CHECK(reader.find("none")->num_elements() == 0);
  CHECK(reader.find("scalar")->shape.empty());
  CHECK(reader.find("b") == nullptr);
  const std::vector<float> again = read<float>(reader, "z \"quoted\" \n");
  CHECK(std::memcmp(again.data(), floats.data(), sizeof(float) * 6) == 0);
  CHECK(read<double>(reader, "a") == doubles);
  CHECK(read<double>(reader, "z \"quoted\" \n") ==
        std::vector<double>(floats.begin(), floats.end()));
  CHECK(read<float>(reader, "a") == std::vector<float>{0.1f, 1.0f, INFINITY});
  CHECK(read<float>(reader, "none").empty());
  CHECK(read<double>(reader, "scalar") == std::vector<double>{7});
}

// Bits and what they stand for; the numbers are exact in bf16 and fp16 alike, but for the last.
template <class T>
void check_low_precision(const std::vector<std::pair<uint16_t, double>>& known) {
  const std::string path = temporary("low_precision.safetensors");
  std::vector<T> elements;
  for (const auto& [bits, value] : known) elements.push_back(T::from_bits(bits));
  SafetensorsWriter writer(path, {{"x", dtype_of<T>, {elements.size()}}});
  writer.write(view(elements));
  writer.finish();
  const SafetensorsReader reader(path);
  const auto same = [](double a, double b) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  };
  const std::vector<double> doubles = read<double>(reader, "x");
  const std::vector<float> floats = read<float>(reader, "x");
  const std::vector<T> again = read<T>(reader, "x");
  for (size_t i = 0; i < known.size(); ++i) {
    CAPTURE(i, known[i].second);
    CHECK(same(doubles[i], known[i].second));
    CHECK(same(static_cast<double>(floats[i]), known[i].second));
    CHECK(again[i].bits() == known[i].first);
  }
}

TEST_CASE("bf16 and fp16 are read exactly, and rounded to") {
  check_low_precision<bfloat16>({{0x3F80, 1.0},
                                 {0xC020, -2.5},
                                 {0x8000, -0.0},
                                 {0x0001, 0x1p-133},
                                 {0x7F7F, 0x1.FEp127},
                                 {0xFF80, -INFINITY}});
  check_low_precision<float16>({{0x3C00, 1.0},
                                {0xC100, -2.5},
                                {0x8000, -0.0},
                                {0x0001, 0x1p-24},
                                {0x7BFF, 65504.0},
                                {0xFC00, -INFINITY}});
  const std::string path = temporary("to_low_precision.safetensors");
  // Halfway between two numbers of bf16, and of fp16: to the even one; beyond fp16's largest.
  const std::vector<double> doubles = {1 + 0x1p-8, 1 + 0x1p-11, 1e5};
  SafetensorsWriter writer(path, {{"x", DType::fp64, {3}}, {"half", DType::fp16, {1}}});
  writer.write(view(doubles));
  writer.write(view(std::vector<float16>{float16::from_bits(0x3C01)}));  // 1 + 2^-10
  writer.finish();
  const SafetensorsReader reader(path);
  const auto widened = [&]<class T>(T, const char* name) {
    const std::vector<T> elements = read<T>(reader, name);
    return std::vector<float>(elements.begin(), elements.end());
  };
  CHECK(widened(bfloat16{}, "x") == std::vector<float>{1, 1, 99840});
  CHECK(widened(float16{}, "x") == std::vector<float>{1.00390625F, 1, INFINITY});
  CHECK(widened(bfloat16{}, "half") == std::vector<float>{1});
}

TEST_CASE("the written header names tensors in order and aligns the data") {
  const std::string path = temporary("aligned.safetensors");
  for (const std::string name : {"a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg"}) {
    SafetensorsWriter writer(path, {{name, DType::fp64, {1}}, {"a first", DType::fp32, {1}}});
    writer.write(view(std::vector<double>{1}));
    writer.write(view(std::vector<float>{2}));
    writer.finish();
    const std::string bytes = text_of(path);
    uint64_t length;
    std::memcpy(&length, bytes.data(), 8);
    CHECK(length % 8 == 0);
    CHECK(bytes.substr(8).starts_with("{\"__metadata__\":{\"format\":\"pt\"},"));
    CHECK(bytes.find(name + "\"") < bytes.find("a first"));
    CHECK(bytes.size() == 8 + length + 12);
  }
}

TEST_CASE("data at odd addresses, metadata and unsorted tensors are read") {
  const std::string path = temporary("odd.safetensors");
  std::string bytes =
      file_of("{\"__metadata__\":{\"format\":\"pt\"}," + tensor("b", "1", 4, 8) + "," +
                  tensor("none", "0,7", 4, 4) + "," + tensor("a", "1", 0, 4) + "}  \n",
              8);
  const size_t data = bytes.size() - 8;
  REQUIRE(data % 2 == 1);
  const float values[] = {2.5f, -3.5f};
  std::memcpy(bytes.data() + data, values, 8);
  std::ofstream(path) << bytes;
  const SafetensorsReader reader(path);
  REQUIRE(reader.entries().size() == 3);
  CHECK(reader.entries()[0].name == "a");
  CHECK(reader.entries()[2].name == "b");
  CHECK(read<float>(reader, "a") == std::vector<float>{2.5f});
  CHECK(read<double>(reader, "b") == std::vector<double>{-3.5});
}

TEST_CASE("reading refuses other dtypes and other sizes, naming the tensor") {
  const std::string path = temporary("other.safetensors");
  std::ofstream(path) << file_of(
      std::string("{") + tensor("x", "2", 0, 8) +
          ",\"short\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[8,12]}}",
      12);
  const SafetensorsReader reader(path);
  std::vector<float> elements(3);
  const auto read_into = [&](const char* name, size_t count) {
    reader.read(*reader.find(name), {elements.data(), DType::fp32, DeviceType::cpu, {count}});
  };
  CHECK_THROWS_AS(read_into("short", 2), UserError);
  CHECK_THROWS_WITH(read_into("short", 2),
                    ContainsSubstring("short") && ContainsSubstring("I16, only F32, F64"));
  CHECK_THROWS_AS(read_into("x", 3), UserError);
  CHECK_THROWS_WITH(read_into("x", 3), ContainsSubstring("\"x\" has 2 elements, expected 3"));
  SafetensorsEntry stranger = *reader.find("x");
  stranger.end = 1000;
  CHECK_THROWS_AS(reader.read(stranger, {elements.data(), DType::fp32, DeviceType::cpu, {2}}),
                  Error);
  CHECK_THROWS_AS(SafetensorsReader(temporary("nowhere")), UserError);
}

TEST_CASE("a part of a tensor is read from any element to any other") {
  const std::string path = temporary("part.safetensors");
  SafetensorsWriter writer(path, {{"first", DType::fp32, {1}}, {"x", DType::fp64, {5}}});
  writer.write(view(std::vector<float>{9}));
  writer.write(view(std::vector<double>{10, 11, 12, 13, 14}));
  writer.finish();
  const SafetensorsReader reader(path);
  const SafetensorsEntry& x = *reader.find("x");
  for (size_t first = 0; first <= 5; ++first) {
    for (size_t count = 0; first + count <= 5; ++count) {
      std::vector<float> part(count), expected(count);
      for (size_t i = 0; i < count; ++i) expected[i] = static_cast<float>(10 + first + i);
      reader.read_part(x, first, {part.data(), DType::fp32, DeviceType::cpu, {count}});
      CHECK(part == expected);
    }
  }
  std::vector<float> part(6);
  const auto read_part = [&](size_t first, size_t count) {
    reader.read_part(x, first, {part.data(), DType::fp32, DeviceType::cpu, {count}});
  };
  CHECK_THROWS_AS(read_part(0, 6), Error);
  CHECK_THROWS_AS(read_part(3, 3), Error);
  CHECK_THROWS_AS(read_part(6, 0), Error);
  CHECK_THROWS_AS(read_part(~size_t{0}, 2), Error);
}

TEST_CASE("a tensor of many blocks is converted as a whole") {
  const std::string path = temporary("long.safetensors");
  std::vector<float> floats(200'001);
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(i) * 0.5f;
  SafetensorsWriter writer(path, {{"x", DType::fp32, {floats.size()}}});
  writer.write(view(floats));
  writer.finish();
  const SafetensorsReader reader(path);
  CHECK(read<float>(reader, "x") == floats);
  CHECK(read<double>(reader, "x") == std::vector<double>(floats.begin(), floats.end()));
}

TEST_CASE("a file that is emptied between two tensors is an error that names it") {
  const std::string path = temporary("emptied.safetensors");
  std::ofstream(path) << file_of("{" + tensor("x", "2", 0, 8) + "}", 8);
  const SafetensorsReader reader(path);
  CHECK(read<float>(reader, "x").size() == 2);
  std::filesystem::resize_file(path, 0);
  for (const bool is_converted : {false, true}) {
    const auto read_again = [&] {
      if (is_converted) read<double>(reader, "x");
      if (!is_converted) read<float>(reader, "x");
    };
    CHECK_THROWS_AS(read_again(), Error);
    CHECK_THROWS_WITH(read_again(), StartsWith(path + ": was written to while"));
  }
}

TEST_CASE("a writer that does not finish leaves the old file") {
  const TestFolder folder;
  const std::string path = folder.write("old.safetensors", "old");
  {
    SafetensorsWriter writer(path, {{"x", DType::fp32, {2}}, {"y", DType::fp32, {2}}});
    writer.write(view(std::vector<float>{1, 2}));
    CHECK_THROWS_AS(writer.finish(), Error);
    CHECK_THROWS_WITH(writer.write(view(std::vector<double>{1, 2})), ContainsSubstring("\"y\""));
    CHECK_THROWS_AS(writer.write(view(std::vector<float>{1, 2, 3})), Error);
  }
  CHECK(text_of(path) == "old");
  CHECK(folder.list() == std::vector<std::string>{"old.safetensors"});
}

TEST_CASE("a full disk while tensors are written is an Error and the old file stays") {
  const std::string path = temporary("full.safetensors");
  std::ofstream(path) << "old";
  // Less than a block, which is written at the end, and more.
  const std::vector<float> large(GENERATE(10'000u, DirectWriter::kBufferBytes / 2));
  bool failed = false;
  {
    SafetensorsWriter writer(path, {{"x", DType::fp32, {large.size()}}});
    const FullDisk full(4096);
    try {
      writer.write(view(large));
      writer.finish();
    } catch (const Error&) {
      failed = true;
    }
  }
  CHECK(failed);
  CHECK(text_of(path) == "old");
}

TEST_CASE("a writer refuses what it cannot write") {
  const TestFolder folder;
  const std::string path = folder / "refused.safetensors";
  CHECK_THROWS_AS(SafetensorsWriter(folder / "no/folder/x", {}), UserError);
  using Tensors = std::vector<SafetensorsWriter::Tensor>;
  const Tensors twice = {{"x", DType::fp32, {1}}, {"x", DType::fp32, {1}}};
  const Tensors reserved = {{"__metadata__", DType::fp32, {1}}};
  CHECK_THROWS_AS(SafetensorsWriter(path, twice), Error);
  CHECK_THROWS_AS(SafetensorsWriter(path, reserved), Error);
  CHECK(folder.list().empty());
  SafetensorsWriter nothing(path, {});
  CHECK_THROWS_AS(nothing.write(view(std::vector<float>{1})), Error);
  nothing.finish();
  CHECK(SafetensorsReader(path).entries().empty());
}

}  // namespace
}  // namespace ladder
