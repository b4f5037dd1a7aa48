"""`mixer run`, `core run` and `mixer check`: right for right files, one line and exit code 3 for wrong ones.

SPDX-License-Identifier: Apache-2.0
"""

import json
import math
import unittest

from program import ProgramTest
from safetensors_file import read_safetensors, write_safetensors

FLOAT_ERROR = 1e-4  # fp32 against fp32 by another order of sums


def numbers(shape, seed=1):
    """A tensor of values in (-0.5, 0.5)."""
    values = []
    for _ in range(math.prod(shape)):
        seed = (seed * 1103515245 + 12345) % 2**31
        values.append(seed / 2**31 - 0.5)
    return (list(shape), values)


def piece(tensor, first, length):
    """x[:, first : first + length] of a tensor [B, T, ...]."""
    (batch, seq_len, *rest), values = tensor
    width = math.prod(rest)
    rows = [values[(b * seq_len + t) * width :][:width] for b in range(batch) for t in range(first, first + length)]
    return ([batch, length, *rest], [value for row in rows for value in row])


class UnitRunTest(ProgramTest):
    def assert_near(self, a, b, name):
        self.assertEqual(a[0], b[0], name)
        norm = math.hypot(*b[1])
        error = math.hypot(*(x - y for x, y in zip(a[1], b[1])))
        self.assertLessEqual(error, FLOAT_ERROR * norm + 1e-6, name)

    def unit(self, kind, name, tensors, *arguments, code=0):
        write_safetensors(self.path("in.safetensors"), tensors)
        result = self.expect(code, kind, "run", name, "--in", "in.safetensors", "--out", "out.safetensors", *arguments)
        return read_safetensors(self.path("out.safetensors")) if code == 0 else result.stderr

    def mixer(self, name, tensors, *arguments, code=0):
        return self.unit("mixer", name, tensors, "--seed", "1", *arguments, code=code)

    def refused(self, kind, name, tensors, message, *arguments):
        """Exit code 3 and one line that says `message`."""
        seed = ["--seed", "1"] if kind == "mixer" else []
        stderr = self.unit(kind, name, tensors, *seed, *arguments, code=3)
        self.assertEqual(stderr.count("\n"), 1, stderr)
        self.assertIn(message, stderr)

    def test_fast_path_matches_the_reference(self):
        tensors = {"x": numbers([2, 70, 16]), "grad.y": numbers([2, 70, 16], 2)}
        outputs = {
            path: self.mixer("delta_net", tensors, "--path", path, "--gradients", "--final-state")
            for path in ("fast", "reference")
        }
        self.assertEqual(outputs["fast"].keys(), outputs["reference"].keys())
        for name in ("y", "grad.x", "final_state.state", "final_state.conv", "param.in_proj.weight"):
            self.assertIn(name, outputs["fast"])
        for name, tensor in outputs["fast"].items():
            self.assert_near(tensor, outputs["reference"][name], name)

    def test_what_a_core_lacks_is_refused_when_it_is_described_too(self):
        described = ["core", "run", "gla", "--describe", "--set"]
        self.expect(0, *described, "chunk_size=16")
        self.assertIn("--set foo: a core has scale", self.expect(2, *described, "foo=1").stderr)

    def test_drawn_weights_come_out_and_go_back_in(self):
        x = numbers([1, 5, 16])
        drawn = self.mixer("gla", {"x": x})
        weights = {name: tensor for name, tensor in drawn.items() if name.startswith("param.")}
        self.assertIn("param.o_norm.weight", weights)
        # Floats that happen to be whole would be written as int64.
        weights = {name: (shape, [float(v) for v in values]) for name, (shape, values) in weights.items()}
        again = self.unit("mixer", "gla", {"x": x, **weights})
        self.assertEqual(again["y"], drawn["y"])
        self.assertNotIn("param.o_norm.weight", again)

    def test_a_state_carries_on(self):
        x = numbers([2, 9, 16])
        for name in ("gated_delta_net", "attention", "retnet"):
            whole = self.mixer(name, {"x": x})["y"]
            first = self.mixer(name, {"x": piece(x, 0, 4)}, "--final-state")
            state = {n.replace("final_state", "state"): t for n, t in first.items() if n.startswith("final_state.")}
            rest = self.mixer(name, {"x": piece(x, 4, 5), **state})["y"]
            self.assert_near(rest, piece(whole, 4, 5), name)

    def test_rows_are_those_of_all_outputs(self):
        x = numbers([2, 9, 16])
        for name in ("attention", "gla", "base_conv"):
            whole = self.mixer(name, {"x": x})["y"]
            rows = self.mixer(name, {"x": x, "rows": ([2, 2], [1, 8, 0, 3])})["y"]
            expected = [piece(whole, t, 1) for t in (1, 8, 0, 3)]
            picked = [expected[0][1][:16], expected[1][1][:16], expected[2][1][16:], expected[3][1][16:]]
            self.assert_near(rows, ([2, 2, 16], sum(picked, [])), name)

    def test_gradients_of_the_final_state(self):
        x = numbers([1, 3, 16])
        state = self.mixer("gla", {"x": x}, "--final-state")["final_state.state"]
        zero = {"grad.y": ([1, 3, 16], [0.0] * 48)}
        outputs = self.mixer("gla", {"x": x, **zero, "grad.final_state.state": (state[0], numbers(state[0], 3)[1])}, "--gradients")
        self.assertGreater(math.hypot(*outputs["grad.x"][1]), 0)
        outputs = self.mixer("gla", {"x": x, **zero}, "--gradients")
        self.assertEqual(math.hypot(*outputs["grad.x"][1]), 0)

    def test_any_layer(self):
        pattern = '[{"name": "base_conv", "kernel_sizes": [3, 5]}]'
        out = self.mixer("hybrid", {"x": numbers([1, 6, 16])}, "--set", f"pattern={pattern}", "--set", "layer_index=1")
        self.assertEqual(out["param.conv.weight"][0], [16, 5])

    def test_wrong_files_of_mixers(self):
        x = numbers([2, 6, 16])
        state = self.mixer("delta_net", {"x": x}, "--final-state")
        conv, matrix = state["final_state.conv"], state["final_state.state"]
        both = {"state.conv": conv, "state.state": matrix}
        cache = {n.replace("final_", ""): t for n, t in self.mixer("attention", {"x": x}, "--final-state").items() if "state" in n}
        wide = ([2, 4, *conv[0][2:]], [0.0] * (2 * 4 * conv[0][2]))  # W rows instead of W-1
        turned = ([2, matrix[0][1], matrix[0][3] + 1, matrix[0][2]], [0.0] * (2 * matrix[0][1] * (matrix[0][3] + 1) * matrix[0][2]))
        cases = [
            ("delta_net", {"x": ([2, 0, 16], [])}, "empty axis"),
            ("delta_net", {"x": ([0, 6, 16], [])}, "empty axis"),
            ("delta_net", {"x": numbers([6, 16])}, "'x' must be [B, T, D]"),
            ("delta_net", {"y": x}, "no tensor 'x'"),
            ("delta_net", {"x": x, "rwos": x}, "did you mean 'rows'"),
            ("delta_net", {"x": x, "param.o_norm.weight": numbers([3])}, "'param.o_norm.weight' has shape [3]"),
            ("delta_net", {"x": x, **both, "state.conv": wide}, "'state.conv' has shape [2, 4,"),
            ("delta_net", {"x": x, **both, "state.state": turned}, "'state.state' has shape"),
            ("delta_net", {"x": x, "state.state": matrix}, "'state.conv' is missing"),
            ("delta_net", {"x": numbers([1, 6, 16]), **both}, "'state.conv' has shape"),
            ("attention", {"x": x, "state.k": cache["state.k"]}, "'state.v' is missing"),
            ("attention", {"x": x, **cache, "state.v": piece(cache["state.v"], 0, 5)}, "another cache"),
            ("attention", {"x": x, "rows": ([2, 2], [0, 6, 1, 2])}, "positions of x"),
            ("attention", {"x": x, "rows": ([2, 2], [3, 1, 1, 2])}, "ascending order"),
            ("attention", {"x": x, "rows": ([1, 2], [1, 3])}, "int64 [B, R]"),
            ("attention", {"x": x, "rows": numbers([2, 2])}, "int64 [B, R]"),
        ]
        for name, tensors, message in cases:
            with self.subTest(message=message):
                self.refused("mixer", name, tensors, message)
        self.refused("mixer", "delta_net", {"x": x, "grad.y": numbers([2, 5, 16])}, "'grad.y' has shape", "--gradients")
        self.refused("mixer", "delta_net", {"x": x}, "no tensor 'grad.y'", "--gradients")
        self.refused("mixer", "delta_net", {"x": x}, "16 channels, --set d_model=32", "--set", "d_model=32")
        long = ["--set", "kernel_sizes=[-1]", "--set", "max_seq_len=5"]
        self.refused("mixer", "base_conv", {"x": x}, "'x' has 6 tokens, the mixer takes 5", *long)

    def test_wrong_files_of_cores(self):
        q, state = numbers([2, 6, 2, 4]), numbers([2, 2, 4, 4])
        good = {"q": q, "k": q, "v": q}
        cases = [
            ({**good, "k": numbers([2, 5, 2, 4])}, "T is 6 in 'q'"),
            ({**good, "k": numbers([2, 6, 2, 3])}, "K is 4 in 'q'"),
            ({**good, "v": numbers([2, 6, 2])}, "expected [B T H V]"),
            ({"q": ([2, 0, 2, 4], []), "k": ([2, 0, 2, 4], []), "v": ([2, 0, 2, 4], [])}, "T is 0"),
            ({**good, "initial_state": numbers([2, 4, 4, 2])}, "'initial_state' [B H K V] has shape"),
            ({**good, "log_decay": numbers([2, 6, 2])}, "not <= 0"),
            ({"q": q, "k": q}, "no tensor 'v'"),
            ({**good, "decay": q}, "unknown tensor 'decay'"),
        ]
        for tensors, message in cases:
            with self.subTest(message=message):
                self.refused("core", "simple_gla", tensors, message)
        self.refused("core", "simple_gla", good, "--gradients needs grad.o", "--gradients")
        self.refused("core", "simple_gla", {**good, "grad.o": numbers([2, 6, 2, 3])}, "'grad.o' has shape", "--gradients")
        self.refused("core", "softmax_attention", {**good, "initial_k": numbers([2, 3, 2, 4])}, "belong together")
        self.assertIn("o", self.unit("core", "simple_gla", {**good, "initial_state": state}))

    def test_core_run(self):
        q = ([1, 3, 1, 2], [1.0, 0.0, 0.0, 1.0, 1.0, 0.0])
        v = ([1, 3, 1, 2], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        out = self.unit("core", "simple_gla", {"q": q, "k": q, "v": v}, "--set", "scale=1")
        # S_1 = k_0 v_0, S_2 = S_1 + k_1 v_1, S_3 = S_2 + k_2 v_2; o_t = q_t S_t.
        self.assertEqual(out["o"][1], [1.0, 2.0, 3.0, 4.0, 6.0, 8.0])

    def test_core_run_continues_from_states_in_every_precision(self):
        tokens = ([1, 2, 1, 2], [1.0, 0.0, 0.0, 1.0])
        cache = ([1, 3, 1, 2], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        matrix = ([1, 1, 2, 2], [1.0, 2.0, 3.0, 4.0])
        states = {
            "softmax_attention": {"initial_k": cache, "initial_v": cache},
            "simple_gla": {"initial_state": matrix, "log_decay": ([1, 2, 1], [-1.0, -0.5])},
        }
        for core, state in states.items():
            given = {"q": tokens, "k": tokens, "v": tokens, **state}
            out = {d: self.unit("core", core, given, "--dtype", d, "--final-state")["o"][1] for d in ("fp64", "fp32", "bf16")}
            for exact, rounded in zip(out["fp64"], out["bf16"]):
                self.assertAlmostEqual(exact, rounded, delta=0.01 * max(1, abs(exact)))

    def test_the_promises_of_a_mixer_are_checked(self):
        self.assertIn("14 passed, 0 failed", self.expect(0, "mixer", "check", "gla", "--set", "num_heads=4").stdout)
        found = json.loads(self.expect(0, "mixer", "check", "attention", "--json", "--skip", "bf16", "--dtype", "fp32").stdout)
        self.assertTrue(found["passed"])
        self.assertEqual(len(found["checks"]), 13)
        pieces = next(check for check in found["checks"] if check["name"] == "pieces")
        self.assertLess(pieces["error"], pieces["tolerance"])
        self.assertIn("did you mean 'causality'?", self.expect(2, "mixer", "check", "gla", "--skip", "causalty").stderr)
        self.assertIn("did you mean 'gla'?", self.expect(2, "mixer", "check", "glaa").stderr)

    def test_the_input_is_not_overwritten(self):
        write_safetensors(self.path("in.safetensors"), {"x": numbers([1, 2, 16])})
        result = self.expect(2, "mixer", "run", "gla", "--seed", "1", "--in", "in.safetensors", "--out", "./in.safetensors")
        self.assertIn("--out", result.stderr)
        self.assertIn("x", read_safetensors(self.path("in.safetensors")))


if __name__ == "__main__":
    unittest.main()
