#include "lessons/20_muon/homes_table.h"

#include <algorithm>
#include <vector>

#include "common/io/text.h"

namespace ladder {
namespace {

constexpr size_t kMostRows = 16;

}  // namespace

std::string homes_text(const MuonHomes& homes) {
  std::vector<double> flops;
  double all = 0;
  for (size_t home = 0; home < homes.size(); ++home) {
    flops.push_back(homes.flops_at(home));
    all += flops.back();
  }
  const double mean = all / static_cast<double>(homes.size());
  std::string text = "  home of     matrices     work  weights\n";
  for (size_t home = 0; home < std::min(homes.size(), kMostRows); ++home) {
    std::string names;
    for (const HomedWeight* weight : homes.at(home)) {
      names += concat(names.empty() ? "" : " ", weight->parts[0].slice->name);
    }
    if (names.size() > 48) names = names.substr(0, 45) + "...";
    text += format("  rank %-4zu %10zu %7.1f%%%s%s\n", home, homes.matrices_at(home),
                   100 * flops[home] / mean, names.empty() ? "" : "  ", names.c_str());
  }
  if (homes.size() > kMostRows) text += format("  (the first %zu)\n", kMostRows);
  return text +
         format("  the longest home has %.3f times the mean\n", std::ranges::max(flops) / mean);
}

}  // namespace ladder
