"""Commands as a user types them: answers on stdout, one line on stderr, exit codes.

SPDX-License-Identifier: Apache-2.0
"""

import hashlib
import json
import os
import struct
import unittest

from program import ProgramTest, tiny_suite


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    formats = {"F32": "f", "F64": "d", "I32": "i"}
    tensors = {}
    for name, info in header.items():
        first, last = info["data_offsets"]
        body = data[8 + size + first : 8 + size + last]
        kind = formats[info["dtype"]]
        tensors[name] = (info["shape"], list(struct.unpack(f"<{len(body) // struct.calcsize(kind)}{kind}", body)))
    return tensors


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, (shape, values) in sorted(tensors.items()):
        packed = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(packed)]}
        body += packed
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


class CommandLineTest(ProgramTest):
    def test_help_and_unknown_words(self):
        self.assertIn("generate", self.expect(0, "--help").stdout)
        for arguments in (["rnu"], ["run"], ["run", "quickstart", "--jbos", "3"], ["list", "task"]):
            result = self.expect(2, *arguments)
            self.assertTrue(result.stderr.startswith("error: "), result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)

    def test_lists_name_what_exists(self):
        for kind, known in (
            ("tasks", "mqar"),
            ("presets", "mqar/fig2-64x4"),
            ("suites", "quickstart"),
            ("mixers", "gated_delta_net"),
            ("cores", "delta_rule"),
            ("backbones", "zoology"),
        ):
            self.assertIn(known, self.expect(0, "list", kind).stdout)
            names = [entry["name"] for entry in json.loads(self.expect(0, "list", kind, "--json").stdout)]
            self.assertIn(known, names)
        presets = json.loads(self.expect(0, "list", "presets", "--json").stdout)
        lines = self.expect(0, "list", "presets").stdout.splitlines()
        self.assertEqual([line.split()[:2] for line in lines], [[p["name"], p["task"]] for p in presets])

    def test_cores_list_what_device_code_takes(self):
        for core in json.loads(self.expect(0, "list", "cores", "--json").stdout):
            self.assertTrue(core["device_plans"], core["name"])
            for plan in core["device_plans"]:
                self.assertTrue(plan["dtypes"] and plan["compute_capability"])
                for axis in ("head_k_dim", "head_v_dim"):
                    self.assertTrue(plan[axis]["values"] or plan[axis]["multiple_of"])
        self.assertIn("device code", self.expect(0, "describe", "core", "delta_rule").stdout)

    def test_describe(self):
        self.assertIn("power_a", self.expect(0, "describe", "task", "mqar").stdout)
        self.assertIn("num_heads", self.expect(0, "describe", "mixer", "gla").stdout)
        self.assertIn("did you mean 'gla'", self.expect(2, "describe", "mixer", "glaa").stderr)

    def test_generate_slices_agree(self):
        common = ["generate", "mqar/tiny", "--split", "test"]
        whole = self.expect(0, *common, "--count", "5").stdout.splitlines()
        part = self.expect(0, *common, "--start", "3", "--count", "2").stdout.splitlines()
        self.assertEqual(whole[3:], part)
        row = json.loads(whole[0])
        self.assertEqual(len(row["inputs"]), 16)
        self.assertEqual(sum(label != -100 for label in row["labels"]), 2)

    def test_generate_golden_sample(self):
        # spec/tasks.md section 8.4, first vector.
        out = self.expect(
            0, "generate", "mqar", "--set", "input_seq_len=64", "--set", "num_kv_pairs=4",
            "--set", "noise=zero", "--seed", "123",
        ).stdout
        inputs = json.loads(out)["inputs"]
        digest = hashlib.sha256(struct.pack(f"<{len(inputs)}i", *inputs)).hexdigest()
        self.assertEqual(digest, "b07f208f00c4781176dad168b4a89ef7667c847b10468c1e5c5477c323d5ae1c")

    def test_generate_writes_safetensors(self):
        self.expect(0, "generate", "mqar/tiny", "--count", "4", "--format", "safetensors", "-o", "d.safetensors")
        tensors = read_safetensors(self.path("d.safetensors"))
        rows = [json.loads(line) for line in self.expect(0, "generate", "mqar/tiny", "--count", "4").stdout.splitlines()]
        self.assertEqual(tensors["inputs"][0], [4, 16])
        self.assertEqual(tensors["inputs"][1], [token for row in rows for token in row["inputs"]])
        self.expect(2, "generate", "mqar/tiny", "--format", "npy")

    def test_generate_refuses_bad_parameters(self):
        result = self.expect(2, "generate", "mqar", "--set", "input_seq_len=15")
        self.assertIn("must be even", result.stderr)
        self.assertIn("did you mean", self.expect(2, "generate", "mqarr").stderr)

    def test_mixer_run_matches_its_reference(self):
        described = self.expect(0, "mixer", "run", "delta_net", "--describe", "--set", "d_model=16").stdout
        tensors = {}
        seed = 1
        for line in described.splitlines():
            words = line.split()
            if words[0] != "in" or words[1] in ("grad.y",) or words[1].startswith("state."):
                continue
            shape = [int(n) for n in line[line.index("[") + 1 : line.index("]")].replace("B", "2").replace("T", "70").split(",") if n.strip()]
            size = 1
            for n in shape:
                size *= n
            values = []
            for _ in range(size):
                seed = (seed * 1103515245 + 12345) % 2**31
                values.append(seed / 2**31 - 0.5)
            tensors[words[1]] = (shape, values)
        tensors["grad.y"] = tensors["x"]
        write_safetensors(self.path("in.safetensors"), tensors)
        outputs = {}
        for path in ("fast", "reference"):
            self.expect(
                0, "mixer", "run", "delta_net", "--in", "in.safetensors", "--out", f"{path}.safetensors",
                "--path", path, "--gradients", "--final-state",
            )
            outputs[path] = read_safetensors(self.path(f"{path}.safetensors"))
        self.assertEqual(outputs["fast"].keys(), outputs["reference"].keys())
        self.assertIn("y", outputs["fast"])
        self.assertIn("grad.x", outputs["fast"])
        self.assertTrue(any(name.startswith("final_state.") for name in outputs["fast"]))
        for name, (shape, values) in outputs["fast"].items():
            reference = outputs["reference"][name][1]
            norm = sum(v * v for v in reference) ** 0.5
            error = sum((a - b) ** 2 for a, b in zip(values, reference)) ** 0.5
            self.assertLessEqual(error, 1e-4 * norm + 1e-6, name)  # fp32 against fp32

    def test_mixer_run_refuses_incomplete_files(self):
        write_safetensors(self.path("in.safetensors"), {"x": ([1, 2, 16], [0.0] * 32)})
        result = self.expect(3, "mixer", "run", "gla", "--in", "in.safetensors", "--out", "o.safetensors")
        self.assertIn("no tensor 'param.", result.stderr)
        self.expect(0, "mixer", "run", "gla", "--in", "in.safetensors", "--out", "o.safetensors", "--seed", "1")

    def test_core_run(self):
        q = ([1, 3, 1, 2], [1.0, 0.0, 0.0, 1.0, 1.0, 0.0])
        v = ([1, 3, 1, 2], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        write_safetensors(self.path("in.safetensors"), {"q": q, "k": q, "v": v})
        self.expect(0, "core", "run", "scalar_decay", "--in", "in.safetensors", "--out", "o.safetensors", "--set", "scale=1")
        # S_1 = k_0 v_0, S_2 = S_1 + k_1 v_1, S_3 = S_2 + k_2 v_2; o_t = q_t S_t.
        self.assertEqual(read_safetensors(self.path("o.safetensors"))["o"][1], [1.0, 2.0, 3.0, 4.0, 6.0, 8.0])

    def test_core_run_continues_from_states_in_every_precision(self):
        tokens = ([1, 2, 1, 2], [1.0, 0.0, 0.0, 1.0])
        cache = ([1, 3, 1, 2], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        matrix = ([1, 1, 2, 2], [1.0, 2.0, 3.0, 4.0])
        states = {
            "softmax_attention": {"initial_k": cache, "initial_v": cache},
            "scalar_decay": {"initial_state": matrix, "log_decay": ([1, 2, 1], [-1.0, -0.5])},
        }
        for core, state in states.items():
            write_safetensors(self.path("in.safetensors"), {"q": tokens, "k": tokens, "v": tokens, **state})
            for dtype in ("fp64", "fp32", "bf16"):
                self.expect(
                    0, "core", "run", core, "--in", "in.safetensors", "--out", f"{dtype}.safetensors",
                    "--dtype", dtype, "--final-state",
                )
            exact, rounded = (read_safetensors(self.path(f"{d}.safetensors"))["o"][1] for d in ("fp64", "bf16"))
            for a, b in zip(exact, rounded):
                self.assertAlmostEqual(a, b, delta=0.01 * max(1, abs(a)))

    def test_dry_run_writes_nothing(self):
        self.write("suite.json", tiny_suite())
        result = self.expect(0, "run", "suite.json", "--device", "cpu", "-o", "out", "--dry-run", "--seeds", "3")
        self.assertIn("8 cells, 0 already done, 8 to run", result.stdout)  # 2 x 3 + 2 speed cells

    def test_run_report_and_bench(self):
        self.write("suite.json", tiny_suite())
        run = ["run", "suite.json", "--device", "cpu", "-o", "out", "--limit", "10", "--set", "train.num_epochs=1"]
        self.expect(0, *run)
        report = json.loads(self.expect(0, "report", "out", "--format", "json").stdout)
        self.assertEqual(report, self.read_json("out/report.json"))
        self.assertTrue(all(cell["partial"] for cell in report["cells"]))
        self.assertIn("valid", self.expect(0, "validate", "out/report.json").stdout)
        forged = json.loads(json.dumps(report))
        forged["cells"][0]["state"]["value"] = "perfect"
        self.write("forged.json", forged)
        self.assertIn("violation", self.expect(3, "validate", "forged.json").stderr)
        text = self.expect(0, "report", "out", "--format", "md").stdout
        self.assertIn("attention (limited)", text)
        self.assertIn("cells ran with a limit", text)
        self.assertIn("<svg", self.expect(0, "report", "out", "--format", "html").stdout)
        self.assertIn("delta_net", self.expect(0, "report", "out", "--format", "csv").stdout)
        self.expect(0, "bench", "suite.json", "--device", "cpu", "-o", "speed")
        speed = self.read_json("speed/report.json")
        rows = [row for cell in speed["cells"] for row in cell["throughput"]]
        self.assertEqual(len(rows), 8)  # two mixers, two phases, two lengths
        self.assertTrue(all(row["parity_check"] == "passed" and row["median"] > 0 for row in rows))
        self.assertTrue(all(row["parity"]["error"] <= row["parity"]["tolerance"] for row in rows))
        for cell in report["cells"] + speed["cells"]:
            cores = [f for plan in cell["plans"] for f in plan["functions"] if f["core"]]
            self.assertTrue(cores)
            self.assertEqual({f["reason"] for f in cores}, {"runs on the CPU"})
        self.assertIn("What ran", self.expect(0, "report", "speed", "--format", "md").stdout)

    def test_device_cores_need_a_gpu(self):
        self.write("suite.json", tiny_suite())
        for command in ("run", "bench"):
            result = self.expect(2, command, "suite.json", "--device", "cpu", "--require-device-cores", "-o", "out")
            self.assertIn("--require-device-cores: this run is on the CPU", result.stderr)
            self.assertFalse(os.path.exists(self.path("out")))

    def test_no_gpu_is_said_plainly(self):
        self.write("suite.json", tiny_suite())
        result = self.run_program("run", "suite.json", "--device", "cuda:9")
        self.assertEqual(result.returncode, 7)
        self.assertEqual(result.stderr.count("\n"), 1)

    def test_version_and_schema(self):
        self.assertIn("mixerbench", self.expect(0, "version").stdout)
        self.assertIn("code", json.loads(self.expect(0, "version", "--json").stdout))
        self.assertIn("$schema", json.loads(self.expect(0, "schema", "report").stdout))


if __name__ == "__main__":
    unittest.main()
