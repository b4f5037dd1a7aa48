#!/usr/bin/env python3
"""Counts the test targets of one `bazel test` from its build events, and clang-tidy, if it ran, as one
more: "N passed, N failed".

Usage: test_summary.py EVENTS_FILE BAZEL_EXIT_STATUS [CLANG_TIDY_EXIT_STATUS]

A test that could not be built or was never started has failed. When Bazel failed and no test did
(a broken library, a BUILD file that cannot be read), that is one failure too.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import sys


def summarize(lines, bazel_status):
    """Returns (number of passed tests, labels of failed ones)."""
    tests = {}
    for line in lines:
        event = json.loads(line)
        identity = event["id"]
        if "configured" in event and event["configured"].get("testSize"):
            tests.setdefault(identity["targetConfigured"]["label"], "NO_STATUS")
        elif "testSummary" in event:
            tests[identity["testSummary"]["label"]] = event["testSummary"]["overallStatus"]
    failed = sorted(label for label, status in tests.items() if status not in ("PASSED", "FLAKY"))
    num_passed = len(tests) - len(failed)
    if bazel_status != 0 and not failed:
        failed = ["the build itself (bazel exit code %d)" % bazel_status]
    return num_passed, failed


def main():
    with open(sys.argv[1], encoding="utf-8") as events:
        num_passed, failed = summarize(events, int(sys.argv[2]))
    for tidy_status in sys.argv[3:]:
        if int(tidy_status) == 0:
            num_passed += 1
        else:
            failed.append("clang-tidy")
    for label in failed:
        print("failed: " + label)
    print("%d passed, %d failed" % (num_passed, len(failed)))


if __name__ == "__main__":
    main()
