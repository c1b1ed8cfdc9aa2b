# shellcheck shell=bash
# did_you_mean WORD < NAMES: prints "; did you mean NAME?" with the names that somebody probably meant
# who wrote WORD, or nothing. NAMES are one a line. These are the names that have the word in them, or
# else the nearest, in which at most every third letter is another. A lesson's number does not count.
did_you_mean() {
  WORD=${1,,} awk '
    # How many letters have to be added, dropped, replaced or swapped with the next one.
    function edits(a, b,   i, j, n, e) {
      for (j = 0; j <= length(b); ++j) e[0, j] = j
      for (i = 1; i <= length(a); ++i) {
        e[i, 0] = i
        for (j = 1; j <= length(b); ++j) {
          n = e[i - 1, j - 1] + (substr(a, i, 1) != substr(b, j, 1))
          if (e[i - 1, j] + 1 < n) n = e[i - 1, j] + 1
          if (e[i, j - 1] + 1 < n) n = e[i, j - 1] + 1
          if (i > 1 && j > 1 && substr(a, i, 1) == substr(b, j - 1, 1) &&
              substr(a, i - 1, 1) == substr(b, j, 1) && e[i - 2, j - 2] + 1 < n) n = e[i - 2, j - 2] + 1
          e[i, j] = n
        }
      }
      return e[length(a), length(b)]
    }
    function add(list, name) { return list (list == "" ? "" : " or ") name }
    BEGIN {
      word = ENVIRON["WORD"]
      gsub(/-/, "_", word)
      sub(/\/$/, "", word) # of a folder
      sub(/.*\//, "", word)
      is_number = word ~ /^[0-9]+$/
      sub(/^[0-9]+_/, "", word)
      fewest = int(length(word) / 3)
    }
    {
      name = $0
      gsub(/-/, "_", name)
      number = name + 0
      sub(/^[0-9]+_/, "", name)
      if (is_number) {
        if (number == word + 0) within = add(within, $0)
        next
      }
      if (length(word) > 1 && index(name, word)) within = add(within, $0)
      distance = edits(word, name)
      if (distance > fewest) next
      if (distance < fewest) near = ""
      fewest = distance
      near = add(near, $0)
    }
    END {
      if (within != "" || near != "") print "; did you mean " (within != "" ? within : near) "?"
    }'
}
