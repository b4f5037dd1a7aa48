#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The example pages in a browser, and that the check finds faults; skipped where there is no
# Chromium. Arguments: the check, the program that writes the report and the leaderboard, the one that
# writes the comparisons.
set -euo pipefail
pages=${TEST_TMPDIR:?}/pages
export HOME=$TEST_TMPDIR
mkdir -p "$pages"
"$2" "$pages"
"$3" "$pages"

status=0
/usr/bin/python3 "$1" "$pages"/{page,leaderboard,example,hostile}.html || status=$?
if [[ $status == 77 ]]; then
  echo "SKIPPED: no page was looked at"
  exit 0
fi
[[ $status == 0 ]]

# The check itself: each fault once.
cat >"$pages/faults.html" <<'HTML'
<!doctype html><html lang="en"><meta charset="utf-8"><title>faults</title><body>
<p style="width: 3000px">wide</p><p style="color: #aaa">pale</p>
<svg width="200" height="60" viewBox="0 0 200 60"><text x="5" y="20" font-size="14">one text</text>
<text x="15" y="22" font-size="14">another</text><text x="5" y="55" font-size="6">small</text></svg>
<script>console.error('said')</script>
</body></html>
HTML
if /usr/bin/python3 "$1" "$pages/faults.html" >"$pages/faults.txt"; then
  echo "the check finds nothing wrong with a page made of faults"
  exit 1
fi
for fault in "wider than the window" contrast overlap "small text" console; do
  grep -q "$fault" "$pages/faults.txt" || { echo "not found: $fault"; exit 1; }
done
