# SPDX-License-Identifier: Apache-2.0
"""An operation's folder as a package: its functions of tensors, its device code, its test.

In the folder of operation `norm`, where `x` is any name:

  x.h, x.cc            functions of tensors: checks, reference, autograd
  x_cuda.h             device functions on raw pointers: no torch
  x.cu, *.cuh          what defines them, compiled by nvcc with --config=cuda
  x_test.cc

Without CUDA generated stubs (device_stub.py) stand in for what the x_cuda.h declare. Device code uses
that of kernels/device and of `cuda_deps` alone; it cannot reach up.
"""

load("@cuda//:root.bzl", CUDA = "ROOT")
load("//tools/build_defs:cc.bzl", "mb_library", "mb_test")
load("//tools/build_defs:cuda.bzl", "cuda_library")

def device_stubs(name, headers, deps):
    """A library of stubs for the functions that `headers` declare."""
    sources = []
    for header in headers:
        stub = header[:-len(".h")] + "_stub.cc"
        native.genrule(
            name = stub.replace("/", "_")[:-len(".cc")],
            srcs = [header],
            outs = [stub],
            cmd = "python3 $(location //tools/build_defs:device_stub.py) $< > $@",
            tools = ["//tools/build_defs:device_stub.py"],
        )
        sources.append(stub)
    mb_library(name = name, srcs = sources, deps = deps)

def operation(name, deps = [], cuda_deps = [], cuda_hdrs = []):
    """Makes `:<name>` and `:<name>_test`, and for the device code of others `:cuda_headers`, `:kernels_headers`.

    Args:
      deps: operations that the functions of tensors call.
      cuda_deps: operations whose x_cuda.h and .cuh files the device code includes.
      cuda_hdrs: headers without torch that device code and x_cuda.h include.
    """
    device_headers = native.glob(["*_cuda.h"], allow_empty = True)
    mb_library(
        name = "cuda_headers",
        hdrs = device_headers + cuda_hdrs,
        deps = ["//base", "//kernels/device:headers"] + [d + ":cuda_headers" for d in cuda_deps],
    )
    device_code = []
    if device_headers:
        device_stubs(name = "stubs", headers = device_headers, deps = [":cuda_headers"])
        cuda_library(
            name = "kernels",
            srcs = native.glob(["*.cu"]),
            hdrs = native.glob(["*.cuh"], allow_empty = True),
            deps = [":cuda_headers", "//kernels/device:kernels_headers"] +
                   [d + ":kernels_headers" for d in cuda_deps],
        )

        # The objects alone: as a dependency, `kernels` would make every user compile again when a .cuh
        # file changes.
        mb_library(
            name = "objects",
            srcs = [":kernels_objects"],
            linkopts = ["-L" + CUDA + "/lib", "-l:libcudart.so.13"],
            tags = ["manual"],
        )
        device_code = select({
            "//tools/build_defs:with_cuda": [":objects"],
            "//conditions:default": [":stubs"],
        })
    mb_library(
        name = name,
        srcs = native.glob(["*.cc"], exclude = ["*_test.cc"]),
        hdrs = native.glob(["*.h"], exclude = device_headers + cuda_hdrs),
        deps = [
            ":cuda_headers",
            "//base",
            "//kernels/device",
            "//kernels/runtime",
            "@torch//:headers",
        ] + deps + device_code,
    )
    tests = native.glob(["*_test.cc"], allow_empty = True)
    if tests:
        mb_test(
            name = name + "_test",
            size = "small",
            srcs = tests,
            deps = [
                ":" + name,
                "//tests/support:compare",
                "//tests/support:gradient_check",
                "//tests/support:tensors",
                "@torch//:cpu",
            ],
        )
