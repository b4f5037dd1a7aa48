# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for the repositories that Debian's Bazel 4.2.3 would download."""

def offline_bazel_repositories():
    # A released Bazel knows its version and fetches its own rules; Debian's build reports "".
    if native.bazel_version:
        return
    native.local_repository(name = "rules_cc", path = "tools/build_defs/shims/rules_cc")
    native.local_repository(name = "rules_java", path = "/usr/share/bazel/rules/java")
    native.local_repository(name = "remote_coverage_tools", path = "tools/build_defs/shims/coverage")
