#include "lessons/00_collectives/program.h"

#include <algorithm>
#include <iomanip>
#include <iostream>

#include "common/comm/network_check.h"
#include "common/io/file.h"
#include "common/io/path.h"
#include "common/io/standard_streams.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "kernels/runtime/threads.h"
#include "lessons/00_collectives/measure.h"
#include "lessons/00_collectives/show.h"

namespace ladder {
namespace {

constexpr Collective kCollectives[] = {Collective::all_reduce, Collective::reduce_scatter,
                                       Collective::all_gather, Collective::broadcast,
                                       Collective::reduce,     Collective::all_to_all};

CLI::Validator one_of(const std::vector<std::string>& names) {
  return CLI::IsMember(names).description("");
}

Algorithm algorithm_named(const std::string& name) {
  return *std::ranges::find_if(kAlgorithms, [&](Algorithm a) { return name_of(a) == name; });
}

// Returns the ways that --algorithm names. `notes` gets the ways that are left out, and why.
std::vector<Way> ways_of(const CollectiveFlags& flags, size_t num_ranks, std::string& notes) {
  if (flags.algorithm == "shared") return {std::nullopt};
  if (flags.algorithm != "all") {
    const Algorithm algorithm = algorithm_named(flags.algorithm);
    check_supported(algorithm, flags.collective, num_ranks);
    return {algorithm};
  }
  std::vector<Way> ways;
  for (Algorithm algorithm : kAlgorithms) {
    try {
      check_supported(algorithm, flags.collective, num_ranks);
      ways.emplace_back(algorithm);
    } catch (const UserError& error) {
      notes += concat("left out: ", error.what(), "\n");
    }
  }
  ways.emplace_back(std::nullopt);
  return ways;
}

// Returns whether every rank has a core. Ranks that take turns on a core would measure the system's
// scheduler.
bool has_core_for_each(const Job& job) {
  const bool here = job.node_size() <= static_cast<size_t>(num_available_cores());
  return std::ranges::min(job.all_gather({here})) == 1;
}

void print_on_first(const Job& job, const std::string& text) {
  if (job.rank() == 0) print(text);
}

}  // namespace

void CollectiveFlags::add_to(FlagTable& flags) {
  std::vector<std::string> collectives, algorithms;
  for (Collective c : kCollectives) collectives.emplace_back(name_of(c));
  for (Algorithm a : kAlgorithms) algorithms.emplace_back(name_of(a));
  const auto set_collective = [this](const std::string& name) {
    collective =
        *std::ranges::find_if(kCollectives, [&](Collective c) { return name_of(c) == name; });
  };
  flags.add_function(
      "--collective", set_collective,
      "all_reduce, reduce_scatter, all_gather, broadcast, reduce or all_to_all [all_reduce]",
      one_of(collectives));
  CLI::Option* const show_flag =
      flags.add("--show", show, "Print every exchange of this algorithm on four numbers a rank",
                one_of(algorithms));
  CLI::Option* const network_flag =
      flags
          .add("--check-network", check_network,
               "Time 4 MiB between every two ranks, in both directions")
          ->excludes(show_flag);
  flags
      .add("--minimum-bandwidth", minimum_bandwidth, "GB/s that every two ranks must reach [0]",
           real(0, 1e6))
      ->needs(network_flag);
  algorithms.insert(algorithms.end(), {"shared", "all"});
  flags
      .add("--algorithm", algorithm,
           "naive, ring, tree, halving, shared (the communicator's own) or all [all]",
           one_of(algorithms))
      ->excludes(show_flag)
      ->excludes(network_flag);
  flags.add("--draw", draw, "File: times and fitted costs as SVG")
      ->excludes(show_flag)
      ->excludes(network_flag);
}

void show(const Job& job, const CollectiveFlags& flags) {
  print_on_first(job, show_plan(algorithm_named(flags.show), flags.collective, job.size()));
}

bool measure(Job& job, const CollectiveFlags& flags) {
  std::string notes;
  const std::vector<Way> ways = ways_of(flags, job.size(), notes);
  const bool is_timed = job.size() > 1 && has_core_for_each(job);
  const char* const why_not = job.size() == 1
                                  ? "one rank sends nothing, so there is nothing to time\n"
                                  : "more ranks than cores on a machine: checked, but not timed\n";
  if (!is_timed) notes += why_not;
  if (!is_timed && !flags.draw.empty())
    throw UserError(concat("--draw ", flags.draw, ": ", why_not));
  std::optional<PartialFile> drawing;
  if (job.rank() == 0 && !flags.draw.empty()) {
    named_by("--draw", [&] { drawing.emplace(flags.draw); });
  }
  print_on_first(job, concat(kCollectivesLesson.name, ": ", name_of(flags.collective), " on ",
                             counted(job.size(), "rank"), ", fp32", job.size() > 1 ? "; " : "",
                             job.communication(), "\n", notes));
  set_num_threads(1);
  const size_t max_bytes = size_t{is_timed ? 16U : 1U} << 20;
  Bench bench(job, flags.collective, max_bytes);
  std::vector<Measurement> measurements;
  size_t num_errors = 0;
  for (Way way : ways) {
    for (size_t bytes = 1024; bytes <= max_bytes; bytes *= 4) {
      measurements.push_back(bench.measure(way, bytes, is_timed));
      num_errors += measurements.back().errors;
    }
  }
  print_on_first(job, table_of(flags.collective, job.size(), measurements));
  if (drawing) {
    named_by("--draw", [&] {
      drawing->write(chart_of(flags.collective, job.size(), measurements));
      drawing->commit();
    });
  }
  if (num_errors > 0 && job.rank() == 0) {
    std::cerr << concat("error: ", counted(num_errors, "element"), " not as they must be\n");
  }
  return num_errors == 0;
}

bool check_network(Job& job, const CollectiveFlags& flags) {
  constexpr size_t kBytes = size_t{4} << 20;
  const std::vector<MeasuredLink> links = measure_links(job, kBytes);
  const std::vector<std::string> names = job.names();
  if (links.empty()) {
    print_on_first(job, "one rank: there is no link to check\n");
    return true;
  }
  const auto speed = [](const MeasuredLink& link) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(2) << 1e-9 * link.bytes_per_second << " GB/s";
    return text.str();
  };
  const auto name = [&](const MeasuredLink& link) {
    return concat(names[link.from], " to ", names[link.to]);
  };
  const auto [slowest, fastest] =
      std::ranges::minmax_element(links, {}, &MeasuredLink::bytes_per_second);
  print_on_first(job, concat("network: ", links.size(), " links of ", job.size(), " ranks, 4 MiB\n",
                             "  slowest  ", speed(*slowest), "  ", name(*slowest), "\n",
                             "  fastest  ", speed(*fastest), "  ", name(*fastest), "\n"));
  if (slowest->bytes_per_second >= 1e9 * flags.minimum_bandwidth) return true;
  if (job.rank() == 0) {
    std::cerr << concat("error: ", name(*slowest), ": ", speed(*slowest), ", less than ",
                        flags.minimum_bandwidth, " GB/s\n");
  }
  return false;
}

}  // namespace ladder
