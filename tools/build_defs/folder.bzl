# SPDX-License-Identifier: Apache-2.0
"""Targets of a folder from the names of its files, so that a BUILD file says what depends on what and nothing else.

The closure of code behind a cell's id takes libraries as a whole (code_hash.bzl): what such a cell uses in part is a
folder of `mb_pairs`, what it uses as one thing is an `mb_folder`.
"""

load("//tools/build_defs:cc.bzl", "mb_library", "mb_test")

def _tests(stems, deps, test_deps, sizes, data):
    for stem in stems:
        mb_test(
            name = stem,
            size = sizes.get(stem, "small"),
            srcs = [stem + ".cc"],
            data = data.get(stem, []),
            linkopts = ["-lfmt"],
            deps = depset(deps + test_deps).to_list(),
        )

def mb_pairs(libraries, deps = [], also = {}, linkopts = [], test_deps = [], test_sizes = {}, test_data = {}):
    """A library `x` for each pair `x.h`, `x.cc`, and a test `x_test` where there is `x_test.cc`.

    Args:
      libraries: {name: what it depends on beside `deps`}.
      deps: of every library.
      also: {name: stems of more pairs that belong to it}.
      linkopts: of every library.
      test_deps: of every test, beside the library and what that depends on.
      test_sizes: {test: Bazel size}; "small" where nothing is said.
      test_data: {test: files that it reads}.
    """
    for name, own_deps in libraries.items():
        stems = [name] + also.get(name, [])
        all_deps = deps + own_deps
        mb_library(
            name = name,
            srcs = native.glob([s + ".cc" for s in stems], allow_empty = True),
            hdrs = native.glob([s + ".h" for s in stems]),
            linkopts = linkopts,
            deps = all_deps,
        )
        tests = native.glob([s + "_test.cc" for s in stems], allow_empty = True)
        _tests([t[:-3] for t in tests], [":" + name] + all_deps, test_deps, test_sizes, test_data)

def mb_folder(name, deps, exclude = [], generated_srcs = [], generated_hdrs = [], linkopts = [], test_deps = [], test_sizes = {}, test_data = {}):
    """One library of a folder's headers and sources, and a test `x_test` for each `x_test.cc`.

    Args:
      name: of the library.
      deps: of the library and its tests.
      exclude: stems of files that belong to other targets, their tests included.
      generated_srcs: sources that rules of the folder make.
      generated_hdrs: headers that they make.
      linkopts: of the library.
      test_deps: as for mb_pairs.
      test_sizes: as for mb_pairs.
      test_data: as for mb_pairs.
    """
    others = [s + end for s in exclude for end in [".h", ".cc", "_test.cc"]]
    mb_library(
        name = name,
        srcs = native.glob(["*.cc"], exclude = ["*_test.cc"] + others) + generated_srcs,
        hdrs = native.glob(["*.h"], exclude = others) + generated_hdrs,
        linkopts = linkopts,
        deps = deps,
    )
    tests = native.glob(["*_test.cc"], exclude = others, allow_empty = True)
    _tests([t[:-3] for t in tests], [":" + name] + deps, test_deps, test_sizes, test_data)
