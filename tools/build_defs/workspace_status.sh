#!/usr/bin/env bash
# The commit that a build is made from, for stamped builds (harness/BUILD). Bazel runs it before every
# build, in the root of the sources; without git, or outside of a repository, it says nothing.
#
# STABLE_: who asks for a stamp gets it again after every commit. Other builds never ask.
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail

# What the program is made of; a new file in it is a change, too.
readonly sources=(base harness kernels models reports tasks tools BUILD WORKSPACE .bazelrc)

commit=$(git rev-parse --verify --quiet HEAD 2>/dev/null) || exit 0
changes=$(git --no-optional-locks status --porcelain -- "${sources[@]}" 2>/dev/null) || exit 0
echo "STABLE_GIT_COMMIT $commit"
echo "STABLE_GIT_DIRTY $([[ -n $changes ]] && echo true || echo false)"
