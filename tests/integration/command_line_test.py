"""Commands as a user types them: answers on stdout, one line on stderr, exit codes.

SPDX-License-Identifier: Apache-2.0
"""

import glob
import hashlib
import json
import os
import resource
import struct
import subprocess
import unittest

from program import PROGRAM, ProgramTest, tiny_suite
from safetensors_file import read_safetensors, write_safetensors


def references_of(schema):
    """Every $ref in it."""
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for part in schema.values():
            yield from references_of(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from references_of(part)


class CommandLineTest(ProgramTest):
    def test_help_and_unknown_words(self):
        self.assertIn("generate", self.expect(0, "--help").stdout)
        for arguments in (["rnu"], ["run"], ["run", "quickstart", "--jbos", "3"], ["list", "task"]):
            result = self.expect(2, *arguments)
            self.assertTrue(result.stderr.startswith("error: "), result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)

    def test_help_says_which_options_repeat(self):
        for path in (["run"], ["validate"], ["generate"], ["mixer", "check"]):
            self.assertRegex(self.expect(0, *path, "--help").stdout, r"-s,--set KEY=VALUE, repeatable\n? ")
        self.expect(0, "validate", "quickstart", "-s", "train.lr=1e-3", "-s", "train.batch_size=8")

    def test_misspelt_words_are_named(self):
        for arguments, expected in (
            ([], "subcommand is required"),
            (["rnu"], "unknown command 'rnu' (did you mean 'run'?)"),
            (["mixer", "rnu"], "unknown command 'rnu' (did you mean 'run'?)"),
            (["wroker"], "unknown command 'wroker'; known: run,"),
            (["run", "quickstart", "--jbos", "3"], "unknown option '--jbos' (did you mean '--jobs'?)"),
            (["report", "out", "--fromat=md"], "unknown option '--fromat' (did you mean '--format'?)"),
            (["status", "out", "other"], "unexpected argument 'other'"),
            (["run", "collection"], "error: which collection? Give its name after the word"),
        ):
            self.assertIn(expected, self.expect(2, *arguments).stderr)

    def test_options_that_would_do_nothing(self):
        report = self.write("report.json", json.dumps({"kind": "sweep", "schema_version": "1.0.0"}))
        for arguments, expected in (
            (["compare", report, report, "--new-program", PROGRAM], "--new-program: is run by --measure and by --top-up"),
            (["compare", report, report, "--base-program", PROGRAM], "--base-program: is run by --measure and by --top-up"),
            (["compare", report, report, "--self"], "--self requires --pairs"),
            (["validate", report, "--set", "train.lr=1"], "--set: no suite is given, which it changes"),
            (["validate", report, report, "--smoke"], "--smoke: no suite is given, which it changes"),
            (["validate", report, "--smoke", "--deep"], "--smoke excludes --deep"),
            (["generate", "mqar/tiny", "--dtype", "int64"], "--dtype: is of npy and safetensors"),
        ):
            self.assertIn(expected, self.expect(2, *arguments).stderr)

    def test_what_cannot_be_looked_at_is_no_bug(self):
        name = "x" * 300  # longer than a file system takes
        for arguments in (["status", name], ["report", name], ["leaderboard", name], ["validate", name]):
            self.assertRegex(self.expect(3, *arguments).stderr, f"^error: {name}.*: File name too long\n$")

    def test_numbers_out_of_range(self):
        for arguments, expected in (
            (["run", "quickstart", "--jobs", "0"], "--jobs: must be a whole number in 1..1024, got '0'"),
            (["run", "quickstart", "--limit", "-1"], "--limit: must be a whole number >= 1, got '-1'"),
            (["run", "quickstart", "--cell-timeout", "nan"], "--cell-timeout: must be seconds above 0, or a time such as 1h30m, up to 36525d, got 'nan'"),
            (["run", "quickstart", "--cell-timeout", "9999999999"], "--cell-timeout: must be seconds above 0, or a time such as 1h30m, up to 36525d, got '9999999999'"),
            (["run", "quickstart", "--time-limit", "3w"], "--time-limit: must be seconds above 0, or a time such as 1h30m, up to 36525d, got '3w'"),
            (["generate", "mqar", "--start", "-1"], "--start: expected a whole number from 0 to 2^64-1, got '-1'"),
            (["generate", "mqar", "--count", "9" * 300], "--count: must be a whole number >= 1, got '" + "9" * 40 + "'"),
            (["run", "quickstart", "--max-gpu-hours", "-1"], "--max-gpu-hours: must be hours above 0, got '-1'"),
            (["doctor", "--wait-idle", "-1"], "--wait-idle: must be seconds, at least 0, or a time such as 1h30m, up to 36525d, got '-1'"),
            (["run", "quickstart", "--seeds", "777"], "777 is a number of seeds"),
            (["run", "quickstart", "--seeds", "4,4"], "seed 4 stands there twice"),
        ):
            result = self.expect(2, *arguments)
            self.assertIn(expected, result.stderr)
            self.assertLess(len(result.stderr), 250)

    def test_lists_name_what_exists(self):
        for kind, known in (
            ("tasks", "mqar"),
            ("presets", "mqar/fig2-64x4"),
            ("suites", "quickstart"),
            ("mixers", "gated_delta_net"),
            ("cores", "delta_rule"),
            ("backbones", "zoology"),
            ("metrics", "steps_to_threshold"),
        ):
            self.assertIn(known, self.expect(0, "list", kind).stdout)
            names = [entry["name"] for entry in json.loads(self.expect(0, "list", kind, "--json").stdout)]
            self.assertIn(known, names)
        presets = json.loads(self.expect(0, "list", "presets", "--json").stdout)
        lines = self.expect(0, "list", "presets").stdout.splitlines()
        self.assertEqual([line.split()[:2] for line in lines], [[p["name"], p["task"]] for p in presets])

    def test_mixers_list_their_sizes_and_cores(self):
        mixers = {m["name"]: m for m in json.loads(self.expect(0, "list", "mixers", "--json").stdout)}
        for name, mixer in mixers.items():
            self.assertTrue(mixer["source"] and mixer["params"], name)
            if name == "python":  # has no defaults
                continue
            self.assertGreater(mixer["num_parameters"], 0, name)
            self.assertIn(mixer["form"], ("recurrent", "cache", "none"), name)
        d = 128
        delta_net = mixers["delta_net"]
        self.assertEqual(delta_net["num_parameters"], 4 * d * d + 2 * d + 12 * d + d // 2)
        self.assertEqual(delta_net["state"], {"recurrent": d * d // 2, "conv": 12 * d, "recurrent_per_token": 0})
        self.assertEqual([core["name"] for core in delta_net["cores"]], ["delta_rule"])
        self.assertTrue(delta_net["cores"][0]["device_plans"])
        attention = mixers["attention"]
        self.assertEqual((attention["form"], attention["state"]["recurrent_per_token"]), ("cache", 2 * d))
        self.assertEqual(mixers["rwkv7"]["offers"], ["v_first"])
        self.assertEqual(mixers["sse"]["losses"], {"balance": 0.01})
        self.assertIn("write_gate", delta_net["taps"])
        self.assertNotIn("router", delta_net["taps"])
        described = self.expect(0, "describe", "mixer", "delta_net").stdout
        self.assertIn("cores: delta_rule\n", described)
        self.assertIn("taps: " + ", ".join(delta_net["taps"]) + "\n", described)

    def test_cores_list_what_device_code_takes(self):
        plans = {
            core["name"]: core.get("device_plans", [])
            for core in json.loads(self.expect(0, "list", "cores", "--json").stdout)
        }
        for core in ("softmax_attention", "simple_gla", "gla", "delta_rule"):
            self.assertTrue(plans[core], core)
            for plan in plans[core]:
                self.assertTrue(plan["dtypes"] and plan["compute_capability"])
                for axis in ("head_k_dim", "head_v_dim"):
                    self.assertTrue(plan[axis]["values"] or plan[axis]["multiple_of"])
        self.assertTrue(plans["selective_scan"])
        self.assertFalse(plans["log_linear"])  # products of ATen alone
        self.assertEqual([plan["plan"] for plan in plans["dplr"]], ["token_scan"])
        self.assertEqual([plan["plan"] for plan in plans["mesa"]], ["conjugate_gradient"])
        self.assertIn("device code", self.expect(0, "describe", "core", "delta_rule").stdout)

    def test_columns_stand_apart_whatever_their_width(self):
        for line in self.expect(0, "list", "suites").stdout.splitlines():
            self.assertRegex(line, r"^[a-z0-9.-]+ +[A-Z0-9]")
        for command, column in (
            (("describe", "mixer", "resona"), '"previous_output" what'),
            (("describe", "backbone", "mad"), '} mixer over time'),
            (("describe", "task", "mad_compression"), "known 0.0958333"),
        ):
            self.assertIn(column, self.expect(0, *command).stdout)

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
        # tasks/mqar/mqar_test.cc, first vector.
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

    def test_dry_run_writes_nothing(self):
        self.write("suite.json", tiny_suite())
        result = self.expect(0, "run", "suite.json", "--device", "cpu", "-o", "out", "--dry-run", "--seeds", "3")
        self.assertIn(
            "8 cells: 2 settings x 3 seeds (0..2), 2 speed curves; 0 done, 8 to run, ", result.stdout
        )
        self.assertFalse(os.path.exists(self.path("out")))

    def test_added_mixer_keeps_its_neighbours(self):
        self.write("suite.json", tiny_suite())
        added = ["--add-mixer", "gla", "--add-mixer", '{"name": "retnet", "num_heads": 4}']
        result = self.expect(0, "run", "suite.json", "--device", "cpu", "-n", *added)
        for name in ("attention", "delta_net", "gla", "retnet,num_heads=4"):
            self.assertIn(f"mqar/{name} seed 1", result.stdout)
        result = self.expect(0, "run", "quickstart", "--device", "cpu", "-n", "--add-mixer", "retnet")
        for name in ("attention", "gla", "delta_net", "gated_delta_net", "retnet"):
            self.assertIn(f"mqar/base_conv+{name} seed 1", result.stdout)

    def test_an_allocation_that_fails_is_a_row(self):
        suite = tiny_suite()
        suite["throughput"] = {"seq_len": [4096], "batch_size": 1_000_000, "num_samples": 3, "phases": ["fwd"]}
        self.write("suite.json", suite)
        memory = (8 << 30, 8 << 30)
        result = subprocess.run(
            [PROGRAM, "bench", "suite.json", "--device", "cpu", "-o", "out", "-q", "--jobs", "1"],
            cwd=self.folder.name,
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, memory),
        )
        self.assertEqual(result.returncode, 4, result.stderr)  # no size fits: nothing was measured
        cells = [self.read_json(path) for path in glob.glob(self.path("out/cells/*/result.json"))]
        self.assertEqual([[row["state"] for row in cell["throughput"]] for cell in cells], [["oom"], ["oom"]])
        self.assertEqual([cell["state"]["value"] for cell in cells], ["oom", "oom"])

    def test_a_mixer_in_python_needs_python_around_the_program(self):
        result = self.expect(2, "run", "quickstart", "--device", "cpu", "-n", "--mixer", "mine.py:Mean")
        self.assertIn("start it as `python3 -m mixerbench`", result.stderr)
        self.assertIn("python: a torch.nn.Module", self.expect(0, "describe", "mixer", "python").stdout)

    def test_run_says_what_it_will_do_before_it_starts(self):
        suite = tiny_suite()
        del suite["throughput"]
        self.write("suite.json", suite)
        run = ["run", "suite.json", "--device", "cpu", "-o", "out", "--set", "train.num_epochs=1"]
        first = self.expect(0, *run, "--seeds", "7,9", "--jobs", "2").stderr.splitlines()[0]
        self.assertEqual(
            first, "tiny: 4 cells: 2 settings x 2 seeds (7, 9); 0 done, 4 to run, 2 at once"
        )
        first = self.expect(0, *run, "--seeds", "7,8,9", "--jobs", "1").stderr.splitlines()[0]
        self.assertIn("6 cells: 2 settings x 3 seeds (7..9); 4 done, 2 to run, 1 at once", first)
        self.assertEqual(self.expect(0, *run, "--seeds", "7,8,9", "-q").stderr.count("cells:"), 0)

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
        self.assertIn("| Attention |", text)
        self.assertIn("cells ran with a limit", text)
        self.assertIn("every aggregate agrees", self.expect(0, "validate", "--deep", "out").stdout)
        refused = self.expect(9, "leaderboard", "out")
        self.assertIn("partial: it ran with a limit", refused.stdout)
        self.assertIn("not ranked: out: ", refused.stderr)
        board = self.expect(9, "leaderboard", "out/report.json", "--format", "json").stdout
        self.write("board.json", json.loads(board))
        self.assertIn("valid", self.expect(0, "validate", "board.json").stdout)
        benchmarks = json.loads(self.expect(0, "report", "out", "--format", "gbench").stdout)["benchmarks"]
        self.assertGreaterEqual(len(benchmarks), len(report["cells"]))
        self.assertIn(":::MLLOG", self.expect(0, "report", "out", "--format", "mllog").stdout)
        for table in ("csv-cells", "csv-groups", "csv-curves", "csv-timings", "csv-taps"):
            self.assertIn("task,mixer,", self.expect(0, "report", "out", "--format", table).stdout)
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
        self.assertEqual(self.expect(0, "version").stdout, self.expect(0, "--version").stdout)
        self.assertIn("git_commit", json.loads(self.expect(0, "version", "--json").stdout))
        titles = set()
        names = ("config", "collection", "report", "cell", "leaderboard", "score", "comparison", "dataset")
        for name in names:
            schema = json.loads(self.expect(0, "schema", name).stdout)
            self.assertIn("$schema", schema)
            titles.add(schema["title"])
            for target in references_of(schema):
                self.assertTrue(target.startswith("#/definitions/"), target)  # a reader has this schema alone
                self.assertIn(target.removeprefix("#/definitions/"), schema["definitions"])
        self.assertEqual(len(titles), len(names), titles)  # each its own

    def test_a_verdict_of_compare_is_validated(self):
        self.write("suite.json", tiny_suite())
        self.expect(0, "run", "suite.json", "--device", "cpu", "-o", "out", "-q")
        self.expect(0, "compare", "out", "out", "--fail-on", "", "--verdict", "verdict.json")
        self.assertEqual(self.expect(0, "validate", "verdict.json").stdout, "verdict.json: valid\n")
        verdict = self.read_json("verdict.json")
        self.write("verdict.json", {**verdict, "exit_code": 3})
        self.assertIn("verdict.json: /exit_code: ", self.expect(3, "validate", "verdict.json").stderr)

    def test_a_report_whose_summaries_were_changed(self):
        self.write("suite.json", tiny_suite())
        self.expect(0, "run", "suite.json", "--device", "cpu", "-o", "out", "-q")
        report = self.read_json("out/report.json")
        report["groups"][0]["num_seeds"] = 99
        self.write("forged.json", report)
        for deep in ([], ["--deep"]):
            self.assertIn("/integrity/content_sha256: ", self.expect(3, "validate", *deep, "forged.json").stderr)
        self.write("out/report.json", report)
        self.assertIn("report.json is not what its cells give", self.expect(1, "validate", "--deep", "out").stdout)


if __name__ == "__main__":
    unittest.main()
