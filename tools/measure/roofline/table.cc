#include "tools/measure/roofline/table.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "common/io/text.h"
#include "common/model/description.h"
#include "kernels/emulator/registers.h"
#include "kernels/runtime/check.h"

namespace ladder::roofline {
namespace {

using emulator::Counts, emulator::Profile;

constexpr std::string_view kLegend =
    "`memory`, `units` and `issue` are the three bounds in ms: memory or the cache; tensor cores,\n"
    "other arithmetic or shared memory; the start of `million` instructions of warps, from nvcc's\n"
    "machine code for an H100 (`-`: not known). "
    "`asked` is what warps ask for, in sectors of 32 bytes, `moved` what memory moves for it, and\n"
    "`needed` the part of that which a kernel must read and write at least; `conflicts` the cycles "
    "of\n"
    "shared memory over those without bank conflicts; `partial` the warps' accesses in which some\n"
    "threads have no part; `diverge` the pieces of code without branches after which threads of a\n"
    "warp go different ways, in g++'s code; `warps` the part of the warps that a multiprocessor "
    "can\n"
    "hold and that it has.\n";

// Returns a part as a percentage; "-" if there is nothing to be part of.
std::string percent(double part, double whole) {
  return whole > 0 ? format("%.0f %%", 100 * part / whole) : "-";
}

// Returns a number that is not known if it is 0.
std::string known(double value, const char* pattern) {
  return value > 0 ? format(pattern, value) : "-";
}

// The time that was measured, in a column of its own where anything was.
std::string measured_column(const Row& row, bool is_measured) {
  if (!is_measured) return "";
  return row.measured > 0 ? format("%9.3f", 1e3 * row.measured) : format("%9s", "-");
}

std::string line_of(const Row& row, double step, bool is_measured) {
  const Counts& counts = row.counts;
  const double asked = counts.global_sectors * static_cast<double>(emulator::kSectorBytes);
  const double moved = counts.memory_sectors * static_cast<double>(emulator::kSectorBytes);
  const std::string conflicts =
      counts.shared_least_cycles > 0
          ? format("%.2f", counts.shared_cycles / counts.shared_least_cycles)
          : "-";
  return format("%8.3f", 1e3 * row.seconds) + measured_column(row, is_measured) +
         format(" %5s %5zu  %-13s %7.3f %7.3f %7s %7s", percent(row.seconds, step).c_str(),
                row.launches, std::string(row.bound).c_str(), 1e3 * row.memory, 1e3 * row.units,
                known(1e3 * row.issue, "%.3f").c_str(),
                known(1e-6 * row.instructions, "%.1f").c_str()) +
         format(" %9.1f %9.1f %6s %9s %7s %7s %6s  %s\n", asked / 1e6, moved / 1e6,
                percent(counts.needed_bytes, moved).c_str(), conflicts.c_str(),
                percent(counts.partial, counts.instructions).c_str(),
                percent(counts.divergent_branches, counts.basic_blocks).c_str(),
                percent(row.occupancy, row.occupancy > 0 ? 1 : 0).c_str(), row.name.c_str());
}

}  // namespace

void Row::add(const Profile& launch, const Cluster& gpu, DType dtype) {
  const Time time = time_of(gpu, launch, dtype);
  launches += 1;
  seconds += time.seconds;
  memory += time.memory;
  units += time.units;
  issue += time.issue;
  instructions += time.instructions;
  if (time.seconds > longest) {
    longest = time.seconds;
    bound = time.bound;
    occupancy = most_occupancy(gpu, launch);
  }
  counts += launch.counts;
}

std::vector<Row> rows_of(std::span<const Profile> profiles, const Cluster& gpu, DType dtype) {
  std::map<std::string, Row> by_name;
  for (const Profile& profile : profiles) {
    by_name[emulator::short_kernel_name(profile.name)].add(profile, gpu, dtype);
  }
  std::vector<Row> rows;
  for (auto& [name, row] : by_name) {
    row.name = name;
    rows.push_back(std::move(row));
  }
  std::ranges::sort(rows, std::ranges::greater(), &Row::seconds);
  return rows;
}

std::vector<std::string> add_measured(std::vector<Row>& rows, const std::string& text) {
  struct Measured {
    double milliseconds = 0;
    std::size_t launches = 0;
  };
  std::map<std::string, Measured> of_row;
  std::vector<std::string> others;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    Measured measured;
    double each = 0;
    std::string name;
    std::istringstream fields(line);
    if (!(fields >> measured.milliseconds >> measured.launches >> each)) continue;
    if (!std::getline(fields >> std::ws, name)) continue;
    if (name.starts_with("cuBLAS")) name = "cuBLAS";  // one row for all products
    auto row = std::ranges::find(rows, name, &Row::name);
    if (row == rows.end()) {
      // g++ leaves out the last arguments of a template if they are the default ones.
      row = std::ranges::find_if(rows, [&](const Row& one) {
        const std::string begin = one.name.substr(0, one.name.size() - 1) + ", ";
        return one.name.ends_with('>') && name.starts_with(begin);
      });
    }
    if (row == rows.end()) {
      others.push_back(name);
      continue;
    }
    Measured& total = of_row[row->name];
    total.milliseconds += measured.milliseconds;
    total.launches += measured.launches;
  }
  if (of_row.empty()) throw UserError("--measured: no table of LADDER_TIME_KERNELS=1 in it");
  for (Row& row : rows) {
    const Measured& measured = of_row[row.name];
    if (measured.launches == 0) continue;
    row.measured =
        1e-3 * measured.milliseconds / number_of(measured.launches) * number_of(row.launches);
  }
  return others;
}

