#include "lessons/17_elastic/failures.h"

#include <csignal>
#include <optional>
#include <regex>

#include "common/train/flags/flag_table.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Reads "2@30,1@40"; nothing if it is something else.
std::optional<std::vector<Failure>> parse_failures(const std::string& text) {
  static const std::regex kOne(R"((\d{1,9})@([1-9]\d{0,8}))"),
      kAll(R"(\d{1,9}@[1-9]\d{0,8}(,\d{1,9}@[1-9]\d{0,8})*)");
  if (!std::regex_match(text, kAll)) return {};
  std::vector<Failure> failures;
  for (std::sregex_iterator one(text.begin(), text.end(), kOne), end; one != end; ++one) {
    failures.push_back({std::stoul((*one)[1]), std::stol((*one)[2])});
  }
  return failures;
}

}  // namespace

void add_failures(FlagTable& flags, std::vector<Failure>& failures) {
  const auto set = [&failures](const std::string& text) { failures = *parse_failures(text); };
  const auto fault = [](const std::string& text) {
    if (parse_failures(text)) return std::string();
    return concat("'", text, "' is not RANK@STEP, such as 2@30; a comma goes between several");
  };
  flags
      .add_function("--fail", set,
                    "Let a rank die in the middle of a step, once: 2@30, or 2@30,1@40 [none]",
                    CLI::Validator(fault, ""))
      ->type_name("RANK@STEP,...");
}

std::string to_text(const std::vector<Failure>& failures) {
  std::string text;
  for (const auto& [rank, step] : failures) {
    text += concat(text.empty() ? "" : ",", rank, "@", step);
  }
  return text;
}

void check_failures(const std::vector<Failure>& failures, size_t num_ranks, int64_t num_steps) {
  for (const Failure& failure : failures) {
    const std::string flag = "--fail " + to_text(std::vector{failure});
    if (failure.rank >= num_ranks) {
      throw UserError(concat(flag, ": there is no rank ", failure.rank, " among ",
                             counted(num_ranks, "rank"), ", which begin with 0"));
    }
    if (failure.step > num_steps) {
      throw UserError(concat(flag, ": beyond the last step (--steps ", num_steps, ")"));
    }
  }
}

void DeathInBackward::on_range(std::string_view name, Time begin, Time end) {
  if (name.ends_with("backward")) std::raise(SIGKILL);
  ScopedObserver::on_range(name, begin, end);
}

}  // namespace ladder
