#include "tools/course/grader/checks.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "common/io/dump_name.h"
#include "common/io/file.h"
#include "common/io/json_file.h"
#include "kernels/runtime/check.h"
#include "tools/course/grader/dumps.h"

namespace ladder {
namespace {

constexpr double kTolerance = 1e-11;

std::vector<nlohmann::json> steps_of(const Outcome& outcome) {
  std::ifstream in(outcome.folder + "/metrics.jsonl");
  std::vector<nlohmann::json> steps;
  for (std::string line; std::getline(in, line);) {
    steps.push_back(parse_json_object(line, concat("metrics.jsonl, line ", steps.size() + 1)));
  }
  return steps;
}

std::string other_figure(const Outcome& learner, const Outcome& first) {
  const auto ours = steps_of(learner), theirs = steps_of(first);
  for (size_t i = 0; i < theirs.size(); ++i) {
    for (const char* const name : {"loss", "grad_norm", "learning_rate"}) {
      if (i >= ours.size() || !ours[i][name].is_number()) return concat("no ", name, " in a step");
      const double a = ours[i][name], b = theirs[i][name];
      if (std::abs(a - b) > kTolerance * std::abs(b)) {
        return concat("step ", i + 1, ": ", name, " is ", a, ", lesson 01's is ", b);
      }
    }
  }
  return {};
}

const char* text_of(Timing timing) {
  if (timing == Timing::early) return " (if communication runs as soon as it is started)";
  if (timing == Timing::late) return " (if communication runs when it is waited for, not before)";
  return "";
}

std::string look_at_results(Grading& grading, const Training& training, bool gradients_only,
                            Timing timing) {
  const size_t n = training.num_ranks;
  const Outcome& learner = grading.train(Whose::learner, n, training.flags, {}, timing);
  // Trainers compare the copies of parameters at the end, when the dumps are there.
  const bool has_dumps = std::filesystem::exists(learner.folder + "/dump/" + dump_name(2));
  if (!has_dumps) return learner.ended_well() ? "no dump of step 2" : learner.complaint;
  const Outcome& first = grading.train(Whose::first, 1, training.first);
  std::string wrong = difference(learner, first, kTolerance, gradients_only);
  if (wrong.empty() && training.same_bits) {
    const Outcome& own = grading.train(Whose::lesson, n, training.flags);
    wrong = difference(learner, own, 0, gradients_only);
  }
  if (!wrong.empty() || gradients_only) return wrong;
  return learner.ended_well() ? other_figure(learner, first) : learner.complaint;
}

std::vector<Timing> timings_of(const Training& training) {
  if (training.has_races) return {Timing::early, Timing::late};
  return {Timing::any};
}

std::string look_at_results(Grading& grading, const Training& training, bool gradients_only) {
  for (const Timing timing : timings_of(training)) {
    const std::string wrong = look_at_results(grading, training, gradients_only, timing);
    if (!wrong.empty()) return wrong + text_of(timing);
  }
  return {};
}

// The measured bytes in the two tables that a trainer prints at its end, by the name of the line:
// "device gradients", "gradient all_reduce".
std::map<std::string, uint64_t> measured_bytes(const Outcome& outcome) {
  static const std::regex kLine(R"(  ([a-z_]+(?: +[a-z_]+)+) +(?:[0-9,]+|-) +([0-9,]+)(?: .*)?)");
  std::map<std::string, uint64_t> measured;
  std::istringstream in(outcome.out);
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, kLine)) continue;
    std::string digits = match[2];
    std::erase(digits, ',');
    measured[match[1]] = std::stoull(digits);
  }
  return measured;
}

bool is_memory(const std::string& name) {
  return name.starts_with("device ") || name.starts_with("host ");
}
bool is_control(const std::string& name) { return name.find("control") != std::string::npos; }

// Returns a line of the lesson's tables that the learner's program does not print; empty: none.
// What is not there holds no bytes and sends none, which is no proof.
std::string missing_line(const Outcome& learner, const Outcome& lesson) {
  const auto printed = measured_bytes(learner);
  for (const auto& [name, bytes] : measured_bytes(lesson)) {
    if (!printed.contains(name)) return concat("no line \"", name, "\" is printed");
  }
  return {};
}

std::string more_bytes_held(const Outcome& learner, const Outcome& lesson) {
  auto allowed = measured_bytes(lesson);
  for (const auto& [name, bytes] : measured_bytes(learner)) {
    if (is_memory(name) && bytes > allowed[name]) {
      return concat(name, ": ", bytes, " bytes held, ", allowed[name], " would do");
    }
  }
  return {};
}

std::string more_bytes_sent(const Outcome& learner, const Outcome& lesson) {
  auto allowed = measured_bytes(lesson);
  for (const auto& [name, bytes] : measured_bytes(learner)) {
    if (!is_memory(name) && !is_control(name) && bytes > allowed[name]) {
      return concat(name, ": ", bytes, " bytes sent in a step, ", allowed[name], " would do");
    }
  }
  const nlohmann::json ours = steps_of(learner).back()["collectives"];
  const nlohmann::json theirs = steps_of(lesson).back()["collectives"];
  for (const auto& [name, figures] : ours.items()) {
    const uint64_t seen = figures.at("calls");
    const uint64_t most = theirs.contains(name) ? theirs[name]["calls"].get<uint64_t>() : 0;
    if (!is_control(name) && seen > most) {
      return concat(name, ": ", seen, " calls in a step, ", most, " would do");
    }
  }
  return {};
}

