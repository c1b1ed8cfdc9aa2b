// What the planner prints.
#pragma once

#include <string>

#include "lessons/19_planning/search.h"

namespace ladder {

// Returns the line that says what is planned.
std::string request_text(const PlanRequest& request, const ModelConfig& model);
// Returns the table of the first `top` plans, and how sure it is that none is faster.
std::string plans_text(const SearchResult& result, const PlanRequest& request,
                       const ModelConfig& model, size_t top);
// Returns for each family why it is not the fastest.
std::string reasons_text(const SearchResult& result, const PlanRequest& request);
// Returns the commands that simulate and run the fastest plan.
std::string commands_text(const Plan& plan, const PlanRequest& request);
// Returns how long training on so many tokens takes.
std::string tokens_text(const Plan& plan, const PlanRequest& request, const ModelConfig& model,
                        double tokens);
// Returns why there is no plan: too few seconds, or nothing fits; and what to change.
std::string no_plan_text(const SearchResult& result, const PlanRequest& request);
// Returns what memory a rank needs as a list of measures is taken one after the other, and how to
// choose among layouts on this cluster.
std::string explanation(const PlanRequest& request, const ModelConfig& model);

// Returns settings for known cards, alone, in pairs and in nodes of 8: the largest preset of the
// model's family that fits, and its fastest plan. The searches share the seconds.
std::string cards_text(bool is_gpt2, double seconds);

// Returns bytes as GiB with one decimal.
std::string gib(size_t bytes);

}  // namespace ladder
