// The checks of graded exercises, with programs that train nothing: they hand out files, in which
// one figure is another than in the lesson's own. Which checks lose their points follows from which
// figure it is. So nearly all that wrong solutions show is tried without building any.
#include "tools/course/grader/checks.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "common/io/dump_name.h"
#include "common/io/safetensors.h"
#include "tests/catch.h"
#include "tests/sample.h"

namespace ladder {
namespace {

using Json = nlohmann::json;

// What a run on one rank leaves.
struct Files {
  std::vector<uint64_t> held = {1000, 2000}, sent = {300, 400};  // gradients, parameters; two sums
  std::vector<uint64_t> calls = {6, 2};                          // of the two sums
  uint64_t orthogonalized = 16;
  std::vector<double> loss = {5, 4.5}, norm = {2, 1.5};  // by step
  std::vector<double> gradient = {0.5, -0.25}, parameter = {1, 2};
  bool overlaps = true;
  bool has_line = true;  // of the first sum

  std::string printed() const {
    std::string out =
        concat("  Newton-Schulz: 8 matrices x 2 steps = 16 calls, measured ", orthogonalized,
               "\npeak memory, bytes    predicted    measured\n", "  device gradients  1,000  ",
               held[0], "\n  device parameters  -  ", held[1], "\n");
    if (has_line) out += concat("  gradient all_reduce  300  ", sent[0], "\n");
    return out + concat("  parameter all_gather  400  ", sent[1], "\n");
  }
  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder / "dump");
    std::ofstream(folder / "out") << printed();
    std::ofstream metrics(folder / "metrics.jsonl");
    for (size_t i = 0; i < 2; ++i) {
      const Json sums = {{"gradient.all_reduce", {{"calls", calls[0]}}},
                         {"parameter.all_gather", {{"calls", calls[1]}}}};
      metrics << Json{{"step", i + 1},
                      {"loss", loss[i]},
                      {"grad_norm", norm[i]},
                      {"learning_rate", 0.001},
                      {"collectives", sums}}
              << "\n";
      SafetensorsWriter dump((folder / "dump" / dump_name(i + 1)).string(),
                             {{"grad.x", DType::fp64, {2}}, {"param.x", DType::fp64, {2}}});
      for (std::vector<double> values : {gradient, parameter}) {
        dump.write(TensorView(values.data(), DType::fp64, DeviceType::cpu, {2}));
      }
      dump.finish();
    }
    const double begin = overlaps ? 15 : 35;
    std::ofstream(folder / "trace.json")
        << Json{{"traceEvents",
                 {{{"name", "gradient all_reduce"}, {"pid", 0}, {"ts", 10}, {"dur", 20}},
                  {{"name", "h.1 backward"}, {"pid", 0}, {"ts", begin}, {"dur", 5}}}}};
  }
};

// Five checks of a run on one rank, in this order, and whether each gets its points.
std::vector<bool> points_of(const Files& learner, bool same_bits) {
  const Scratch folder;
  const auto program = [&](const std::string& name, const Files& files) {
    files.write(folder.path() / name);
    const std::string path = folder.write(
        name + ".sh",
        concat("#!/bin/sh\ncp -r '", (folder.path() / name).string(), "'/* . && exec cat out\n"));
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  };
  const std::string own = program("own", Files());
  Grading grading(
      {.mpirun = "", .learner = program("learner", learner), .lesson = own, .first = own});
  const Training training = {.num_ranks = 1, .same_bits = same_bits};
  std::vector<bool> points;
  for (const Check& check :
       {gradients(1, "gradients", training, ""), update(1, "update", training, ""),
        bytes_held(1, training, ""), bytes_sent(1, training, ""), orthogonalized(1, training, ""),
        overlap(1, training, "gradient all_reduce", "backward", "")}) {
    points.push_back(check.look(grading).empty());
  }
  return points;
}

using Points = std::vector<bool>;

TEST_CASE("the lesson's own files get all points") {
  CHECK(points_of(Files(), true) == Points{true, true, true, true, true, true});
}

TEST_CASE("a figure that is worse takes the points of its check, one that is better takes none") {
  testing::for_random_cases(30, [](size_t seed) {
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    Files files;
    Points expected(6, true);
    const size_t i = random() % 2, kind = seed % 10;
    const bool is_worse = random() % 3 != 0, same_bits = random() % 2 == 0;
    CAPTURE(seed, kind, i, is_worse, same_bits);
    const auto more_or_less = [&](uint64_t& figure, size_t check) {
      const uint64_t change = 1 + random() % (figure / 2);
      figure = is_worse ? figure + change : figure - change;
      if (is_worse) expected[check] = false;
    };
    // Where results are wrong, what they have cost is not looked at. Bits are results, but cost
    // nothing: such a run has the points of costs.
    const auto wrong = [&](double& value, bool is_gradient, bool in_dump) {
      const bool is_bit = !is_worse;
      value *= is_bit ? 1 + 0x1p-51 : 1.001;
      if (is_bit && (!in_dump || !same_bits)) return;
      expected[0] = !is_gradient;
      expected[1] = false;
      if (!is_bit) std::fill(expected.begin() + 2, expected.end(), false);
    };
    if (kind == 0) more_or_less(files.held[i], 2);
    if (kind == 1) more_or_less(files.sent[i], 3);
    if (kind == 2) more_or_less(files.calls[i], 3);
    if (kind == 3) {
      files.orthogonalized += is_worse ? 1 : 0;
      expected[4] = !is_worse;
    }
    if (kind == 4) wrong(files.loss[i], false, false);
    if (kind == 5) wrong(files.norm[i], false, false);
    if (kind == 6) wrong(files.gradient[i], true, true);
    if (kind == 7) wrong(files.parameter[i], false, true);
    if (kind == 8) files.overlaps = expected[5] = !is_worse;
    if (kind == 9 && is_worse) {  // what is not printed is no proof
      files.has_line = false;
      std::fill(expected.begin() + 2, expected.end(), false);
    }
    CHECK(points_of(files, same_bits) == expected);
  });
}

}  // namespace
}  // namespace ladder
