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
