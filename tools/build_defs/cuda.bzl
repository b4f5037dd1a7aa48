# SPDX-License-Identifier: Apache-2.0
"""cuda_library: .cu files compiled by nvcc, linked like any cc_library.

nvcc runs once per file and per rebuild; its objects are ordinary ELF objects, so no toolchain
machinery is needed. CUDA targets are `manual`: `//...` builds on a machine without the CUDA wheels.
"""

load("@cuda//:root.bzl", CUDA = "ROOT")

# Relative to the folder in which actions run: a compiled file is then the same, and comes from the
# same cache, wherever the repository lies.
_NVCC = "external/cuda/nvidia/cu13/bin/nvcc"

# Hopper first (wgmma, TMA need the `a` target); PTX of compute_80 lets the driver build the rest.
_ARCHITECTURES = [
    "-gencode=arch=compute_90a,code=sm_90a",
    "-gencode=arch=compute_80,code=[sm_80,compute_80]",
]

# Device code with line numbers for ncu is a fifth as large when it is packed hard; the driver
# unpacks a kernel's file when it is first used.
_COMPRESSION = "--compress-mode=size"

# Every sandbox numbers its processes from the start and nvcc names temporary files by its number: in
# one /tmp, what killed builds left there makes parallel ones meet.
_TEMPORARY_FILES = "--objdir-as-tempdir"

def _nvcc_impl(ctx):
    context = cc_common.merge_cc_infos(cc_infos = [d[CcInfo] for d in ctx.attr.deps]).compilation_context
    objects = []
    for src in ctx.files.srcs:
        obj = ctx.actions.declare_file("%s_%s.pic.o" % (ctx.label.name, src.basename[:-3]))
        args = ctx.actions.args()
        args.add_all(["-std=c++20", "-O3", "-lineinfo", "--expt-relaxed-constexpr", _COMPRESSION, _TEMPORARY_FILES, "-Xcompiler", "-fPIC,-Wall", "-I."])
        args.add_all(_ARCHITECTURES)
        args.add_all(context.system_includes, before_each = "-isystem")
        args.add_all(context.includes, before_each = "-I")
        args.add_all(["-c", src.path, "-o", obj.path])
        ctx.actions.run(
            executable = _NVCC,
            arguments = [args],
            inputs = depset([src] + ctx.files._compiler, transitive = [context.headers]),
            outputs = [obj],
            env = {"PATH": "/usr/bin:/bin"},
            mnemonic = "Nvcc",
            progress_message = "Compiling %s (nvcc)" % src.short_path,
        )
        objects.append(obj)
    return [DefaultInfo(files = depset(objects))]

_nvcc_objects = rule(
    implementation = _nvcc_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "_compiler": attr.label(default = "@cuda//:compiler"),
    },
)

def cuda_library(name, srcs, hdrs = [], deps = [], **kwargs):
    native.cc_library(name = name + "_headers", hdrs = hdrs, deps = deps, tags = ["manual"])
    _nvcc_objects(name = name + "_objects", srcs = srcs, deps = [name + "_headers"], tags = ["manual"])
    native.cc_library(
        name = name,
        srcs = [name + "_objects"],
        hdrs = hdrs,
        deps = deps,
        tags = ["manual"],
        linkopts = ["-L" + CUDA + "/lib", "-l:libcudart.so.13"],
        **kwargs
    )
