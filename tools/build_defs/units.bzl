# SPDX-License-Identifier: Apache-2.0
"""Units found by folder: one library, one test and one registration call for each.

A unit `x` is a folder with `x/x.md`, at any of the places that the caller lists; it has no BUILD file
(a glob stops at package borders). Adding a unit is adding a folder: nothing here or elsewhere names it.
"""

load("//tools/build_defs:cc.bzl", "mb_benchmark", "mb_library", "mb_test")
load("//tools/build_defs:code_hash.bzl", "ALL_UNITS", "code_hashes")
load("//tools/build_defs:cuda.bzl", "cuda_library")
load("//tools/build_defs:operation.bzl", "device_stubs")

def unit_folders(places):
    """{unit: folder}, for folders that match one of `places`."""
    folders = {}
    for page in native.glob([place + "/*.md" for place in places], allow_empty = True):
        folder, name = page.rsplit("/", 1)
        if folder.split("/")[-1] + ".md" != name:
            continue
        unit = name[:-len(".md")]
        if unit in folders:
            fail("two units are called %s: %s and %s" % (unit, folders[unit], folder))
        folders[unit] = folder
    return folders

def _registration(name, namespace, header, registry, function, per_unit, units):
    """A .cc file that calls `<unit>::<per_unit>(registry)` for every unit, in sorted order."""
    lines = ["#include \"%s\"" % header, "namespace %s {" % namespace]
    for unit in units:
        lines.append("namespace %s { void %s(%s&); }" % (unit, per_unit, registry))
    lines.append("void %s(%s& registry) {" % (function, registry))
    for unit in units:
        lines.append("  %s::%s(registry);" % (unit, per_unit))
    if not units:
        lines.append("  (void)registry;")
    lines += ["}", "}  // namespace %s" % namespace]
    native.genrule(
        name = name + "_cc",
        outs = [name + ".cc"],
        cmd = "cat > $@ <<'END'\n%s\nEND\n" % "\n".join(lines),
    )

def _device_generator(unit, folder, namespace, header, registry):
    """Makes the `<unit>.cu` that registers `<Unit>Sampler` of `<unit>_sampler.h`: the same for all."""
    sampler = "".join([part.capitalize() for part in unit.split("_")]) + "Sampler"
    lines = [
        "#include \"%s\"" % header,
        "#include \"%s/%s/%s_sampler.h\"" % (native.package_name(), folder, unit),
        "namespace %s::%s {" % (namespace, unit),
        "void RegisterDevice(%s& registry) {" % registry,
        "  registry.Add(\"%s\", MakeDeviceGenerator<%s>());" % (unit, sampler),
        "}",
        "}  // namespace %s::%s" % (namespace, unit),
    ]
    native.genrule(
        name = unit + "_cu",
        outs = ["%s/%s.cu" % (folder, unit)],
        cmd = "cat > $@ <<'END'\n%s\nEND\n" % "\n".join(lines),
    )

def _linked_device_code(unit, folder, hdrs, deps, device_deps, device_host_deps, host_deps):
    """What `unit` links beside its own sources: its device code or the stubs for it, if it has some."""
    cuda_sources = native.glob([folder + "/*_cuda.cc"], allow_empty = True)
    if not cuda_sources:
        return []
    mb_library(
        name = unit + "_interface",
        srcs = native.glob([folder + "/*_plan.cc"], allow_empty = True),
        hdrs = hdrs,
        deps = deps,
    )
    device_stubs(name = unit + "_stub", headers = ["%s/%s_cuda.h" % (folder, unit)], deps = [":%s_interface" % unit])
    cuda_library(
        name = unit + "_kernels",
        srcs = native.glob([folder + "/*.cu"]),
        deps = [":%s_interface" % unit] + device_deps,
    )
    mb_library(
        name = unit + "_cuda",
        srcs = cuda_sources,
        tags = ["manual"],
        deps = [":%s_interface" % unit, ":%s_kernels" % unit] + deps + host_deps + device_host_deps,
    )
    return select({
        "//tools/build_defs:with_cuda": [":%s_cuda" % unit],
        "//conditions:default": [":%s_stub" % unit],
    })