// The number that is printed after some text, as it is printed; empty: there is none.
std::string printed_after(const std::string& text, const Outcome& outcome) {
  const size_t found = outcome.out.find(text);
  if (found == std::string::npos) return {};
  const size_t begin = found + text.size();
  return outcome.out.substr(begin, outcome.out.find_first_not_of("0123456789,.", begin) - begin);
}

std::string other_calls(const Outcome& learner, const Outcome& lesson) {
  const char* const text = "calls, measured ";
  const std::string ours = printed_after(text, learner), theirs = printed_after(text, lesson);
  return ours == theirs ? "" : concat("'", ours, "' calls of Newton-Schulz, not '", theirs, "'");
}

// On every rank, does some span of `computation` begin while one of `communication` lasts?
bool overlaps(const Outcome& outcome, size_t num_ranks, const std::string& communication,
              const std::string& computation) {
  const nlohmann::json trace =
      parse_json_object(read_file(outcome.folder + "/trace.json"), "trace.json");
  const nlohmann::json& spans = trace.at("traceEvents");
  std::map<size_t, std::vector<double>> begins;  // of computation, by rank
  for (const auto& span : spans) {
    const std::string name = span.at("name");
    if (name.ends_with(computation)) begins[span.at("pid")].push_back(span.at("ts"));
  }
  std::map<size_t, bool> found;
  for (const auto& span : spans) {
    if (span.at("name") != communication) continue;
    const double begin = span.at("ts"), end = begin + span.at("dur").get<double>();
    for (double time : begins[span.at("pid")]) {
      if (begin < time && time < end) found[span.at("pid")] = true;
    }
  }
  return found.size() == num_ranks;
}

using Judge = std::function<std::string(const Outcome& learner, const Outcome& lesson)>;

// A check of what right results have cost.
std::string look_at_cost(Grading& grading, const Training& training, const Judge& judge) {
  if (!look_at_results(grading, any_bits(training), false).empty()) {
    return "not looked at: the results of this run are not right";
  }
  const size_t n = training.num_ranks;
  const Outcome& learner =
      grading.train(Whose::learner, n, training.flags, {}, timings_of(training).back());
  const Outcome& lesson = grading.train(Whose::lesson, n, training.flags);
  const std::string missing = missing_line(learner, lesson);
  return missing.empty() ? judge(learner, lesson) : missing;
}

}  // namespace

Check gradients(int points, const std::string& name, const Training& training,
                const std::string& hint) {
  return {points, name, [=](Grading& g) { return look_at_results(g, training, true); }, hint};
}

Check update(int points, const std::string& name, const Training& training,
             const std::string& hint) {
  return {points, name, [=](Grading& g) { return look_at_results(g, training, false); }, hint};
}

Check bytes_held(int points, const Training& training, const std::string& hint) {
  return {points, "bytes held",
          [=](Grading& g) { return look_at_cost(g, training, more_bytes_held); }, hint};
}

Check bytes_sent(int points, const Training& training, const std::string& hint,
                 const std::string& name) {
  return {points, name, [=](Grading& g) { return look_at_cost(g, training, more_bytes_sent); },
          hint};
}

Check orthogonalized(int points, const Training& training, const std::string& hint) {
  return {points, "calls of Newton-Schulz",
          [=](Grading& g) { return look_at_cost(g, training, other_calls); }, hint};
}

Check overlap(int points, const Training& training, const std::string& communication,
              const std::string& computation, const std::string& hint) {
  const auto look = [=](Grading& grading) -> std::string {
    const auto judge = [&](const Outcome&, const Outcome&) -> std::string {
      const Outcome& slow =
          grading.train(Whose::learner, training.num_ranks, training.flags, {}, Timing::slow);
      if (!slow.ended_well()) return slow.complaint;
      if (overlaps(slow, training.num_ranks, communication, computation)) return {};
      return concat("no ", computation, " begins while a ", communication, " is under way");
    };
    return look_at_cost(grading, training, judge);
  };
  return {points, "overlap", look, hint};
}

std::string other_metric(const Outcome& learner, const Outcome& lesson,
                         const std::vector<std::string>& names) {
  const auto ours = steps_of(learner), theirs = steps_of(lesson);
  for (size_t i = 0; i < theirs.size(); ++i) {
    if (i >= ours.size()) return concat("no step ", i + 1);
    for (const std::string& name : names) {
      const auto a = ours[i].value(name, nlohmann::json()),
                 b = theirs[i].value(name, nlohmann::json());
      if (a != b) return concat("step ", i + 1, ": ", name, " is ", a.dump(), ", not ", b.dump());
    }
  }
  return {};
}

}  // namespace ladder
