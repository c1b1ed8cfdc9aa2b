// Cuts a model, a line of units, into stages that cost about the same.
#pragma once

#include <cstddef>
#include <vector>

namespace ladder {

// The first unit of each stage: contiguous stages of at least one unit, so that the dearest stage,
// which the others wait for, is as cheap as can be; among such cuts the one with the smallest sum
// of squared costs, so that the others are even too; among those the one that cuts latest, from the
// last stage on. Exact (dynamic programming).
// Units cost >= 0. UserError naming both numbers when there are more stages than units.
// REQUIRES: num_stages >= 1.
std::vector<size_t> cut_units(const std::vector<double>& costs, size_t num_stages);

// Mean over max of the stages' costs: 1 when all cost the same, 1/p when one of p does everything.
double balance(const std::vector<double>& costs, const std::vector<size_t>& cut);

}  // namespace ladder