def units(namespace, header, registry, function, deps, test_deps = [], test_size = "small", code_hash_function = None, device_header = None, device_registry = None, device_function = None, device_generator_header = None, device_deps = [], device_host_deps = [], host_deps = [], unit_deps = {}, places = ["*"]):
    """Makes `:<unit>`, `:<unit>_test`, `:<unit>_benchmark` and `:registered`.

    Args:
      namespace: C++ namespace that holds one namespace per unit.
      header: declares `function`, the registry type and `code_hash_function`.
      registry: the registry's type.
      function: the generated function that registers every unit.
      deps: what every unit may use; units may not use each other but by `unit_deps`.
      test_deps: added for tests and benchmarks.
      test_size: Bazel size of the unit tests.
      code_hash_function: generated function from a unit's name to the hash of the code that it uses
        (code_hash.bzl), its device code included.
      device_header, device_registry, device_function: the same for the units that have a
        `<unit>_sampler.h`, for which a generated `<unit>.cu` defines `<unit>::RegisterDevice`.
        Without CUDA the generated function registers nothing.
      device_generator_header: defines MakeDeviceGenerator.
      device_deps: added for the .cu files.
      device_host_deps: added for the *_cuda.cc files.
      host_deps: added for what no device code includes: all but *_plan.cc and .cu files.
      unit_deps: {unit: units and libraries that it is made of}.
      places: patterns of the folders that may be units.

    A unit `x` with `x_cuda.cc` chooses device code by linking: with --config=cuda it gets its
    `*_cuda.cc` (host code that calls its .cu files), else generated stubs for what `x_cuda.h`
    declares. `*_plan.cc` is what both need: host functions that choose how device code runs.
    """
    folders = unit_folders(places)
    names = sorted(folders)
    for unit in names:
        folder = folders[unit]
        hdrs = native.glob([folder + "/*.h", folder + "/*.cuh"], allow_empty = True)
        own_deps = unit_deps.get(unit, [])
        linked = _linked_device_code(unit, folder, hdrs, deps + own_deps, device_deps, device_host_deps, host_deps)
        plan = ["_plan.cc"] if linked else []  # in the interface then
        mb_library(
            name = unit,
            srcs = native.glob([folder + "/*.cc"], exclude = [folder + "/*" + end for end in ["_test.cc", "_benchmark.cc", "_cuda.cc"] + plan]),
            hdrs = hdrs,
            deps = deps + host_deps + linked + own_deps,
        )
        tests = native.glob([folder + "/*_test.cc"], allow_empty = True)
        if tests:
            mb_test(name = unit + "_test", srcs = tests, size = test_size, deps = [":" + unit] + deps + host_deps + test_deps)
        benchmarks = native.glob([folder + "/*_benchmark.cc"], allow_empty = True)
        if benchmarks:
            mb_benchmark(name = unit + "_benchmark", srcs = benchmarks, deps = [":" + unit] + deps + test_deps, tags = ["manual"], testonly = True)

    device_units = [n for n in names if device_function and native.glob([folders[n] + "/%s_sampler.h" % n], allow_empty = True)]
    _registration("registered", namespace, header, registry, function, "Register", names)
    srcs = [":registered_cc"]
    if code_hash_function:
        host_code = {":" + n: n for n in names}
        device_code = {":%s_cuda" % n: n for n in device_units}
        code_hashes(
            name = "code_hashes",
            function = "%s::%s" % (namespace, code_hash_function),
            header = header,
            units = select({
                "//tools/build_defs:with_cuda": dict(host_code.items() + device_code.items()),
                "//conditions:default": host_code,
            }),
        )
        srcs.append(":code_hashes")
    mb_library(name = "registered", srcs = srcs, deps = deps + [":" + n for n in names], tags = [ALL_UNITS])

    if device_function:
        for unit in device_units:
            _device_generator(unit, folders[unit], namespace, device_generator_header, device_registry)
            cuda_library(name = unit + "_cuda", srcs = ["%s/%s.cu" % (folders[unit], unit)], deps = [":" + unit] + deps + device_deps)
        _registration("registered_device_cuda", namespace, device_header, device_registry, device_function, "RegisterDevice", device_units)
        _registration("registered_device_stub", namespace, device_header, device_registry, device_function, "RegisterDevice", [])
        mb_library(
            name = "registered_device",
            tags = [ALL_UNITS],
            srcs = select({
                "//tools/build_defs:with_cuda": [":registered_device_cuda_cc"],
                "//conditions:default": [":registered_device_stub_cc"],
            }),
            deps = deps + device_deps + select({
                "//tools/build_defs:with_cuda": [":%s_cuda" % n for n in device_units],
                "//conditions:default": [],
            }),
        )
