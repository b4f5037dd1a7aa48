# SPDX-License-Identifier: Apache-2.0
"""Hashes of the code that a unit is made of: its sources and those that it reaches in the build.

An aspect collects the libraries below the units with their files; tools/build_defs/code_hash.py follows the
includes from there. What a build with CUDA compiles differs from what one without does, and so do
the hashes.
"""

# A tag for libraries that list the units of a folder: whoever links one links them all, and uses those
# whose headers it includes.
ALL_UNITS = "all-units"

_Sources = provider(fields = {"libraries": "depset of structs, one for each library below"})

_EDGES = ["deps", "srcs"]  # `srcs`: the objects of a CUDA library are those of another rule

def _source_files(files, names):
    return [f for name in names for f in getattr(files, name, []) if f.is_source]

def _sources_impl(target, ctx):
    if target.label.workspace_name:
        return [_Sources(libraries = depset())]
    below = []
    for edge in _EDGES:
        attribute = getattr(ctx.rule.attr, edge, [])
        below += [d for d in attribute if _Sources in d] if type(attribute) == "list" else []
    library = struct(
        label = str(target.label),
        lists_units = ALL_UNITS in ctx.rule.attr.tags,
        files = tuple(_source_files(ctx.rule.files, ["srcs", "hdrs", "textual_hdrs"])),
        headers = tuple([f.path for f in _source_files(ctx.rule.files, ["hdrs"])]),
        deps = tuple([str(d.label) for d in below if d[_Sources].libraries]),
    )
    return [_Sources(libraries = depset([library], transitive = [d[_Sources].libraries for d in below]))]

_sources = aspect(implementation = _sources_impl, attr_aspects = _EDGES)

def _code_hashes_impl(ctx):
    libraries = depset(transitive = [unit[_Sources].libraries for unit in ctx.attr.units]).to_list()
    graph = ctx.actions.declare_file(ctx.label.name + ".graph.json")
    units = {}
    for library, unit in ctx.attr.units.items():
        units.setdefault(unit, []).append(str(library.label))
    ctx.actions.write(graph, json.encode(struct(
        units = units,
        libraries = [struct(
            label = library.label,
            lists_units = library.lists_units,
            files = [f.path for f in library.files],
            headers = library.headers,
            deps = library.deps,
        ) for library in libraries],
    )))
    ctx.actions.run(
        executable = "/usr/bin/env",
        arguments = ["python3", ctx.file._tool.path, graph.path, ctx.outputs.source.path, ctx.outputs.listing.path, ctx.attr.header, ctx.attr.function],
        inputs = depset([graph, ctx.file._tool] + [f for library in libraries for f in library.files]),
        outputs = [ctx.outputs.source, ctx.outputs.listing],
        use_default_shell_env = True,
        mnemonic = "CodeHash",
    )
    return [DefaultInfo(files = depset([ctx.outputs.source]))]

code_hashes = rule(
    doc = "<name>.cc defines `std::string_view <function>(std::string_view unit)`; <name>.txt lists what each hash covers.",
    implementation = _code_hashes_impl,
    attrs = {
        "function": attr.string(mandatory = True, doc = "with its namespaces: a::b::Function"),
        "header": attr.string(mandatory = True, doc = "declares the function"),
        "units": attr.label_keyed_string_dict(aspects = [_sources], doc = "libraries, each with the name of the unit that it is part of"),
        "_tool": attr.label(allow_single_file = True, default = "//tools/build_defs:code_hash.py"),
    },
    outputs = {
        "listing": "%{name}.txt",
        "source": "%{name}.cc",
    },
)
