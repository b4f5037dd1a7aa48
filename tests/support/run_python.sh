#!/bin/sh
# sh_test needs a script; the tests themselves are Python. SPDX-License-Identifier: Apache-2.0
exec python3 "$@"
