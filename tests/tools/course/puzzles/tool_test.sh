#!/usr/bin/env bash
# tools/puzzle, in a tree of its own: it hands out every puzzle, overwrites nothing, and says what is
# wrong with any function in a few lines and seconds.
set -euo pipefail
# shellcheck source=tests/expect.sh
source tests/expect.sh
export LC_ALL=C  # the compiler's quotes

tree=$TEST_TMPDIR/tree
mkdir -p "$tree"
cp -rL lessons tools "$tree"
cd "$tree"

expect 2 "tools/puzzle 00.1" tools/puzzle
expect 2 "there is no puzzle '00.9'; did you mean 00.1 or 00.2" tools/puzzle 00.9
expect 2 "there is no puzzle 'lits'" tools/puzzle lits
expect 2 "there is no puzzle '../00.1'" tools/puzzle ../00.1
expect 2 "there is no nosuchcompiler; tools/setup installs it" env CXX=nosuchcompiler tools/puzzle 00.1
[[ ! -e exercises ]]

# Every lesson has puzzles, and each is handed out with its text. This compiler only keeps what it is
# given; all of it compiles at once in two seconds.
for lesson in lessons/*; do [[ -e $lesson/puzzles/1.cc ]]; done
printf '#!/bin/sh\ncase "$*" in *syntax*) ;; *) cat >>programs.cc ;; esac\nexit 1\n' >collect
chmod +x collect
mapfile -t numbers < <(tools/puzzle list | cut -d' ' -f1)
((${#numbers[@]} >= 24))
for number in "${numbers[@]}"; do
  expect 1 "// $number " tools/puzzle "$number"
  echo >>exercises/puzzles/"$number".cc
  CXX=./collect expect 1 "" tools/puzzle "$number"
done
awk '/^int main/ {sub("main", "main_" ++n)} {print}' programs.cc >all.cc
[[ $(grep -c '^int main_' all.cc) == "${#numbers[@]}" ]]
g++ -std=c++20 -I. -fsyntax-only all.cc
[[ $(tools/puzzle list | grep -c ' begun$') == "${#numbers[@]}" ]]

# yours BODY: what the learner has written for 00.1.
yours() {
  printf '#include <%s>\n' cstdio cstdlib vector >exercises/puzzles/00.1.cc
  echo "int sent_part(int rank, int round, int ranks) {$1}" >>exercises/puzzles/00.1.cc
}

yours 'return (rank + round) % ranks;'
expect 1 "rank 0 cannot send part 1 in round 1: it has 0, 2" tools/puzzle 0.1
yours 'return (rank + ranks - round) % ranks;'
expect 0 "00.1 Pass it on: right in all 7 cases. The last one, ranks = 8:" tools/puzzle 00.1
expect 0 "The real code: lessons/00_collectives/plan.cc, ring_all_gather." tools/puzzle 00.1
expect 0 "00_collectives                   right" tools/puzzle list
mv exercises/puzzles/.00.1.right noted
ln -s /nowhere/right exercises/puzzles/.00.1.right
expect 0 "right in all 7 cases" tools/puzzle 00.1  # also where that cannot be noted
mv noted exercises/puzzles/.00.1.right
yours '
  return rank + rnd;
'
expect 1 "exercises/puzzles/00.1.cc:5:17: error: 'rnd' was not declared" tools/puzzle 00.1
expect 0 "00_collectives                   begun" tools/puzzle list
yours 'if (rank > 0) { return rank;'
cp exercises/puzzles/00.1.cc before
expect 1 "00.1 Pass it on: exercises/puzzles/00.1.cc does not compile" tools/puzzle 00.1
cmp before exercises/puzzles/00.1.cc
yours ''
expect 1 "error: no return statement" tools/puzzle 00.1
echo 'int sent_part(int rank) { return rank; }' >exercises/puzzles/00.1.cc
expect 1 "must have the function as it was, and no main(): int sent_part(int rank, int round, int ranks)" tools/puzzle 00.1

yours 'while (true) { }'
expect 1 $'wrong for ranks = 2\nyour function does not end' tools/puzzle 00.1
yours 'return sent_part(rank, round + 1, ranks) + 1;'
expect 1 $'wrong for ranks = 2\nyour function crashes' tools/puzzle 00.1
yours 'while (true) fputs("again", stderr);'
expect 1 "your function prints without end" tools/puzzle 00.1
yours 'puts("here"); return rank / round;'
expect 1 here tools/puzzle 00.1
yours 'return std::vector<int>(1 << 30).size();'
expect 1 "your function throws std::bad_alloc" tools/puzzle 00.1
yours 'return rank / round;'
expect 1 $'wrong for ranks = 2\nyour function divides by zero' tools/puzzle 00.1
yours 'throw "no idea";'
expect 1 "00.1 Pass it on: no idea" tools/puzzle 00.1
yours 'return std::vector<int>(2).at(2);'
expect 1 $'wrong for ranks = 2\nyour function throws vector' tools/puzzle 00.1
yours 'return std::vector<int>(2)[2];'
expect 1 $'wrong for ranks = 2\nyour function aborts, as it does with an index out of range' tools/puzzle 00.1
yours 'exit(0);'
expect 1 "your function ended the program, with status 0" tools/puzzle 00.1

# What is in the way of a copy stays as it is.
rm exercises/puzzles/00.1.cc
ln -s nowhere exercises/puzzles/00.1.cc
expect 1 "does not compile" tools/puzzle 00.1
[[ -L exercises/puzzles/00.1.cc && ! -e exercises/puzzles/nowhere ]]
