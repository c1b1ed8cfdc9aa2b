// Training within a deadline and a budget: what to choose from, and what is printed.
#pragma once

#include <string>
#include <vector>

#include "lessons/19_planning/choose.h"
#include "lessons/19_planning/search.h"

namespace ladder {

// What was found on some of the devices.
struct Searched {
  PlanRequest request;
  SearchResult result;
};

// Searches on all ranks of the request, on half of them, on a quarter, and so on as long as they
// can be halved. Each search has its part of the seconds.
std::vector<Searched> search_halves(const PlanRequest& request, const ModelConfig& model,
                                    size_t num_wanted, double seconds);

// Returns the fastest plan as an offer; one that does not fit if there is no plan.
Offer offer_of(const Searched& searched, const ModelConfig& model);

// Returns what was measured: "8:1.5:524288" for 8 devices and a step of 1.5 seconds with so many
// tokens, "8:oom" if 8 devices ran out of memory. Throws UserError if the text is neither.
Offer measured_offer(const std::string& text);

// Returns the table of the offers, a line each.
std::string offers_text(const std::vector<Offer>& offers, const Limits& limits);
// Returns the line that names the choice, and those that it ties with. REQUIRES: there is one.
std::string choice_text(const std::vector<Offer>& offers, const Choice& choice,
                        const Limits& limits);
// Returns why no offer will do, and with which limits one would.
std::string no_choice_text(const std::vector<Offer>& offers, const Choice& choice,
                           const Limits& limits);

}  // namespace ladder