std::string table_of(std::span<const Row> rows, const Cluster& gpu, const RunConfig& config) {
  const ModelConfig& model = config.model;
  double step = 0, measured = 0;
  for (const Row& row : rows) step += row.seconds, measured += row.measured;
  const bool is_measured = measured > 0;
  std::string text = format("%s, %s on one %s: %zu sequences of %zu tokens. %s\n\n",
                            config.model_name.c_str(), std::string(name_of(config.dtype)).c_str(),
                            gpu.name.c_str(), config.global_batch_size, model.sequence_length,
                            is_measured ? "Predicted, and measured." : "Predicted, not measured.");
  text += format("%8s%s %5s %5s  %-13s %7s %7s %7s %7s", "ms", is_measured ? " measured" : "", "",
                 "times", "bound by", "memory", "units", "issue", "million");
  text += format(" %9s %9s %6s %9s %7s %7s %6s  %s\n", "MB asked", "MB moved", "needed",
                 "conflicts", "partial", "diverge", "warps", "kernel");
  for (const Row& row : rows) text += line_of(row, step, is_measured);
  const double tokens = static_cast<double>(config.tokens_per_step());
  const size_t dtype = static_cast<size_t>(config.dtype);
  const double peak = gpu.product_flops[dtype];
  const double flops = describe(model).flops_per_token() * tokens;
  const size_t pairs = model.num_layers * model.query_columns() * model.sequence_length;
  const double causal = flops - 6 * tokens * static_cast<double>(pairs);
  text += format("\n%8.3f ms a step, %.0f tokens/s\n", 1e3 * step, tokens / step);
  if (is_measured) text += format("%8.3f ms measured, kernel by kernel\n", 1e3 * measured);
  text += format(
      "MFU %s of %.1f TFLOP/s if attention counts as 12 L C T a token, %s if as 6 L C T\n",
      percent(flops / step, peak).c_str(), peak / 1e12, percent(causal / step, peak).c_str());
  text += format(
      "\nAssumed: cuBLAS reaches %.3f of this rate in large tiles, takes %.2f times as long with a "
      "GELU,\nand other kernels reach %.2f of the tensor cores', each times how evenly its parts "
      "fill\n"
      "%zu multiprocessors;",
      gpu.product_efficiency[dtype], kGeluSlowdown, gpu.tensor_core_efficiency,
      gpu.multiprocessors);
  text +=
      format(" %.2f of %.2f TB/s; %.0f exponentials a cycle and\nmultiprocessor at %.2f GHz; ",
             gpu.memory_efficiency, gpu.memory_bandwidth / 1e12, kSpecialPerCycle, gpu.clock / 1e9);
  text += format("%.0f instructions a cycle and multiprocessor;\n", kIssuePerCycle);
  text += format("%.0f us between kernels.\n", 1e6 * gpu.least_kernel_seconds);
  text += format(
      "The cache counts as %.2f of its %.0f MB, of which what was used last is kept within a "
      "kernel,\n"
      "and gives each multiprocessor %.0f bytes a cycle.\n",
      kCachePart, static_cast<double>(gpu.cache_bytes) / (1 << 20), kCacheBytesPerCycle);
  text += kLegend;
  return text;
}

}  // namespace ladder::roofline
