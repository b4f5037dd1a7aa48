# SPDX-License-Identifier: Apache-2.0
"""Fuzz targets: tests that run a corpus, and programs that search for what is not in it."""

load("//tools/build_defs:cc.bzl", "mb_binary")

def mb_fuzz_test(name, deps, **kwargs):
    """`<name>.cc` defines LLVMFuzzerTestOneInput (tests/fuzz/fuzz_target.h).

    `<name>` is an ordinary test: the target once on every file in corpus/<name>.tar.gz, of which it
    accepts those in its folder `accepted` and refuses those in `refused`. `<name>er` is a libFuzzer
    program; clang alone builds it:

        bazel build --config=fuzz //tests/fuzz:npy_fuzzer
        mkdir /tmp/corpus /tmp/new && tar xzf tests/fuzz/corpus/npy_fuzz.tar.gz -C /tmp/corpus
        bazel-bin/tests/fuzz/npy_fuzzer -max_total_time=600 /tmp/new /tmp/corpus

    Args:
      name: ends in "_fuzz".
      deps: what the target calls.
      **kwargs: of the test.
    """
    srcs = [name + ".cc", "fuzz_target.h"]
    replay = name + "_replay"
    archive = "corpus/%s.tar.gz" % name
    mb_binary(
        name = replay,
        testonly = True,
        srcs = srcs + ["fuzz_replay.cc"],
        deps = deps + ["//base"],
    )
    native.sh_test(
        name = name,
        size = "small",
        srcs = ["run_corpus.sh"],
        args = [
            "$(location %s)" % replay,
            "$(location %s)" % archive,
        ],
        data = [
            archive,
            replay,
        ],
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
