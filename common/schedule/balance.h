// Cuts a line of pieces into stages that cost about the same.
#pragma once

#include <cstddef>
#include <vector>

namespace ladder {

// The first piece of each stage. Stages are contiguous and have at least one piece. The most
// expensive stage, which the others wait for, is as cheap as it can be; among such cuts we take the
// one with the smallest sum of squared costs, so that the other stages are even, too; among those
// the one that cuts latest, from the last stage on. Exact (dynamic programming). Pieces cost >= 0.
// UserError naming both numbers when there are more stages than pieces. REQUIRES: num_stages >= 1.
std::vector<size_t> cut_line(const std::vector<double>& costs, size_t num_stages);

// Mean over maximum of the stages' costs: 1 when all cost the same, 1/p when one of p does
// everything.
double balance(const std::vector<double>& stage_costs);

}  // namespace ladder
