# SPDX-License-Identifier: Apache-2.0
"""Text files as string constants in the program."""

def embed_files(name, srcs, header, namespace, function):
    """A .cc that defines `std::vector<std::pair<std::string_view, std::string_view>> <function>()`.

    Entries are {file name without extension, contents}, sorted by name.

    Args:
      name: of the rule; its output is <name>.cc.
      srcs: text files without the sequence `)EMBED"`.
      header: declares the function.
      namespace: of the function.
      function: its name.
    """
    native.genrule(
        name = name,
        srcs = srcs,
        outs = [name + ".cc"],
        cmd = "; ".join([
            "(echo '#include \"%s\"'; echo 'namespace %s {'" % (header, namespace),
            "echo 'std::vector<std::pair<std::string_view, std::string_view>> %s() { return {'" % function,
            "for f in $(SRCS); do n=$$(basename $$f); echo \"{\\\"$${n%.*}\\\", R\\\"EMBED(\"; cat $$f; echo ')EMBED\"},'; done",
            "echo '}; }'; echo '}  // namespace %s') > $@" % namespace,
        ]),
    )

def embed_blobs(name, srcs, header, namespace, function, deps = [], **kwargs):
    """A library that defines `std::string_view <function>(std::string_view file_name)`.

    The bytes lie in the read-only part of the program, unlike those of embed_files never seen by the
    compiler: megabytes cost nothing to build. The result is empty for an unknown name.

    Args:
      name: of the library.
      srcs: files of this package.
      header: declares the function; exported by `deps`.
      namespace: of the function.
      function: its name.
      deps: of the library.
      **kwargs: of the library.
    """
    native.genrule(
        name = name + "_assembly",
        srcs = srcs,
        outs = [name + ".S"],
        cmd = "; ".join([
            "(echo '.section .rodata'",
            "i=0; for f in $(SRCS); do",
            "echo \".global {0}_$${{i}}_begin; .global {0}_$${{i}}_end\"".format(name),
            "echo \"{0}_$${{i}}_begin: .incbin \\\"$$f\\\"\"".format(name),
            "echo \"{0}_$${{i}}_end: .byte 0\"; i=$$((i+1)); done".format(name),
            "echo '.section .note.GNU-stack,\"\",%progbits') > $@",
        ]).replace("do;", "do"),
    )
    native.genrule(
        name = name + "_table",
        srcs = srcs,
        outs = [name + ".cc"],
        cmd = "; ".join([
            "(echo '#include \"%s\"'" % header,
            "i=0; for f in $(SRCS); do echo \"extern \\\"C\\\" const char {0}_$${{i}}_begin[], {0}_$${{i}}_end[];\"; i=$$((i+1)); done".format(name),
            "echo 'namespace %s {'" % namespace,
            "echo 'std::string_view %s(std::string_view file_name) {'" % function,
            "i=0; for f in $(SRCS); do echo \"  if (file_name == \\\"$$(basename $$f)\\\") return {{{0}_$${{i}}_begin, {0}_$${{i}}_end}};\"; i=$$((i+1)); done".format(name),
            "echo '  return {};'; echo '}'; echo '}  // namespace %s') > $@" % namespace,
        ]),
    )
    native.cc_library(
        name = name,
        srcs = [
            name + ".S",
            name + ".cc",
        ],
        textual_hdrs = srcs,
        deps = deps,
        **kwargs
    )
