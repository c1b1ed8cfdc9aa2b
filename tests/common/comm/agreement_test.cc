// Ranks that do not agree: all of them say who differs, in what, and how.

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/mpi_main.h"

namespace ladder::testing {
namespace {

using Settings = std::vector<Setting>;

// Rank `odd` has other settings than the rest. What this rank is told; "" if nothing.
std::string told(size_t odd, const Settings& usual, const Settings& other) {
  try {
    world().require_same(world().rank() == odd ? other : usual);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("ranks that agree are told nothing") {
  CHECK(told(0, {}, {}) == "");
  CHECK(told(world().size() - 1, {{"--seed", "1"}, {"--steps", ""}},
             {{"--seed", "1"}, {"--steps", ""}}) == "");
  CHECK(world().all_same("text"));
}

TEST_CASE("every rank in turn has another value: all are told who, what and how") {
  const std::vector<std::string> names = world().names_of(MPI_COMM_WORLD);
  const std::string filler(300'000, 'x');
  const Settings usual = {{"--seed", "1"}, {"--data", filler}, {"--steps", "7"}};
  for (size_t odd = 0; odd < world().size(); ++odd) {
    // Rank 0 is what the others are compared with: where it is the odd one, rank 1 is named.
    const std::string &differs = names[std::max<size_t>(odd, 1)], &first = names[0];
    const auto sides = [&](const std::string& value, const std::string& other) {
      return odd == 0 ? concat(value, " on ", differs, ", ", other, " on ", first)
                      : concat(other, " on ", differs, ", ", value, " on ", first);
    };
    Settings other = usual;
    other[2].value.assign(1, '8');
    CHECK(told(odd, usual, other) ==
          concat("--steps: ", sides("7", "8"), "; all ranks must be started alike"));
    other = usual;
    other[0].value.assign(100, '1');
    CHECK(told(odd, usual, other) ==
          concat("--seed: ", sides("1", other[0].value), "; all ranks must be started alike"));
    CHECK_FALSE(world().all_same(world().rank() == odd ? "text" : "texu"));
  }
}

TEST_CASE("settings that another rank does not have") {
  const std::vector<std::string> names = world().names_of(MPI_COMM_WORLD);
  const size_t last = world().size() - 1;
  const Settings one = {{"--seed", "1"}}, two = {{"--seed", "1"}, {"--naive", "true"}};
  CHECK(told(last, one, two) == concat("--naive: true on ", names[last], ", but nothing: none on ",
                                       names[0], "; all ranks must be started alike"));
  CHECK(told(last, two, one) == concat("nothing: none on ", names[last], ", but --naive: true on ",
                                       names[0], "; all ranks must be started alike"));
}

}  // namespace
}  // namespace ladder::testing
