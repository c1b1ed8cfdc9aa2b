# What tools/exercise and tools/grade share. $root is the tree.
# shellcheck source=tools/programs/did_you_mean.sh
source "$root/tools/programs/did_you_mean.sh"

# The lessons that have an exercise.
list_lessons() {
  sed -nE 's/^    "([0-9]{2}_[a-z0-9_]+)": \{$/\1/p' "$root/tools/course/grader/exercises.bzl"
}

# The files of a lesson's exercise.
files_of() {
  sed -nE "/^    \"$1\"/,/^    }/s|^        \"//.*[:/]([a-z0-9_]+\.cc)\":.*|\1|p" "$root/tools/course/grader/exercises.bzl"
}

# Prints the hours that the exercise of a lesson takes.
hours_of() { sed -nE "s/^\| \[$1\].* \| [0-9.]+ \+ ([0-9.]+) \| .*/\1/p" "$root/notes/lessons.md"; }

list_exercises() {
  local lesson begun
  list_lessons | while read -r lesson; do
    begun=
    [[ ! -d $root/exercises/$lesson ]] || begun="  begun"
    printf '%-27s %4s h%s\n' "$lesson" "$(hours_of "$lesson")" "$begun"
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
