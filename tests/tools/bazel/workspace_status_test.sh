#!/usr/bin/env bash
# tools/bazel/workspace_status in a tree of its own: outside of git, clean, changed, and inside of
# another repository.
set -euo pipefail

if ! command -v git >/dev/null; then
  echo "  skipped: git is not installed"
  exit 0
fi
outer=$TEST_TMPDIR/outer
tree=$outer/tree
mkdir -p "$tree/tools/bazel"
cp tools/bazel/workspace_status "$tree/tools/bazel"
export HOME=$outer GIT_CEILING_DIRECTORIES=$TEST_TMPDIR
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a

# expect TEXT WHEN
expect() {
  local said
  said=$("$tree/tools/bazel/workspace_status")
  if [[ $said != "$1" ]]; then
    echo "$2: said '$said', expected '$1'"
    exit 1
  fi
}

commit() { git -C "$1" init -q && git -C "$1" add . && git -C "$1" commit -qm x; }

expect "" "outside of git"
commit "$outer"
expect "" "inside of another repository"
git -C "$tree" init -q
expect "" "before the first commit"
commit "$tree"
revision="BUILD_SCM_REVISION $(git -C "$tree" rev-parse HEAD)"
expect "$revision" "clean"
GIT_DIR=$outer/.git expect "$revision" "called by a git hook"
touch "$tree/new"
expect "$revision+changes" "with a new file"
echo new >"$tree/.gitignore"
commit "$tree"
expect "BUILD_SCM_REVISION $(git -C "$tree" rev-parse HEAD)" "with a file that git ignores"
echo >>"$tree/tools/bazel/workspace_status"
expect "BUILD_SCM_REVISION $(git -C "$tree" rev-parse HEAD)+changes" "with a changed file"
