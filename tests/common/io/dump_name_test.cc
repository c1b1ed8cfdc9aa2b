// The names of dumps.
#include "common/io/dump_name.h"
#include "tests/catch.h"

namespace ladder {
namespace {

TEST_CASE("a dump's name tells its step") {
  CHECK(dump_name(1) == "step_000001.safetensors");
  CHECK(dump_name(999'999) == "step_999999.safetensors");
  CHECK(dump_name(1'234'567) == "step_1234567.safetensors");
  for (const size_t step : {size_t{0}, size_t{7}, size_t{999'999}, size_t{1'000'000'000}}) {
    CHECK(step_of_dump(dump_name(step)) == step);
  }
  for (const char* name :
       {"", "step_1.safetensors", "step_00001.safetensors", "step_000001", "step_000001.bin",
        "step_-00001.safetensors", "step_00000x.safetensors", "step_000001x.safetensors",
        "a step_000001.safetensors", "step_000001.safetensors.partial-abcdef",
        "step_99999999999999999999999.safetensors"}) {
    CHECK_FALSE(step_of_dump(name).has_value());
  }
}

}  // namespace
}  // namespace ladder
