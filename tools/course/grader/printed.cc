#include "tools/course/grader/printed.h"

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// "round 3" lines, and the numbers that a rank sends: "rank 1 sends [5 6] to rank 2".
struct Shown {
  size_t rounds = 0, most_sent = 0;
};

Shown shown_by(const std::string& out) {
  static const std::regex kSends(R"(  rank (\d+) sends \[([^\]]*)\].*)");
  Shown shown;
  std::map<std::string, size_t> sent;
  std::istringstream in(out);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("round ")) ++shown.rounds;
    std::smatch match;
    if (!std::regex_match(line, match, kSends)) continue;
    const std::string numbers = match[2];
    size_t& count = sent[match[1]];
    count += 1 + static_cast<size_t>(std::ranges::count(numbers, ' '));
    shown.most_sent = std::max(shown.most_sent, count);
  }
  return shown;
}

// Returns what the table of results lacks: a line without errors for each size from 1 KiB to 1 MiB,
// in steps of 4. Empty: nothing.
std::string untested(const std::string& out) {
  static const std::regex kRow(R"(ring +(\d+) .* 0)");
  size_t next = 1024;
  std::istringstream in(out);
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (std::regex_match(line, match, kRow) && match[1] == std::to_string(next)) next *= 4;
  }
  return next > (size_t{1} << 20) ? "" : concat("no result for ", next, " bytes is printed");
}

}  // namespace

Check right_sums(int points, const std::string& collective, const std::string& hint) {
  const auto look = [=](Grading& grading) -> std::string {
    for (size_t ranks : {2, 3, 4}) {
      const Outcome& run =
          grading.run(Whose::learner, ranks, "--algorithm ring --collective " + collective);
      const std::string wrong = run.ended_well() ? untested(run.out) : run.complaint;
      if (!wrong.empty()) return concat("on ", ranks, " ranks: ", wrong);
    }
    return {};
  };
  return {points, collective + " on 2, 3 and 4 ranks", look, hint};
}

Check ring_cost(int points, RingCost cost, const std::string& hint) {
  const auto figure = [=](const Outcome& run) {
    const Shown shown = shown_by(run.out);
    return cost == RingCost::rounds ? shown.rounds : shown.most_sent;
  };
  const auto look = [=](Grading& grading) -> std::string {
    for (const char* const collective : {"reduce_scatter", "all_gather"}) {
      const std::string flags = concat("--show ring --collective ", collective);
      // Four numbers on four ranks: every part is one number.
      const Outcome& checked =
          grading.run(Whose::learner, 4, concat("--algorithm ring --collective ", collective));
      if (!checked.ended_well() || !untested(checked.out).empty()) {
        return "not looked at: the results are not right";
      }
      const Outcome& learner = grading.run(Whose::learner, 4, flags);
      if (!learner.ended_well()) return learner.complaint;
      const size_t seen = figure(learner);
      const size_t most = figure(grading.run(Whose::lesson, 4, flags));
      const char* const what = cost == RingCost::rounds ? " rounds" : " numbers";
      if (seen > most) {
        return concat(collective, " on 4 ranks: ", seen, what, ", ", most, " would do");
      }
      if (seen < most) {
        return concat(collective, " on 4 ranks: only ", seen, " of ", most, what, " shown");
      }
    }
    return {};
  };
  const char* const name = cost == RingCost::rounds ? "rounds" : "numbers sent by a rank";
  return {points, name, look, hint};
}

Check bubble(int points, const std::string& name, const std::string& hint) {
  const std::string flags =
      " --model nano --layers 4 --steps 1 --sample 0 --evaluate-every 0 --micro-batch-size 2";
  const auto look = [=](Grading& grading) -> std::string {
    static const std::regex kBubble("bubble [0-9.]+ %");
    const auto printed = [&](Whose whose) -> std::string {
      const Outcome& run = grading.run(whose, 4, flags);
      std::smatch match;
      if (std::regex_search(run.out, match, kBubble)) return match.str();
      return run.ended_well() ? "no bubble is printed" : run.complaint;
    };
    const std::string ours = printed(Whose::learner);
    if (!ours.starts_with("bubble")) return ours;
    const std::string theirs = printed(Whose::lesson);
    return ours == theirs ? "" : concat("4 stages, 8 micro-batches: ", ours, ", not ", theirs);
  };
  return {points, name, look, hint};
}

namespace {

// What lesson 11 prints of a budget.
struct Taken {
  uint64_t bytes = 0, operations = 0;
  std::string complaint;
};

Taken taken_by(Grading& grading, Whose whose, uint64_t budget) {
  static const std::regex kTaken(
      R"(takes +([0-9,]+) bytes of activations .* computes ([0-9,]+) operations again)");
  const Outcome& run =
      grading.run(whose, 1,
                  concat("--model nano --layers 6 --global-batch-size 2 --steps 1 --sample 0 ",
                         "--evaluate-every 0 --threads 1 --activation-memory ", budget));
  std::smatch match;
  if (!run.ended_well()) return {.complaint = run.complaint};
  if (!std::regex_search(run.out, match, kTaken)) {
    return {.complaint = "prints no line 'takes ... bytes of activations'"};
  }
  const auto number = [](std::string digits) {
    std::erase(digits, ',');
    return std::stoull(digits);
  };
  return {number(match[1]), number(match[2]), ""};
}

// All activations take 812,544 bytes, and 190,464 if all is dropped.
constexpr uint64_t kBudgets[] = {812'544, 600'000, 400'000, 300'000, 250'000, 190'464};
constexpr uint64_t kCheapBudget = 561'664;  // just what GELU and the layernorms save

}  // namespace

