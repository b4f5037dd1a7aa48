"""What changes a code hash, and what does not. SPDX-License-Identifier: Apache-2.0"""

import unittest

import code_hash

# Two mixers, two cores, one of them with device code that is linked apart from its headers.
FILES = {
    "base/a.h": "int A();\n",
    "base/a.cc": '#include "base/a.h"\nint A() { return 1; }\n',
    "kernels/x/x.h": '#include "kernels/x/x_device.h"\nint X();\n',
    "kernels/x/x.cc": '#include "kernels/x/x.h"\nint X() { return D(); }\n',
    "kernels/x/x_device.h": "int D();\n",
    "kernels/x/x_stub.cc": '#include "kernels/x/x_device.h"\nint D() { return 0; }\n',
    "kernels/y/y.h": "int Y();\n",
    "kernels/y/y.cc": '#include "kernels/y/y.h"\nint Y() { return 2; }\n',
    "kernels/z/z.cc": "int z;\n",
    "mixers/m/m.cc": '#include "base/a.h"\n#include "kernels/x/x.h"\nint m = A() + X();\n',
    "mixers/n/n.cc": '#include "kernels/y/y.h"\nint n = Y();\n',
}


def library(label, files, deps=(), lists_units=False):
    return {
        "label": label,
        "lists_units": lists_units,
        "files": files,
        "headers": [f for f in files if f.endswith(".h")],
        "deps": list(deps),
    }


LIBRARIES = [
    library("base", ["base/a.h", "base/a.cc"]),
    library("x_device", ["kernels/x/x_device.h"]),
    library("x_stub", ["kernels/x/x_stub.cc"], ["x_device"]),
    library("x", ["kernels/x/x.h", "kernels/x/x.cc"], ["x_device", "x_stub", "base"]),
    library("y", ["kernels/y/y.h", "kernels/y/y.cc"], ["base"]),
    library("z", ["kernels/z/z.cc"], ["base"]),  # without a header: nobody calls it but its registry
    library("kernels", [], ["x", "y", "z"], lists_units=True),
    library("m", ["mixers/m/m.cc"], ["base", "kernels"]),
    library("n", ["mixers/n/n.cc"], ["base", "kernels"]),
]


def hash_units(units, files=None, libraries=None):
    """{unit: hash} of libraries over files that are held here."""
    content = {**FILES, **(files or {})}
    graph = code_hash.Graph(
        LIBRARIES + (libraries or []), lambda path: code_hash.INCLUDE.findall(content[path])
    )
    return {
        unit: code_hash.unit_digest(
            graph.files([unit]), lambda path: code_hash.normalise(content[path])
        )
        for unit in units
    }


class ClosureTest(unittest.TestCase):
    base = hash_units(["m", "n"])

    def changed(self, files, libraries=None):
        now = hash_units(["m", "n"], files, libraries)
        return {unit for unit in now if now[unit] != self.base[unit]}

    def test_an_added_mixer_changes_no_other(self):
        added = {"mixers/o/o.cc": '#include "kernels/x/x.h"\nint o = X();\n'}
        more = [library("o", ["mixers/o/o.cc"], ["base", "kernels"])]
        self.assertEqual(self.changed(added, more), set())

    def test_a_statement_changes_those_that_use_it(self):
        self.assertEqual(self.changed({"kernels/x/x.cc": "int X() { return 9; }\n"}), {"m"})
        self.assertEqual(self.changed({"kernels/y/y.h": "long Y();\n"}), {"n"})
        self.assertEqual(self.changed({"base/a.cc": "int A() { return 9; }\n"}), {"m"})
        self.assertEqual(self.changed({"kernels/z/z.cc": "long z;\n"}), set())

    def test_code_that_is_linked_behind_a_header_counts(self):
        self.assertEqual(self.changed({"kernels/x/x_stub.cc": "int D() { return 9; }\n"}), {"m"})

    def test_comments_and_layout_change_nothing(self):
        text = '#include "kernels/x/x.h"  // why\n\n  int X( )  /* so */\n{\n  return D();}\n'
        self.assertEqual(self.changed({"kernels/x/x.cc": text}), set())

    def test_only_headers_below_a_library_are_its_own(self):
        # n names a header of a library that it does not link: a conditional include.
        text = '#include "kernels/y/y.h"\n#include "elsewhere.h"\nint n = Y();\n'
        lone = [library("elsewhere", ["elsewhere.h"])]
        units = hash_units(["n"], {"mixers/n/n.cc": text, "elsewhere.h": "int e;\n"}, lone)
        again = hash_units(["n"], {"mixers/n/n.cc": text, "elsewhere.h": "int f;\n"}, lone)
        self.assertEqual(units, again)


class NormaliseTest(unittest.TestCase):
    def assert_same(self, a, b):
        self.assertEqual(code_hash.normalise(a), code_hash.normalise(b))

    def assert_other(self, a, b):
        self.assertNotEqual(code_hash.normalise(a), code_hash.normalise(b))

    def test_comments_and_spaces_go(self):
        self.assert_same("int a=1;// one", "int  a = 1 ;\n")
        self.assert_same("f(/* x */ 1)", "f(1)")
        self.assert_same("a // b \\\n c\n d", "a d")
        self.assert_same("#define A /* b */ 1\n", "#  define A 1".replace("#  ", "#"))

    def test_text_in_quotes_stays(self):
        self.assert_other('s = "a // b"', 's = "a"')
        self.assert_other('s = "a  b"', 's = "a b"')
        self.assert_other("c = '\"'; // x\"", "c = '\\''; // x\"")
        self.assert_same("c = '\"'; // x\"", "c = '\"';")
        self.assert_other('s = R"(a /* b */)"', 's = R"(a )"')
        self.assert_other('s = R"x(a)"  b)x"', 's = R"x(a)" b)x"')

    def test_a_quote_in_a_number_begins_no_text(self):
        self.assert_same("n = 1'000'000'; // it's", "n = 1'000'000';")
        self.assert_other("n = 1'000 + 2; // '", "n = 1'000 + 3; // '")

    def test_tokens_stay_apart(self):
        self.assert_other("a - -b", "a--b")
        self.assert_other("int a", "inta")
        self.assert_other("#define A (x)\n", "#define A(x)\n")
        self.assert_other("#define A 1\nb", "#define A 1 b")


if __name__ == "__main__":
    unittest.main()
