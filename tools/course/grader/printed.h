// Checks of what a program prints, each for one exercise.
#pragma once

#include <string>
#include <vector>

#include "tools/course/grader/checks.h"

namespace ladder {

// The first line of what the learner's program prints that is not the lesson's, in a sentence;
// empty: there is none.
std::string other_line(const std::string& learner, const std::string& lesson);

// Lesson 00 by its ring finds no wrong element in this collective, on 2, 3 and 4 ranks.
Check right_sums(int points, const std::string& collective, const std::string& hint);

// The ring's reduce_scatter and all_gather on four ranks, as lesson 00 shows them, cost no more
// than the lesson's own: in numbers that the busiest rank sends, or in rounds.
enum class RingCost { numbers_sent, rounds };
Check ring_cost(int points, RingCost cost, const std::string& hint);

// Lessons 08 and 16 print the bubble of a schedule with equal stages: is it the lesson's own, with
// the schedule that the lesson has without --schedule? `name`: "bubble of 1F1B".
Check bubble(int points, const std::string& name, const std::string& hint);

// Lesson 10 has the loss scale of the lesson's own program in every step, and skips the same steps,
// in each of the cases: flags of fp16 training on one rank.
Check scales(int points, const std::string& name, const std::vector<std::string>& cases,
             const std::string& hint);
// Lesson 10 gives up in this step: the run ends with an error that names it.
Check gives_up(int points, const std::string& flags, int step, const std::string& hint);

// With budgets between the smallest and all lesson 11's activations take no more than the budget.
Check activations_fit(int points, const std::string& hint);
// And backward computes no more operations again than the lesson's own program: with a budget
// that the cheapest tensors alone can meet, or with any.
enum class Budgets { cheap, all };
Check operations_again(int points, Budgets budgets, const std::string& hint);

// Lesson 12 has the losses and gradient norms of the lesson's own program in every step, to the
// bit. `flags`: of training on `ranks` ranks.
Check compressed(int points, const std::string& name, size_t ranks, const std::string& flags,
                 const std::string& hint);

// Lesson 15 has them too. `flags`: of training on `ranks` ranks in fp64.
Check routed(int points, const std::string& name, size_t ranks, const std::string& flags,
             const std::string& hint);

// Lesson 19 chooses among offers as the lesson's own program does, in each of the cases: the flags
// --measured, --tokens and limits. All that it prints is compared.
Check chosen(int points, const std::string& name, const std::vector<std::string>& cases,
             const std::string& hint);
// Lesson 19 refuses to choose where nothing keeps the limits, and says what would. `refusal`: the
// end of its message.
Check not_chosen(int points, const std::string& name, const std::string& flags,
                 const std::string& refusal, const std::string& hint);

}  // namespace ladder