Check activations_fit(int points, const std::string& hint) {
  const auto look = [](Grading& grading) -> std::string {
    for (uint64_t budget : kBudgets) {
      const Taken taken = taken_by(grading, Whose::learner, budget);
      if (!taken.complaint.empty()) return taken.complaint;
      if (taken.bytes > budget) {
        return concat("--activation-memory ", budget, ": activations take ", taken.bytes);
      }
    }
    return {};
  };
  return {points, "activations fit", look, hint};
}

Check operations_again(int points, Budgets budgets, const std::string& hint) {
  const auto look = [=](Grading& grading) -> std::string {
    for (uint64_t budget : kBudgets) {
      if (budgets == Budgets::cheap) budget = kCheapBudget;
      const Taken taken = taken_by(grading, Whose::learner, budget);
      if (!taken.complaint.empty()) return taken.complaint;
      if (taken.bytes > budget) return "not looked at: activations do not fit";
      const uint64_t enough = taken_by(grading, Whose::lesson, budget).operations;
      if (taken.operations > enough) {
        return concat("--activation-memory ", budget, ": ", taken.operations, " operations again; ",
                      enough, " are enough");
      }
    }
    return {};
  };
  const char* const name = budgets == Budgets::cheap ? "operations again, cheap tensors"
                                                     : "operations again, any budget";
  return {points, name, look, hint};
}

namespace {

const std::string kFp16 = "--dtype fp16 ";

std::string with_metrics(const std::string& flags) {
  return "--model nano --threads 1 --sample 0 --evaluate-every 0 --metrics metrics.jsonl " + flags;
}

// Says which of these metrics is not that of the lesson's own program, in some step; empty: none.
std::string look_at_metrics(Grading& grading, size_t num_ranks, const std::string& flags,
                            const std::vector<std::string>& names) {
  const std::string all = with_metrics(flags);
  const Outcome& learner = grading.run(Whose::learner, num_ranks, all);
  if (!learner.ended_well()) return learner.complaint;
  other_metric(learner, learner, names);  // throws if they cannot be read
  return other_metric(learner, grading.run(Whose::lesson, num_ranks, all), names);
}

}  // namespace

std::string other_line(const std::string& learner, const std::string& lesson) {
  std::istringstream ours(learner), theirs(lesson);
  std::string line, right;
  while (std::getline(theirs, right)) {
    if (!std::getline(ours, line)) return concat("ends before: ", right);
    if (line != right) return concat("'", line, "', not '", right, "'");
  }
  return std::getline(ours, line) ? concat("prints an extra line: ", line) : "";
}

Check scales(int points, const std::string& name, const std::vector<std::string>& cases,
             const std::string& hint) {
  const auto look = [=](Grading& grading) -> std::string {
    for (const std::string& flags : cases) {
      const std::string wrong =
          look_at_metrics(grading, 1, kFp16 + flags, {"loss_scale", "skipped"});
      if (!wrong.empty()) return wrong;
    }
    return {};
  };
  return {points, name, look, hint};
}

Check gives_up(int points, const std::string& flags, int step, const std::string& hint) {
  const auto look = [=](Grading& grading) -> std::string {
    const Outcome& run = grading.run(Whose::learner, 1, with_metrics(kFp16 + flags));
    if (run.ended_well()) return concat("goes on after step ", step);
    const bool is_named =
        std::regex_search(run.complaint, std::regex(concat("error:.*\\b", step, "\\b")));
    return is_named ? "" : concat("does not end in step ", step, ": ", run.complaint);
  };
  return {points, "the end of a run", look, hint};
}

Check compressed(int points, const std::string& name, size_t ranks, const std::string& flags,
                 const std::string& hint) {
  const auto look = [=](Grading& grading) {
    return look_at_metrics(grading, ranks, "--steps 6 --compression " + flags,
                           {"loss", "grad_norm"});
  };
  return {points, name, look, hint};
}

Check routed(int points, const std::string& name, size_t ranks, const std::string& flags,
             const std::string& hint) {
  const std::string all = "--dtype fp64 --steps 4 " + flags;
  const auto look = [=](Grading& grading) -> std::string {
    const std::string wrong = look_at_metrics(grading, ranks, all, {"loss", "grad_norm"});
    if (!wrong.empty()) return wrong;
    // Who kept how many choices, and dropped how many, is printed at the end.
    const auto counts = [&](Whose whose) {
      const std::string& out = grading.run(whose, ranks, with_metrics(all)).out;
      return out.substr(std::min(out.size(), out.find("  routers in the last step")));
    };
    return other_line(counts(Whose::learner), counts(Whose::lesson));
  };
  return {points, name, look, hint};
}

Check chosen(int points, const std::string& name, const std::vector<std::string>& cases,
             const std::string& hint) {
  const auto look = [=](Grading& grading) -> std::string {
    for (const std::string& flags : cases) {
      const Outcome& learner = grading.run(Whose::learner, 1, flags);
      if (!learner.ended_well()) return concat(flags, ": ", learner.complaint);
      if (learner.out.empty()) return concat("prints nothing with ", flags);
      const std::string other = other_line(learner.out, grading.run(Whose::lesson, 1, flags).out);
      if (!other.empty()) return concat(flags, ": ", other);
    }
    return {};
  };
  return {points, name, look, hint};
}

Check not_chosen(int points, const std::string& name, const std::string& flags,
                 const std::string& refusal, const std::string& hint) {
  const auto look = [=](Grading& grading) -> std::string {
    const Outcome& learner = grading.run(Whose::learner, 1, flags);
    if (learner.ended_well()) return concat(flags, ": something is chosen");
    if (learner.complaint.ends_with(refusal)) return {};
    return concat(flags, ": '", learner.complaint, "' does not end with '", refusal, "'");
  };
  return {points, name, look, hint};
}

}  // namespace ladder
