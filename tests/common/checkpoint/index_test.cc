// The index of a checkpoint: read as it was written, and refused in one line when it is not that.
#include "common/checkpoint/index.h"

#include <cctype>
#include <cstring>
#include <functional>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/checkpoint/indexes.h"

namespace ladder {
namespace {

using Json = nlohmann::json;

constexpr const char* kPath = "c/step_00000050/checkpoint.json";

// What is said of a text; "" if it is an index.
std::string refusal(const std::string& text) {
  try {
    parse_index(text, kPath);
  } catch (const UserError& error) {
    const std::string message = error.what();
    CHECK_THAT(message, StartsWith(concat(kPath, ": ")) && !ContainsSubstring("\n"));
    CHECK(message.size() < 500);
    return message.substr(std::string(kPath).size() + 2);
  }
  return "";
}

const std::string& good_text() {
  static const std::string text =
      to_text(whole_index(kSmall, {.pipeline_size = 2, .data_size = 2, .tensor_size = 2}));
  return text;
}

TEST_CASE("an index is read as it was written") {
  const CheckpointIndex read = parse_index(good_text(), kPath);
  CHECK(to_text(read) == good_text());
  CHECK(read.step() == 50);
  CHECK(read.lesson == "09_3d_parallel");
  CHECK(layout_text(read.layout) == "data=2,pipeline=2,tensor=2");
  CHECK((read.model.num_layers == 2 && read.model.num_heads == 4 && read.model.hidden == 8));
  CHECK((read.model.vocab_size == 11 && read.model.sequence_length == 5));
  CHECK(read.settings.at("--data") == "7 tokens");
  CHECK(std::get<int64_t>(read.scalars.at("updates")) == 49);
  CHECK(std::get<double>(read.scalars.at("loss_scale")) == 65536);
  const StoredTensor& tensor = read.tensors.at("exp_avg.h.1.attn.c_attn.weight");
  CHECK(tensor.shape == std::vector<size_t>{8, 24});
  REQUIRE(tensor.slices.size() == 2);
  // The second stage has h.1. Its ranks are 4 to 7; the tensor lies in the shards of 4 and 5, which
  // are the tensor ranks of the first data rank.
  CHECK(tensor.slices[1].rank == 5);
  CHECK(tensor.slices[1].elements.ranges.first == 4);
  CHECK(tensor.slices[1].elements.ranges.length == 4);
  CHECK(tensor.slices[1].elements.ranges.stride == 8);
  CHECK(tensor.slices[1].checksums == std::vector<uint64_t>{0x0123456789abcdefu + 5});
}

TEST_CASE("numbers of the state keep their bits") {
  CheckpointIndex index = whole_index(kSmall, {});
  const double value = GENERATE(0.1, -0.0, 1e300, 5e-324, 3.0);
  const int64_t count = GENERATE(int64_t{0}, INT64_MAX, INT64_MIN);
  index.scalars["value"] = value;
  index.scalars["count"] = count;
  const CheckpointIndex read = parse_index(to_text(index), kPath);
  const double back = std::get<double>(read.scalars.at("value"));
  CHECK(std::memcmp(&back, &value, sizeof value) == 0);
  CHECK(std::get<int64_t>(read.scalars.at("count")) == count);
}

TEST_CASE("a changed byte anywhere is found") {
  const std::string text = to_text(whole_index({1, 1, 1, 2, 1}, {}));
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    CAPTURE(i, damaged.substr(i > 20 ? i - 20 : 0, 40));
    // White space is no part of what is said: a blank for a line break changes nothing.
    const bool is_white = std::isspace(static_cast<unsigned char>(damaged[i])) != 0;
    if (!is_white) REQUIRE(refusal(damaged) != "");
  }
}

TEST_CASE("a text that is cut off anywhere is refused") {
  const std::string text = to_text(whole_index({1, 1, 1, 2, 1}, {}));
  const size_t end = text.find_last_of('}');
  for (size_t size = 0; size <= end; ++size) {
    CAPTURE(size);
    REQUIRE_THAT(refusal(text.substr(0, size)), ContainsSubstring("is not valid JSON"));
  }
}

TEST_CASE("what is no index is refused in one line") {
  const auto [text, why] = GENERATE(table<std::string, std::string>({
      {"", "is not valid JSON"},
      {"\xff", "is not valid JSON in UTF-8"},
      {"{\"a\":\"\xff\"}", "is not valid JSON in UTF-8"},
      {"null", "expected a JSON object"},
      {"[]", "expected a JSON object"},
      {"{}", "is not the index of a checkpoint"},
      {R"({"format":"another"})", "is not the index of a checkpoint"},
      {R"({"format":"ladder checkpoint"})", "\"version\" is missing"},
      {R"({"a":1,"a":2})", "\"a\" is there twice"},
      {R"({"b":{"c":1,"a\n":1,"a\n":2}})", "\"a\\n\" is there twice"},
      {std::string(100'000, '['), "nests too deep"},
      {R"({"a":)" + std::string(64, '[') + std::string(64, ']') + "}", "nests too deep"},
      {R"({"a":)" + std::string(63, '[') + std::string(63, ']') + "}", "is not the index"},
  }));
  CAPTURE(text.substr(0, 100));
  CHECK_THAT(refusal(text), ContainsSubstring(why));
}

TEST_CASE("a text that is larger than any index is refused before it is parsed") {
  const std::string text(size_t{300} << 20, ' ');
  CHECK_THAT(refusal(text), ContainsSubstring("has 314572800 bytes"));
}

// A change of a good index, and what is said of it. The checksum is made to fit.
using Change = std::function<void(Json&)>;
std::string refusal_after(const Change& change) {
  Json json = Json::parse(good_text());
  change(json);
  return refusal(sealed(json));
}

TEST_CASE("a checksum that fits leaves an index as it was") {
  CHECK(refusal_after([](Json&) {}) == "");
}

TEST_CASE("only where gradients may overflow has a checkpoint no update") {
  const auto after = [](const char* dtype, int64_t updates) {
    return refusal_after([&](Json& json) {
      json["dtype"] = dtype;
      json["scalars"]["updates"] = updates;
    });
  };
  CHECK(after("fp16", 0) == "");
  CHECK(after("fp32", 1) == "");
  for (const char* dtype : {"fp32", "fp64", "bf16"}) {
    CHECK(after(dtype, 0) == "\"updates\": expected an integer from 1 to the step, 50");
  }
}

TEST_CASE("fields of the index that are wrong are named") {
  const auto [pointer, value, why] = GENERATE(table<std::string, Json, std::string>({
      {"/version", 2, "has version 2 of the format, this program knows up to 1"},
      {"/version", 0, "\"version\": 0 is not in 1 to"},
      {"/version", -1, "\"version\": expected integers from 0"},
      {"/version", "1", "\"version\": expected integers from 0"},
      {"/lesson", 9, "\"lesson\": expected a string"},
      {"/model", 9, "model: expected an object"},
      {"/model/layers", 0, "model: \"layers\": 0 is not in 1 to"},
      {"/model/layers", 1e9, "model: \"layers\": expected integers"},
      {"/model/heads", 3, "model: --heads 3 does not divide --hidden 8"},
      {"/model/norm", "batchnorm", "model: \"norm\": batchnorm, expected layernorm or rmsnorm"},
      {"/model/norm", 1, "\"norm\": expected a string"},
      {"/model/mlp", "swiglu", "model: --mlp swiglu: goes with --norm rmsnorm"},
      {"/model/hidden", 16, "has another shape than in the model"},
      {"/model/vocab", 12, "has another shape than in the model"},
      {"/model/layers", 1, "tensor \"exp_avg.h.1.attn.c_attn.bias\": is not part of the model"},
      {"/model/layers", 3, "tensor exp_avg.h.2.attn.c_attn.bias is missing"},
      {"/layout/data", 0, "layout: \"data\": 0 is not in 1 to"},
      {"/layout/data", 1'000'000, "layout: \"data\": 1000000 is not in 1 to 500000"},
      {"/layout/data", 1, "a slice of rank 4 of 4 ranks"},
      {"/dtype", "fp8", "\"fp8\" is not fp32"},
      {"/dtype", "int32", "\"int32\" is not fp32"},
      {"/scalars", Json::array(), "\"scalars\": expected an object"},
      {"/scalars/step", 0, "\"step\": expected an integer from 1"},
      {"/scalars/step", 1.5, "\"step\": expected an integer from 1"},
      {"/scalars/step", UINT64_MAX, "scalar \"step\": expected a number"},
      {"/scalars/step", -1, "\"step\": expected an integer from 1"},
      {"/scalars/step", INT64_MIN, "\"step\": expected an integer from 1"},
      {"/scalars/updates", UINT64_MAX, "scalar \"updates\": expected a number"},
      {"/scalars/updates", -1, "\"updates\": expected an integer from 1 to the step, 50"},
      {"/scalars/updates", 0, "\"updates\": expected an integer from 1 to the step, 50"},
      {"/scalars/updates", 51, "\"updates\": expected an integer from 1 to the step, 50"},
      {"/scalars/updates", INT64_MAX, "\"updates\": expected an integer from 1 to the step, 50"},
      {"/scalars/updates", 49.0, "\"updates\": expected an integer from 1 to the step, 50"},
      {"/scalars/updates", "1", "scalar \"updates\": expected a number"},
      {"/scalars/updates", nullptr, "scalar \"updates\": expected a number"},
      {"/settings", nullptr, "\"settings\": expected an object"},
      {"/settings", "x", "\"settings\": expected an object"},
      {"/settings/--seed", 1, "\"--seed\": expected a string"},
      {"/tensors", 1, "\"tensors\": expected an object"},
      {"/tensors/param.wte.weight", 1, "tensor \"param.wte.weight\": expected an object"},
  }));
  CAPTURE(pointer, value);
  CHECK_THAT(refusal_after(
                 [&, at = pointer, to = value](Json& json) { json[Json::json_pointer(at)] = to; }),
             ContainsSubstring(why));
}

TEST_CASE("fields of the index that are missing are named") {
  const std::string field =
      GENERATE("version", "lesson", "model", "layout", "dtype", "scalars", "settings", "tensors");
  CHECK_THAT(refusal_after([&](Json& json) { json.erase(field); }),
             ContainsSubstring(concat("\"", field, "\" is missing")));
  CHECK_THAT(refusal_after([](Json& json) { json["scalars"].erase("updates"); }),
             ContainsSubstring("\"updates\": expected an integer from 1"));
  Json json = Json::parse(good_text());
  json.erase("checksum");
  CHECK_THAT(refusal(json.dump()), ContainsSubstring("\"checksum\" is missing"));
}

TEST_CASE("tensors that are not the model's are named") {
  CHECK_THAT(refusal_after([](Json& json) { json["tensors"].erase("exp_avg.wpe.weight"); }),
             ContainsSubstring("tensor exp_avg.wpe.weight is missing"));
  const std::string name = GENERATE("param.h.2.ln_1.bias", "param", "wte.weight", "param.", "",
                                    "param.../../etc/passwd", "a\nb");
  CAPTURE(name);
  CHECK_THAT(refusal_after(
                 [&](Json& json) { json["tensors"][name] = json["tensors"]["param.wte.weight"]; }),
             ContainsSubstring("is not part of the model"));
  // A kind that this program does not know may be there, if it is whole.
  const auto add_kind = [](Json& json) {
    json["tensors"]["error.wte.weight"] = json["tensors"]["param.wte.weight"];
  };
  CHECK(refusal_after(add_kind) == "");
}

TEST_CASE("slices that cannot be right are named with their tensor") {
  // Of (11, 8) elements: rows 0 to 5 of tensor rank 0, on ranks 0 and 2, and rows 6 to 10.
  const std::string tensor = "param.wte.weight";
  const auto [pointer, value, why] = GENERATE(table<std::string, Json, std::string>({
      {"/shape", {8, 11}, "has another shape than in the model"},
      {"/shape", {88}, "has another shape than in the model"},
      {"/shape", Json::array(), "\"shape\": expected one or two integers"},
      {"/shape", {1, 2, 3}, "\"shape\": expected one or two integers"},
      {"/shape", {size_t{1} << 40, size_t{1} << 40}, "\"shape\": 1099511627776 is not in 1 to"},
      {"/dtype", "F32", "\"F32\" is not fp32"},
      {"/slices", nullptr, "\"slices\": expected an array"},
      {"/slices", Json::array(), "element 0 is in no slice"},
      {"/slices/0", 1, "expected an object"},
      {"/slices/0/rank", "../../rank_0000", "\"rank\": expected integers from 0"},
      {"/slices/0/rank", -1, "\"rank\": expected integers from 0"},
      {"/slices/0/rank", 8, "a slice of rank 8 of 8 ranks"},
      {"/slices/0/rank", 10'000'000, "\"rank\": 10000000 is not in 0 to 1000000"},
      {"/slices/1/rank", 0, "two slices of rank 0"},
      {"/slices/0/runs", {0, 48}, "\"runs\": expected 3 integers"},
      {"/slices/0/runs", {0, 0, 48}, "a slice with ranges 0, 0, 48"},
      {"/slices/0/runs", {0, 48, 1}, "a slice with ranges 0, 48, 1"},
      {"/slices/0/runs", {88, 48, 48}, "a slice with ranges 88, 48, 48"},
      {"/slices/0/runs", {80, 48, 48}, "goes beyond the tensor's 88 elements"},
      {"/slices/0/runs", {0, 1, 88}, "goes beyond the tensor's 88 elements"},
      {"/slices/0/runs", {1, 48, 48}, "element 0 is in no slice"},
      {"/slices/0/range", {0}, "\"range\": expected 2 integers"},
      {"/slices/0/range", {0, 0}, "and range 0, 0 of 88 elements"},
      {"/slices/0/range", {80, 9}, "and range 80, 9 of 88 elements"},
      {"/slices/0/range", {0, UINT64_MAX}, "is not in 0 to 88"},
      {"/slices/0/checksums", nullptr, "\"checksums\": expected 1, one for each file block"},
      {"/slices/0/checksums", Json::array(), "\"checksums\": expected 1, one for each file block"},
      {"/slices/0/checksums", {"0", "1"}, "\"checksums\": expected 1, one for each file block"},
      {"/slices/0/checksums", {1}, "expected strings of 16 hexadecimal digits"},
      {"/slices/0/checksums", {"0123456789ABCDEF"}, "expected strings of 16 hexadecimal digits"},
  }));
  CAPTURE(pointer, value);
  const std::string said = refusal_after([&, at = pointer, to = value](Json& json) {
    json["tensors"][tensor][Json::json_pointer(at)] = to;
  });
  CHECK_THAT(said, StartsWith("tensor \"param.wte.weight\": ") && ContainsSubstring(why));
}

TEST_CASE("elements in two slices or in none are named") {
  const auto change_slices = [](const Change& change) {
    return refusal_after(
        [&](Json& json) { change(json["tensors"]["param.wpe.weight"]["slices"]); });
  };
  // Two data ranks share 40 elements of tensor rank 0: 32 and 8.
  CHECK(change_slices([](Json& slices) { REQUIRE(slices.size() == 2); }) == "");
  CHECK_THAT(change_slices([](Json& slices) { slices[0]["range"][1] = 31; }),
             ContainsSubstring("element 31 is in no slice"));
  CHECK_THAT(change_slices([](Json& slices) { slices[0]["range"][1] = 33; }),
             ContainsSubstring("element 32 is in two slices"));
  CHECK_THAT(change_slices([](Json& slices) { slices.erase(1); }),
             ContainsSubstring("element 32 is in no slice"));
}

TEST_CASE("names of files come from numbers") {
  CHECK(rank_file_name(3) == "rank_0003.safetensors");
  CHECK(rank_file_name(123456) == "rank_123456.safetensors");
  CHECK(rank_of_file("rank_0003.safetensors") == 3);
  CHECK(rank_of_file("rank_123456.safetensors") == 123456);
  for (const char* name : {"rank_3.safetensors", "rank_00003.safetensors", "rank_0003", "rank_",
                           "rank_-003.safetensors", "rank_0003.safetensors.json", ""}) {
    CAPTURE(name);
    CHECK(rank_of_file(name) == std::nullopt);
  }
}

}  // namespace
}  // namespace ladder
