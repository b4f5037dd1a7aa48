#!/bin/sh
# run_corpus.sh REPLAY ARCHIVE: runs a fuzz target on its corpus. SPDX-License-Identifier: Apache-2.0
set -e
tar xzf "$2" -C "$TEST_TMPDIR"
exec "$1" "$TEST_TMPDIR"
