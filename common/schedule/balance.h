// Cuts a line of items into stages that cost about the same.
#pragma once

#include <cstddef>
#include <vector>

namespace ladder {

// Returns the first item of each stage. Stages are contiguous and have at least one item. The
// most expensive stage, which the others wait for, is as cheap as possible. Among such cuts it
// takes the one with the smallest sum of squared costs, so that the other stages are even too, and
// among those the one that cuts latest, beginning with the last stage. The result is exact (dynamic
// programming). Throws a UserError that names both numbers if there are more stages than items.
// REQUIRES: costs are not negative, and num_stages >= 1.
std::vector<size_t> cut_line(const std::vector<double>& costs, size_t num_stages);

// Returns the mean of the stages' costs divided by their maximum. It is 1 if all cost the same, and
// 1/p if one of p stages does everything.
double balance(const std::vector<double>& stage_costs);

}  // namespace ladder
