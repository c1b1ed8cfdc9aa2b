# What tools/exercise and tools/grade share. $root is the tree.
# shellcheck source=tools/programs/did_you_mean.sh
source "$root/tools/programs/did_you_mean.sh"

# The lessons that have an exercise.
list_lessons() {
  sed -nE 's/^    "([0-9]{2}_[a-z0-9_]+)": \{$/\1/p' "$root/tools/course/grader/exercises.bzl"
}

list_exercises() {
  local lesson
  list_lessons | while read -r lesson; do
    if [[ -d $root/exercises/$lesson ]]; then echo "$lesson  begun"; else echo "$lesson"; fi
  done
}

# usage TOOL WHY: prints why and the usage; exits with 2.
usage() {
  [[ -z $2 ]] || echo "tools/$1: $2"
  sed -nE '/^#   /s/^#   //p' "$root/tools/$1"
  echo "exercises:"
  list_lessons | sed 's/^/  /'
  exit 2
} >&2

# find_exercise TOOL BEGINNING: prints the one lesson whose name begins so.
find_exercise() {
  local found
  mapfile -t found < <(list_lessons | while read -r name; do [[ $name != "$2"* ]] || echo "$name"; done)
  if [[ -z $2 ]] || ((${#found[@]} == 0)); then
    usage "$1" "no exercise is called '$2'$(list_lessons | did_you_mean "$2")"
  fi
  ((${#found[@]} == 1)) || usage "$1" "'$2' begins the names of ${#found[@]} exercises"
  echo "${found[0]}"
}
