#!/usr/bin/env bash
# What is said of a repository that is clean, edited, extended, or none.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

script=$PWD/$1
cd -- "$(mktemp -d)"
export HOME=$PWD GIT_CONFIG_NOSYSTEM=1
unset GIT_DIR GIT_WORK_TREE

expect() {  # expect WHAT TEXT
  local got
  got=$("$script") || { echo "FAILED: $1: exit code $?"; exit 1; }
  [[ $got == "$2" ]] || { echo "FAILED: $1: expected '$2', got '$got'"; exit 1; }
}

expect "no repository" ""
git init --quiet .
expect "no commit yet" ""
mkdir base docs
echo one >base/a.cc
git add .
git -c user.name=t -c user.email=t@example.org commit --quiet -m one
commit=$(git rev-parse HEAD)
clean="STABLE_GIT_COMMIT $commit"$'\n'"STABLE_GIT_DIRTY false"
dirty="STABLE_GIT_COMMIT $commit"$'\n'"STABLE_GIT_DIRTY true"
expect "clean" "$clean"
echo two >docs/page.md
echo '{}' >my_suite.json
expect "a page and a suite of the user's" "$clean"
echo two >base/a.cc
expect "edited" "$dirty"
git checkout --quiet base/a.cc
mkdir -p models/mixers/mine
echo new >models/mixers/mine/mine.cc
expect "a new unit" "$dirty"
PATH=$(mktemp -d):/nowhere
expect_without_git() {
  local got
  got=$(/bin/bash "$script") || { echo "FAILED: no git: exit code $?"; exit 1; }
  [[ -z $got ]] || { echo "FAILED: no git: '$got'"; exit 1; }
}
expect_without_git
