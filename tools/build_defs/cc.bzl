# SPDX-License-Identifier: Apache-2.0
"""C++ rules of this project: thin wrappers, so that a later Bazel touches one file."""

def mb_library(name, **kwargs):
    native.cc_library(name = name, **kwargs)

def mb_binary(name, **kwargs):
    native.cc_binary(name = name, **kwargs)

def mb_shared_library(name, **kwargs):
    """A library for dlopen; `name` is that of the file."""
    native.cc_binary(name = name, linkshared = True, **kwargs)

def mb_test(name, srcs, deps = [], args = [], tags = [], **kwargs):
    """A Catch2 test; fails when its filter matches no test case."""
    native.cc_test(
        name = name,
        srcs = srcs,
        deps = deps + ["//tests/support:catch2"],
        args = ["-w", "NoTests"] + args,
        tags = tags,
        linkstatic = True,
        **kwargs
    )

def mb_benchmark(name, srcs, deps = [], **kwargs):
    """A Google Benchmark program: run it, never test it."""
    native.cc_binary(
        name = name,
        srcs = srcs,
        deps = deps,
        linkopts = ["-lbenchmark_main", "-lbenchmark", "-lpthread"],
        **kwargs
    )
