# SPDX-License-Identifier: Apache-2.0
"""Fuzz targets: tests that run a corpus, and programs that search for what is not in it."""

load("//tools/build_defs:cc.bzl", "mb_binary")

def mb_fuzz_test(name, deps, **kwargs):
    """`<name>.cc` defines LLVMFuzzerTestOneInput (tests/fuzz/fuzz_target.h).

    `<name>` is an ordinary test: the target once on every file in corpus/<name>. `<name>er` is a
    libFuzzer program; clang alone builds it:

        bazel build --config=fuzz //tests/fuzz:npy_fuzzer
        bazel-bin/tests/fuzz/npy_fuzzer -max_total_time=600 /tmp/new tests/fuzz/corpus/npy_fuzz

    Args:
      name: ends in "_fuzz".
      deps: what the target calls.
      **kwargs: of the test.
    """
    srcs = [name + ".cc", "fuzz_target.h"]
    native.cc_test(
        name = name,
        size = "small",
        srcs = srcs + ["fuzz_replay.cc"],
        args = ["%s/corpus/%s" % (native.package_name(), name)],
        data = native.glob(["corpus/%s/*" % name]),
        linkstatic = True,
        deps = deps + ["//base"],
        **kwargs
    )
    mb_binary(
        name = name + "er",
        testonly = True,
        srcs = srcs,
        linkopts = ["-fsanitize=fuzzer"],
        tags = [
            "fuzz",
            "manual",
        ],
        deps = deps + ["//base"],
    )
