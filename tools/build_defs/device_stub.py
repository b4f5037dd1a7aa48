"""Stubs for the functions that a header declares, for programs linked without CUDA.

device_stub.py HEADER: writes a .cc file that defines every free function of HEADER that is declared and
not defined there. One that returns a DeviceAttempt refuses; any other throws, for nobody may call it.
SPDX-License-Identifier: Apache-2.0
"""

import re
import sys

_COMMENT = re.compile(r"//[^\n]*|/\*[\s\S]*?\*/")
_NOT_A_FUNCTION = re.compile(r"^(constexpr|inline|template|struct|class|enum|using|static|extern|friend|namespace)\b")
_FUNCTION = re.compile(r"^(?P<result>[\w:<>,*&\s]+?[\s*&])(?P<name>\w+)\s*\((?P<parameters>.*)\)$", re.DOTALL)


def without_comments(text):
    text = _COMMENT.sub(" ", text)
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))


def declarations(text):
    """(namespace, statement) of every statement that ends with a semicolon at namespace level."""
    namespace = []  # of the braces that are open: a name, or None for any other brace
    statement = ""
    for char in without_comments(text):
        if char == "{":
            found = re.search(r"\bnamespace\s+([\w:]+)\s*$", statement)
            namespace.append(found[1] if found else None)
            statement = "" if found else statement + char
        elif char == "}":
            is_body = namespace.pop() is None and None not in namespace and ") {" in " ".join(statement.split())
            # The brace of a namespace or of a function's body ends what it stands in; others go on to a semicolon.
            statement = "" if is_body or not statement.strip() else statement + char
        elif char == ";":
            if None not in namespace:
                yield "::".join(namespace), " ".join(statement.split())
                statement = ""
            else:
                statement += char
        else:
            statement += char


def stub(header):
    with open(header, encoding="utf-8") as file:
        text = file.read()
    lines = [f'#include "{header}"', "#include <stdexcept>", "#include <string>"]
    lines.append('#pragma GCC diagnostic ignored "-Wunused-parameter"')
    for namespace, statement in declarations(text):
        if _NOT_A_FUNCTION.match(statement) or "{" in statement:
            continue
        found = _FUNCTION.match(statement)
        if not found:
            continue
        parameters = re.sub(r"\s*=\s*[^,]+", "", found["parameters"])  # defaults
        result = found["result"].strip()
        if result.startswith("DeviceAttempt<"):
            body = "return {{}, std::string(kOnCpu)};"
        else:
            body = f'throw std::logic_error("{found["name"]} needs a program linked with CUDA");'
        lines.append(f"namespace {namespace} {{ {result} {found['name']}({parameters}) {{ {body} }} }}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(stub(sys.argv[1]))
