# SPDX-License-Identifier: Apache-2.0
"""clang-tidy on the sources of C++ rules, by the compiler options that Bazel knows; results are cached like
any action.

    bazel build --config=tidy //...        # what does not include libtorch
    bazel build --config=tidy-all //...    # everything
"""

_RULES = ["cc_library", "cc_binary", "cc_test"]

def _includes_torch(context):
    return any(["external/torch/" in folder for folder in context.system_includes.to_list()])

def _flags(ctx, context):
    flags = ["-std=c++20", "-xc++"]
    for flag, values in [
        ("-iquote", context.quote_includes),
        ("-I", context.includes),
        ("-isystem", context.system_includes),
    ]:
        for folder in values.to_list():
            flags += [flag, folder]
    for define in context.defines.to_list() + context.local_defines.to_list():
        flags.append("-D" + define)
    return flags + getattr(ctx.rule.attr, "copts", [])

def _check(ctx, context, source, files):
    report = ctx.actions.declare_file("%s.%s.tidy" % (ctx.label.name, source.basename))
    arguments = ctx.actions.args()
    arguments.add_all([report, ctx.file._tidy, ctx.file._config, source])
    arguments.add_all(_flags(ctx, context))
    ctx.actions.run_shell(
        command = 'bash "$@"',
        arguments = [ctx.file._script.path, arguments],
        inputs = depset(
            files + [ctx.file._script, ctx.file._tidy, ctx.file._config] + ctx.files._clang_headers,
            transitive = [context.headers],
        ),
        outputs = [report],
        mnemonic = "ClangTidy",
        progress_message = "Checking " + source.short_path,
    )
    return report

def _tidy_impl(target, ctx):
    if ctx.rule.kind not in _RULES or ctx.label.workspace_name or CcInfo not in target:
        return []
    # Of a binary or test only its dependencies are known: its own options are theirs.
    infos = [target[CcInfo]] + [dep[CcInfo] for dep in ctx.rule.attr.deps if CcInfo in dep]
    context = cc_common.merge_cc_infos(cc_infos = infos).compilation_context
    if _includes_torch(context) and not ctx.attr._with_torch:
        return []
    files = ctx.rule.files.srcs
    reports = [_check(ctx, context, f, files) for f in files if f.is_source and f.extension == "cc"]
    return [OutputGroupInfo(clang_tidy = depset(reports))]

def _tidy(with_torch):
    return aspect(
        implementation = _tidy_impl,
        attrs = {
            "_clang_headers": attr.label(default = "@clang//:clang_headers"),
            "_config": attr.label(allow_single_file = True, default = "//:.clang-tidy"),
            "_script": attr.label(allow_single_file = True, default = "//tools/build_defs:clang_tidy.sh"),
            "_tidy": attr.label(allow_single_file = True, default = "@clang//:clang_tidy/data/bin/clang-tidy"),
            "_with_torch": attr.bool(default = with_torch),
        },
    )

tidy = _tidy(with_torch = False)
tidy_all = _tidy(with_torch = True)
