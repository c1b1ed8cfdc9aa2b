// calibrator: measures this machine and writes a cluster's file. Started by tools/calibrate, on as
// many ranks as shall be busy at most. Exit status: 0; 2 wrong usage; 1 anything else.
#include <iostream>
#include <optional>

#include "common/io/file.h"
#include "common/io/path.h"
#include "common/train/flags/command_line.h"
#include "common/train/flags/validators.h"
#include "common/train/trainer/guarded.h"
#include "lessons/19_planning/candidate.h"
#include "tools/measure/calibrator/calibration.h"

namespace ladder {
namespace {

constexpr LessonInfo kTool = {.name = "calibrate",
                              .description =
                                  "Measures this machine: its kernels, memory and "
                                  "collectives. Writes a file for --cluster."};

struct Flags {
  std::string out = "machine.json";
  std::vector<std::string> lessons;
  std::vector<size_t> busy_ranks;

  void add_to(CLI::App& app);
  // Returns what is measured with so many ranks, the flags of lessons being `rest`.
  CalibrationRequest request(size_t num_ranks, const std::vector<std::string>& rest) const;
};

void Flags::add_to(CLI::App& app) {
  app.add_option("--out", out, "The file [machine.json]");
  app.add_option("--lesson", lessons,
                 "Measure the kernels of this lesson, such as 02_ddp; may be repeated [those from "
                 "01 to 10]");
  app.add_option("--busy-ranks", busy_ranks,
                 "Measure with so many ranks at work; may be repeated [1, 2, 4 ... all]")
      ->check(whole(1, 1'000'000));
  app.allow_extras();
  app.footer("All other flags are those of the lessons: --model, --sequence-length, --dtype ...");
}

CalibrationRequest Flags::request(size_t num_ranks, const std::vector<std::string>& rest) const {
  CalibrationRequest request;
  for (const std::string& lesson : lessons) request.runs.push_back({lesson, rest});
  for (const auto& [lesson, make] : lesson_programs()) {
    if (lessons.empty()) request.runs.push_back({lesson, rest});
  }
  request.busy_ranks = busy_ranks;
  if (busy_ranks.empty()) {
    for (size_t busy = 1; busy < num_ranks; busy *= 2) request.busy_ranks.push_back(busy);
    request.busy_ranks.push_back(num_ranks);
  }
  for (const size_t busy : request.busy_ranks) {
    if (busy <= num_ranks) continue;
    throw UserError(concat("--busy-ranks ", busy, ": more than the ", counted(num_ranks, "rank"),
                           " of this run; add -n ", busy));
  }
  return request;
}

void run_calibrator(Job& job, int argc, const char* const* argv) {
  CLI::App app(kTool.description, kTool.name);
  Flags flags;
  flags.add_to(app);
  try {
    const FlagsFile config = parse_command_line(app, argc, argv);
    check_apart({"--out", flags.out}, {"--config", config.path});
  } catch (const CLI::Success& asked) {
    if (job.rank() == 0) std::cout << asked.what();
    return;
  }
  const CalibrationRequest request = flags.request(job.size(), app.remaining());
  // Mistakes show before anything is measured.
  std::optional<PartialFile> file;
  if (job.rank() == 0) file.emplace(flags.out);
  job.connect({});
  const Cluster cluster = calibrate(request, job);
  if (!file) return;
  file->write(file_text(cluster));
  file->commit();
  size_t num_points = 0;
  for (const MeasuredKernel& kernel : cluster.kernels) num_points += kernel.points.size();
  std::cout << flags.out << ": " << cluster.device << ", " << counted(num_points, "point")
            << " of kernels and " << cluster.collectives.size() << " of collectives\n"
            << "tools/run 02_ddp --device virtual --ranks 2 --cluster " << flags.out << "\n";
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  return ladder::run_guarded(ladder::kTool,
                             [&](ladder::Job& job) { ladder::run_calibrator(job, argc, argv); });
}
