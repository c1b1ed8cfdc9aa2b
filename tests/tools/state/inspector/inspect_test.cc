// What is said of a file of tensors, number by number.
#include "tools/state/inspector/inspect.h"

#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// param.a (2 x 3), grad.a (2 x 3) and b (3), the last one with what is no number.
std::string write_file(const TestFolder& folder) {
  const std::string path = folder / "file.safetensors";
  SafetensorsWriter writer(
      path,
      {{"param.a", DType::fp64, {2, 3}}, {"grad.a", DType::fp32, {2, 3}}, {"b", DType::fp64, {3}}});
  const std::vector<double> a = {3, 0, -4, 0, 12, 0.5}, b = {kNan, -INFINITY, -2};
  const std::vector<float> da = {1, 1, 1, 1, 1, 1};
  writer.write(ConstTensorView(a.data(), DType::fp64, DeviceType::cpu, {a.size()}));
  writer.write(ConstTensorView(da.data(), DType::fp32, DeviceType::cpu, {da.size()}));
  writer.write(ConstTensorView(b.data(), DType::fp64, DeviceType::cpu, {b.size()}));
  writer.finish();
  return path;
}

TEST_CASE("norm, extremes, zeros and what is not finite are counted") {
  const TestFolder folder;
  const SafetensorsReader file(write_file(folder));
  const TensorSummary a = summarize(file, *file.find("param.a"));
  CHECK(a.norm == Approx(std::sqrt(9 + 16 + 144 + 0.25)).epsilon(1e-15));
  CHECK(a.minimum == -4);
  CHECK(a.maximum == 12);
  CHECK(a.num_zeros == 2);
  CHECK(a.num_not_finite == 0);
  const TensorSummary b = summarize(file, *file.find("b"));
  CHECK(b.num_not_finite == 2);
  CHECK((b.norm == 2 && b.minimum == -2 && b.maximum == -2));
}

TEST_CASE("a tensor longer than what is read at a time is summed whole") {
  const TestFolder folder;
  const std::string path = folder / "long.safetensors";
  const size_t n = (size_t{1} << 17) + 3;
  const std::vector<double> ones(n, 1);
  SafetensorsWriter writer(path, {{"x", DType::fp64, {n}}});
  writer.write(ConstTensorView(ones.data(), DType::fp64, DeviceType::cpu, {n}));
  writer.finish();
  const SafetensorsReader file(path);
  CHECK(summarize(file, file.entries()[0]).norm == std::sqrt(static_cast<double>(n)));
}

TEST_CASE("the table has a line for each tensor, the values those of all prefixes") {
  const TestFolder folder;
  const SafetensorsReader file(write_file(folder));
  const std::string table = table_of(file);
  CHECK(std::count(table.begin(), table.end(), '\n') == 3);
  CHECK_THAT(table, ContainsSubstring("param.a") && ContainsSubstring("2 x 3") &&
                        ContainsSubstring("2 zeros") && ContainsSubstring("2 NaN or infinite"));
  const std::string values = values_of(file, "a", 1, 1, 8);
  CHECK_THAT(values, ContainsSubstring("param.a") && ContainsSubstring("grad.a") &&
                         ContainsSubstring("row 1, from column 1: 12 0.5\n") &&
                         ContainsSubstring(": 1 1\n"));
  CHECK_THAT(values_of(file, "param.a", 0, 0, 2),
             ContainsSubstring(": 3 0\n") && !ContainsSubstring("grad.a"));
  CHECK_THROWS_WITH(values_of(file, "c", 0, 0, 8), ContainsSubstring("no tensor is called \"c\""));
  CHECK_THROWS_WITH(values_of(file, "a", 2, 0, 8),
                    ContainsSubstring("--at 2,0") && ContainsSubstring("2 rows"));
}

TEST_CASE("the program: exit status 2 and one line for what it cannot read") {
  const TestFolder folder;
  const std::string path = write_file(folder), log = folder / "log";
  const auto run = [&](const std::string& arguments) {
    const int status = std::system(
        concat("tools/state/inspector/inspector ", arguments, " > ", log, " 2>&1").c_str());
    return WEXITSTATUS(status);
  };
  CHECK(run(path) == 0);
  CHECK(run(path + " b --at 0,2") == 0);
  CHECK_THAT(text_of(log), ContainsSubstring("from column 2: -2"));
  CHECK(run(path + " c") == 2);
  CHECK(run(log) == 2);
  const std::string message = text_of(log);
  CHECK(std::count(message.begin(), message.end(), '\n') == 1);
  CHECK(run("") == 2);
}

}  // namespace
}  // namespace ladder
