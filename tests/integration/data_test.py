"""Data sets as a user makes, checks and scores them: files, manifests, exit codes, kill -9.

SPDX-License-Identifier: Apache-2.0
"""

import glob
import hashlib
import json
import os
import signal
import struct
import subprocess
import time
import unittest

from program import PROGRAM, ProgramTest, tiny_suite

TINY = ["generate", "mqar/tiny", "--split", "test"]


def read_npy(path):
    """[2, count, length] as lists, without numpy."""
    data = read(path)
    size = struct.unpack("<H", data[8:10])[0]
    header = data[10 : 10 + size].decode()
    shape = [int(n) for n in header.split("(")[1].split(")")[0].split(",") if n.strip()]
    kind, width = ("q", 8) if "<i8" in header else ("i", 4)
    body = data[10 + size :]
    values = struct.unpack(f"<{len(body) // width}{kind}", body)
    _, count, length = shape
    rows = [list(values[i : i + length]) for i in range(0, len(values), length)]
    return rows[:count], rows[count:]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def sha256(path):
    return "sha256:" + hashlib.sha256(read(path)).hexdigest()


class DataTest(ProgramTest):
    def rows(self, *arguments):
        return [json.loads(line) for line in self.expect(0, *arguments).stdout.splitlines()]

    def test_preset_says_how_many_and_slices_name_buckets(self):
        rows = self.rows(*TINY)
        self.assertEqual(len(rows), 200)
        self.assertEqual(rows[7]["meta"]["index"], 7)
        num_scored = sum(label != -100 for label in rows[0]["labels"])
        self.assertEqual([len(v) for v in rows[0]["meta"]["slices"].values()], [num_scored] * 3)
        self.assertEqual(len(self.rows("generate", "mqar")), 1)
        self.assertIn("--count", self.expect(2, "generate", "mqar/tiny", "--split", "validation").stderr)

    def test_seeds_and_indices_have_64_bits(self):
        first = {seed: self.rows("generate", "mqar", "--seed", str(seed))[0]["inputs"]
                 for seed in (2**63 - 1, 2**63, 2**64 - 1)}
        self.assertEqual(len(set(map(tuple, first.values()))), 3)
        for flag, value in (("--seed", 2**64), ("--seed", -1), ("--start", -1)):
            result = self.expect(2, "generate", "mqar", flag, str(value))
            self.assertIn(f"{flag}: expected a whole number from 0 to 2^64-1", result.stderr)

    def test_neither_libtorch_nor_cuda_is_in_the_process(self):
        for arguments in (["generate", "--help"], TINY, ["verify", "mqar/tiny"], ["describe", "task", "mqar"],
                          ["export", "niah_single_1", "--count", "1"]):
            # The loader's own account, of libraries opened later too.
            result = self.run_program(*arguments, environment={"LD_DEBUG": "files"})
            self.assertEqual(result.returncode, 0, result.stderr[-2000:])
            loaded = [line.split()[-1] for line in result.stderr.splitlines() if "calling init:" in line]
            self.assertTrue(any("libstdc++" in name for name in loaded), loaded)
            for name in loaded:
                self.assertNotRegex(os.path.basename(name), "torch|c10|cuda|cublas|cudnn|nvrtc")

    def test_formats_hold_the_same_samples(self):
        rows = self.rows(*TINY)
        hashes = set()
        for name in ("d.npy", "d.safetensors", "d.jsonl"):
            self.expect(0, *TINY, "-o", name)
            manifest = self.read_json(name + ".manifest.json")
            (part,) = manifest["parts"]
            (file,) = part["files"]
            self.assertEqual(file["sha256"], sha256(self.path(name)))
            self.assertEqual(file["num_bytes"], os.path.getsize(self.path(name)))
            hashes.add(part["sha256"])
        stream = b"".join(struct.pack("<32i", *row["inputs"], *row["labels"]) for row in rows)
        self.assertEqual(hashes, {"sha256:" + hashlib.sha256(stream).hexdigest()})
        inputs, labels = read_npy(self.path("d.npy"))
        self.assertEqual(inputs, [row["inputs"] for row in rows])
        self.assertEqual(labels, [row["labels"] for row in rows])
        self.expect(0, *TINY, "-o", "wide.npy", "--dtype", "int64")
        self.assertEqual(read_npy(self.path("wide.npy")), (inputs, labels))
        self.assertEqual(self.read_json("wide.npy.manifest.json")["parts"][0]["sha256"], hashes.pop())

    def test_shards_change_no_byte(self):
        self.expect(0, *TINY, "-o", "whole.jsonl")
        self.expect(0, *TINY, "-o", "cut.jsonl", "--shards", "3")
        names = sorted(glob.glob(self.path("cut-*.jsonl")))
        self.assertEqual([os.path.basename(n) for n in names], [f"cut-0000{i}-of-00003.jsonl" for i in range(3)])
        self.assertEqual(read(self.path("whole.jsonl")), b"".join(read(name) for name in names))
        whole = self.read_json("whole.jsonl.manifest.json")["parts"][0]
        cut = self.read_json("cut.jsonl.manifest.json")["parts"][0]
        self.assertEqual(whole["sha256"], cut["sha256"])
        self.assertEqual([file["first"] for file in cut["files"]], ["0", "66", "133"])
        self.expect(0, "verify", "cut.jsonl.manifest.json")

    def test_a_preset_is_described_with_its_sizes(self):
        text = self.expect(0, "describe", "preset", "mad/m/baseline").stdout
        self.assertIn("train      256 of 32 tokens", text)
        self.assertIn("test      1280 of 32 tokens", text)
        preset = json.loads(self.expect(0, "describe", "preset", "mad/fr/baseline", "--json").stdout)
        self.assertEqual((preset["task"], preset["loss_mode"]), ("mad_fuzzy", "all_tokens"))
        self.assertEqual(preset["train"][0]["num_examples"], 12800)
        self.assertEqual(preset["test"][0]["key_length"], "longest")
        self.assertIn("did you mean 'mad/m/baseline'", self.expect(2, "describe", "preset", "mad/m/baselin").stderr)

    def test_training_labels_of_a_preset_are_those_it_is_trained_on(self):
        first = {}
        for name in ("hint/sila-std", "hint/sila-target"):
            (first[name],) = self.rows("generate", name, "--count", "1")
        standard, target = first.values()
        self.assertEqual(standard["inputs"], target["inputs"])
        self.assertEqual(sum(label != -100 for label in standard["labels"]), 128)
        self.assertEqual(sum(label != -100 for label in target["labels"]), 1)

    def test_a_haystack_that_cannot_fill_a_context_is_refused_and_a_small_one_warned_about(self):
        def export(*arguments):
            return ["export", "niah", "--set", "type_haystack=file", "--set", f"haystack_file={self.path('h.txt')}",
                    "--set", "input_seq_len=4096", *arguments]

        sentence = "The ravens brought him bread and flesh in the morning, and bread and flesh in the evening."
        self.write("h.txt", " ".join([sentence] * 700) + "\n")
        self.assertIn("put one sentence on each line", self.expect(2, *export()).stderr)
        self.write("h.txt", "a" * 20_000_000)
        self.assertIn("line 1 has 20000000 bytes", self.expect(3, *export()).stderr)

        self.write("h.txt", f"\ufeff{sentence}\nAnd he drank of the brook.\n")
        result = self.expect(0, *export("-o", "p.jsonl"))
        (warning,) = self.read_json("p.jsonl.manifest.json")["parts"][0]["warnings"]
        self.assertRegex(warning, "the 2 sentences of '.*h.txt' come about 1[0-9][0-9] times in a context of 3")
        self.assertIn(f"warning: {warning}", result.stderr)
        marked = read(self.path("p.jsonl"))
        self.assertNotIn(b"\xef\xbb\xbf", marked)
        self.assertNotIn(b"ufeff", marked)
        self.write("h.txt", f"{sentence}\nAnd he drank of the brook.\n")
        self.assertEqual(self.expect(0, *export()).stdout.encode(), marked)

        self.write("h.txt", "\n".join(f"{sentence[:-1]}, says line {i}." for i in range(400)))
        result = self.expect(0, *export("-o", "p.jsonl"))
        self.assertEqual(self.read_json("p.jsonl.manifest.json")["parts"][0]["warnings"], [])
        self.assertNotIn("warning", result.stderr)

    def test_mixtures_have_parts(self):
        self.expect(0, "generate", "mqar/based", "--split", "test", "--count", "3", "-o", "m.npy")
        parts = self.read_json("m.npy.manifest.json")["parts"]
        self.assertEqual([part["seq_len"] for part in parts], [64, 64, 64, 128, 256, 512, 1024])
        self.assertEqual(parts[6]["files"][0]["name"], "m-input_seq_len-1024-num_kv_pairs-256.npy")
        self.expect(0, "verify", "m.npy.manifest.json")

    def test_verify_accepts_what_was_written_and_says_what_it_holds(self):
        self.expect(0, *TINY, "-o", "d.npy")
        for name in ("d.npy", "d.npy.manifest.json"):
            self.assertIn("verified", self.expect(0, "verify", name).stdout)
        facts = json.loads(self.expect(0, "verify", "d.npy", "--json").stdout)
        (row,) = facts["data_sets"]
        self.assertTrue(facts["verified"])
        self.assertEqual(row["faults"], [])
        self.assertEqual((row["num_samples"], row["num_scored"], row["num_solved"]), (200, 400, 400))
        self.assertEqual((row["num_train"], row["num_shared_with_train"]), (1000, 0))

    def test_verify_names_the_sample_that_was_changed(self):
        for name in ("d.npy", "d.safetensors"):
            self.expect(0, *TINY, "-o", name)
            with open(self.path(name), "r+b") as file:
                # Sample 199 is the last one; the labels' last token.
                file.seek(-4, os.SEEK_END)
                file.write(struct.pack("<i", 12345))
            result = self.expect(1, "verify", name)
            self.assertIn("changed since it was written", result.stdout)
            self.assertIn("sample 199: labels[15] is 12345 instead of -100", result.stdout)
        self.expect(0, *TINY, "-o", "d.jsonl")
        with open(self.path("d.jsonl"), "r+b") as file:
            file.truncate(os.path.getsize(self.path("d.jsonl")) - 1)
        result = self.expect(1, "verify", "d.jsonl")
        self.assertIn("line 200: is not ended", result.stdout)

    def test_verify_sees_a_manifest_that_was_changed(self):
        self.expect(0, *TINY, "-o", "d.npy")
        manifest = self.read_json("d.npy.manifest.json")
        for change, message in (
            (lambda m: m.update(seed="124"), "not what this program makes"),
            (lambda m: m["parts"][0].update(sha256="sha256:" + "0" * 64), "recorded hash"),
            (lambda m: m["parts"][0].update(canon="mqar;L=8"), "the recorded options give"),
        ):
            changed = json.loads(json.dumps(manifest))
            change(changed)
            self.write("d.npy.manifest.json", changed)
            self.assertIn(message, self.expect(1, "verify", "d.npy").stdout)

    def test_verify_says_when_the_task_has_another_version(self):
        self.expect(0, "generate", "mad_fuzzy", "--count", "2", "-o", "d.npy")
        manifest = self.read_json("d.npy.manifest.json")
        self.assertEqual(manifest["task_version"], 2)
        manifest["task_version"] = 1
        self.write("d.npy.manifest.json", manifest)
        self.expect(0, "verify", "d.npy")  # samples that did not change
        with open(self.path("d.npy"), "r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(struct.pack("<i", 3))
        result = self.expect(1, "verify", "d.npy")
        self.assertIn("holds version 1 of the task, and this program makes version 2", result.stdout)

    def test_verify_refuses_what_is_no_manifest(self):
        self.expect(0, *TINY, "-o", "d.npy")
        manifest = self.read_json("d.npy.manifest.json")
        for change, message in (
            (lambda m: m["parts"][0]["files"][0].update(name="../d.npy"), "no plain file name"),
            (lambda m: m.update(task="mqarr"), "did you mean 'mqar'"),
            (lambda m: m.update(format="pickle"), "unknown format"),
            (lambda m: m["parts"][0]["params"].update(input_seq_len=15), "/parts/0/params"),
            (lambda m: m["parts"][0]["files"][0].update(name="gone.npy"), "gone.npy: cannot read"),
        ):
            changed = json.loads(json.dumps(manifest))
            change(changed)
            self.write("d.npy.manifest.json", changed)
            result = self.expect(3, "verify", "d.npy")
            self.assertIn(message, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)

    def test_verify_of_a_task_compares_with_the_golden_hashes(self):
        facts = json.loads(self.expect(0, "verify", "mqar/tiny", "--json", "--count", "500").stdout)
        with open(os.path.join("tests", "golden", "tasks.sha256"), encoding="utf-8") as file:
            golden = {line.split()[1]: line.split()[0] for line in file}
        self.assertEqual([row["name"] for row in facts["data_sets"]], ["mqar/tiny/train", "mqar/tiny/test"])
        for row in facts["data_sets"]:
            self.assertEqual(row["golden_sha256"], golden[row["name"]])
        self.expect(0, "verify", "mad_icr", "--set", "input_seq_len=64", "--count", "200")
        self.assertIn("did you mean", self.expect(2, "verify", "mqar/tinny").stderr)
        self.expect(2, "verify", "mqarr")

    def test_tiny_input_spaces_are_warned_about(self):
        # 4 tokens of 2 keys and 2 values: hardly any different inputs.
        common = ["--set", "vocab_size=4", "--set", "input_seq_len=4", "--count", "300"]
        result = self.expect(0, "verify", "mad_icr", *common)
        self.assertIn("warning: 100.0 % of the samples are in the training data", result.stderr)

    def test_outputs_that_cannot_be_written(self):
        self.assertIn("no/d.npy", self.expect(8, *TINY, "-o", "no/d.npy").stderr)
        self.assertIn("ends in none of", self.expect(2, *TINY, "-o", "d.txt").stderr)
        self.assertIn("is no name that works", self.expect(2, *TINY, "-o", "a b.npy").stderr)
        self.assertIn("shards for 2 samples", self.expect(2, *TINY, "-o", "d.npy", "--count", "2", "--shards", "3").stderr)
        self.expect(2, *TINY, "--shards", "3")
        self.write("d.npy.manifest.json", "my notes")
        self.expect(8, *TINY, "-o", "d.npy")
        with open(self.path("d.npy.manifest.json"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "my notes")

    def test_a_new_layout_leaves_no_file_of_the_old_one_behind(self):
        self.expect(0, *TINY, "-o", "d.npy", "--shards", "4")
        result = self.expect(8, *TINY, "-o", "d.npy", "--shards", "2")
        self.assertIn("d-00000-of-00004.npy", result.stderr)
        self.expect(0, *TINY, "-o", "d.npy", "--shards", "4")

    def test_kill_leaves_whole_files_and_the_next_call_tidies_up(self):
        command = ["generate", "mqar/tiny", "--count", "400000", "--shards", "4", "-o", "d.npy"]
        self.expect(0, *command)
        whole = self.read_json("d.npy.manifest.json")
        for kill in range(8):
            process = subprocess.Popen(
                [PROGRAM, *command], cwd=self.folder.name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            time.sleep(0.01 + 0.03 * kill)
            process.send_signal(signal.SIGKILL)
            process.wait()
            for file in whole["parts"][0]["files"]:
                self.assertEqual(file["sha256"], sha256(self.path(file["name"])))
            if os.path.exists(self.path("d.npy.manifest.json")):
                self.assertEqual(self.read_json("d.npy.manifest.json"), whole)
        self.expect(0, *command)
        self.assertEqual(self.read_json("d.npy.manifest.json"), whole)
        self.assertEqual([n for n in os.listdir(self.folder.name) if n.startswith(".")], [])

    def test_export_and_score_name_what_they_need(self):
        self.assertIn("has no text form", self.expect(2, "export", "mqar").stderr)
        self.write("refs.jsonl", '{"index":0,"outputs":["1234567"],"meta":{"depth":0}}\n')
        self.expect(3, "score", "absent.jsonl", "--references", "refs.jsonl")
        self.write("pred.jsonl", '{"index":1,"pred":"1"}\n')
        self.assertIn("index 1 has no reference", self.expect(3, "score", "pred.jsonl", "--references", "refs.jsonl").stderr)

    def test_a_set_of_several_lengths_is_named_by_them_and_scored_as_one(self):
        self.expect(0, "export", "niah/sila-tab1/niah_single_2", "--count", "3", "-o", "set.jsonl")
        parts = self.read_json("set.jsonl.manifest.json")["parts"]
        names = [part["files"][0]["name"] for part in parts]
        self.assertEqual(names, ["set-input_seq_len-1024.jsonl", "set-input_seq_len-2048.jsonl"])
        lines = [json.loads(line) for name in names for line in read(self.path(name)).splitlines()]
        self.assertEqual([line["index"] for line in lines], list(range(6)))
        self.expect(0, "verify", "set.jsonl")
        # Right at 1024 tokens alone.
        self.write("pred.jsonl", "".join(json.dumps({"index": line["index"],
                                                     "pred": line["answer"] if line["max_length"] == 1024 else "0"}) + "\n"
                                         for line in lines))
        def groups(by):
            result = self.expect(0, "score", "pred.jsonl", "--references", "set.jsonl.manifest.json", "--by", by, "--json")
            (run,) = json.loads(result.stdout)["runs"]
            return [(group["value"], group["score"]) for group in run["groups"]]
        self.assertEqual(groups("max_length"), [("1024", 1.0), ("2048", 0.0)])
        self.assertEqual(groups("part"), [("input_seq_len-1024", 1.0), ("input_seq_len-2048", 0.0)])
        self.expect(0, *TINY, "-o", "tokens.npy")
        result = self.expect(3, "score", "pred.jsonl", "--references", "tokens.npy.manifest.json")
        self.assertIn("is of tokens", result.stderr)

    def test_score_prints_metrics_with_intervals(self):
        numbers = [f"{1000000 + 37 * i}" for i in range(40)]
        self.write(
            "refs.jsonl",
            "".join(json.dumps({"index": i, "outputs": [n], "meta": {"depth": i % 2}}) + "\n" for i, n in enumerate(numbers)),
        )
        def predict(name, right):
            self.write(
                name,
                "".join(json.dumps({"index": i, "pred": " " + n if right(i) else " 5"}) + "\n" for i, n in enumerate(numbers)),
            )
        predict("even.jsonl", lambda i: i % 2 == 0)
        predict("most.jsonl", lambda i: i % 10 != 0)
        text = self.expect(0, "score", "even.jsonl", "--references", "refs.jsonl", "--by", "depth").stdout
        self.assertIn("match_all", text)
        result = json.loads(
            self.expect(0, "score", "even.jsonl", "--references", "refs.jsonl", "--by", "depth", "--json").stdout
        )
        scores = {row["metric"]: row for row in result["runs"][0]["scores"]}
        self.assertEqual(scores["match_all"]["score"], 0.5)
        self.assertEqual(scores["int_first"]["score"], 0.5)
        # Wilson, 20 of 40.
        self.assertAlmostEqual(scores["int_first"]["ci_items"]["low"], 0.3520, places=4)
        self.assertEqual([(g["value"], g["score"]) for g in result["runs"][0]["groups"]], [("0", 1.0), ("1", 0.0)])
        result = json.loads(
            self.expect(
                0, "score", "even.jsonl", "most.jsonl", "--references", "refs.jsonl",
                "--against", "most.jsonl", "even.jsonl", "--json",
            ).stdout
        )
        self.assertEqual(result["error_range"]["num_runs"], 2)
        self.assertAlmostEqual(result["error_range"]["range"], 0.4)
        self.assertEqual(result["comparison"]["only_these"], result["comparison"]["only_others"])
        self.assertEqual(result["comparison"]["mcnemar_p"], 1.0)
        self.expect(2, "score", "even.jsonl", "--references", "refs.jsonl", "refs.jsonl")
        self.write("few.jsonl", '{"index":0,"pred":"x"}\n')
        self.assertIn("--allow-missing", self.expect(3, "score", "few.jsonl", "--references", "refs.jsonl").stderr)
        self.expect(0, "score", "few.jsonl", "--references", "refs.jsonl", "--allow-missing")


class MissingFilesTest(ProgramTest):
    def test_missing_files_are_unreadable_input_by_their_names(self):
        for arguments in (
            ["verify", "no.jsonl"],
            ["verify", "./no"],
            ["validate", "no.json"],
            ["run", "no.json", "--device", "cpu"],
            ["report", "no"],
            ["score", "no.jsonl", "--references", "no.jsonl"],
            ["mixer", "run", "gla", "--in", "no.safetensors", "--out", "o.safetensors"],
        ):
            result = self.expect(3, *arguments)
            self.assertRegex(result.stderr, r"^error: (\./)?no.*: .*[Nn]o such file", arguments)
            self.assertEqual(result.stderr.count("\n"), 1)

    def test_a_missing_haystack_is_unreadable_input_by_its_option(self):
        options = {"type_haystack": "file", "haystack_file": "no.txt"}
        settings = [word for key, value in options.items() for word in ("--set", f"{key}={value}")]
        result = self.expect(3, "generate", "niah", *settings)
        self.assertEqual(result.stderr, "error: --set/haystack_file: cannot read 'no.txt'\n")
        suite = tiny_suite()
        suite["task"] = {"name": "niah", **options, "train": {"num_examples": 8},
                         "validation": {"num_examples": 8}, "test": {"num_examples": 8}}
        del suite["throughput"]
        self.write("suite.json", suite)
        for command in (["validate", "suite.json"], ["run", "suite.json", "--device", "cpu"]):
            result = self.expect(3, *command)
            self.assertRegex(result.stderr, "^error: /task/haystack_file: cannot read 'no.txt'\\n$")

    def test_missing_manifest_is_named(self):
        self.expect(0, "generate", "mqar/tiny", "--count", "2", "-o", "data.jsonl")
        os.remove(self.path("data.jsonl.manifest.json"))
        result = self.expect(3, "verify", "data.jsonl")
        self.assertEqual(
            result.stderr,
            "error: data.jsonl: is no manifest, and there is none beside it (data.jsonl.manifest.json)\n",
        )

    def test_validate_knows_a_manifest(self):
        self.expect(0, "generate", "mqar/tiny", "--count", "2", "-o", "data.jsonl")
        self.assertIn("valid", self.expect(0, "validate", "data.jsonl.manifest.json").stdout)
        manifest = self.read_json("data.jsonl.manifest.json")
        manifest["parts"][0]["count"] = 3
        self.write("forged.json", manifest)
        self.assertIn("fewer samples", self.expect(3, "validate", "forged.json").stderr)
        manifest["kind"] = "suite"
        self.write("forged.json", manifest)
        self.assertIn("kind 'suite' is none of", self.expect(3, "validate", "forged.json").stderr)


if __name__ == "__main__":
    unittest.main()
