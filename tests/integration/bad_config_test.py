"""Malformed suites: exit code 2, one line with place and remedy, nothing started.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import re
import resource
import subprocess
import unittest

from program import PROGRAM, ProgramTest, tiny_suite


def children_seconds():
    """CPU time of the processes that have ended: other work of the machine does not count."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def changed(path, value):
    suite = tiny_suite()
    target = suite
    *steps, last = path.split("/")
    for step in steps:
        target = target.setdefault(step, {})
    if value is None:
        del target[last]
    else:
        target[last] = value
    return suite


# name: (suite, what the message must contain)
CASES = {
    "not json": ("{", "line 1"),
    "not an object": ("[1]", "JSON object"),
    "duplicate key": ('{"name": "a", "name": "b"}', "/name: duplicate key, line 1, column 20"),
    "too deep": ("[" * 100 + "]" * 100, "nested deeper than 64"),
    "bad utf-8": ('{"name": "\udcff"}', "UTF-8"),
    "huge integer": ('{"name": 123456789012345678901234567890}', "integer"),
    "comment": ('{} // no', "line 1"),
    "unknown top key": (changed("trian", {}), "did you mean 'train'"),
    "no name": (changed("name", None), "/name: missing"),
    "no task": (changed("task", None), "/task: missing"),
    "no model": (changed("model", None), "/model: missing"),
    "newer major version": (changed("schema_version", "2.0"), "/schema_version"),
    "name is a number": (changed("name", 3), "/name: expected a string"),
    "unknown task": (changed("task/name", "mqra"), "did you mean 'mqar'"),
    "unknown task option": (changed("task/vocab_sise", 32), "did you mean 'vocab_size'"),
    "odd length": (changed("task/train/input_seq_len", [15, 24]), "must be even"),
    "too many pairs": (changed("task/test/num_kv_pairs", [2, 30]), "num_kv_pairs"),
    "vocabulary too small": (changed("task/vocab_size", 4), "num_kv_pairs must be <= vocab_size/2 - 1"),
    "unequal lists": (changed("task/train/num_kv_pairs", [2, 3, 4]), "equal lengths"),
    "empty list": (changed("task/train/num_kv_pairs", []), "empty list"),
    "no train split": (changed("task/train", None), "/task/train: missing"),
    "negative examples": (changed("task/train/num_examples", -1), "num_examples"),
    "unknown noise": (changed("task/noise", "zeros"), "did you mean 'zero'"),
    "unknown mixer": (
        changed("sweep/grid", {"model.sequence_mixer": [{"name": "atention"}]}),
        "did you mean 'attention'",
    ),
    "unknown mixer option": (
        changed("sweep/grid", {"model.sequence_mixer": [{"name": "gla", "heads": 2}]}),
        "heads",
    ),
    "heads do not divide": (
        changed(
            "sweep/grid", {"model.sequence_mixer": [{"name": "attention", "num_heads": 3}]}
        ),
        "num_heads",
    ),
    "hybrid of nothing": (
        changed("sweep/grid", {"model.sequence_mixer": [{"name": "hybrid", "pattern": []}]}),
        "pattern",
    ),
    "unknown backbone": (changed("model/backbone", "zoo"), "zoology"),
    "unknown model option": (changed("model/d_modle", 16), "did you mean 'd_model'"),
    "unknown recipe": (changed("train/recipe", "zoology2"), "did you mean 'zoology'"),
    "unknown train option": (changed("train/learning_rate", 0.1), "/train/learning_rate"),
    "lr out of range": (changed("train/lr", 0), "/train/lr: must be in"),
    "lr is text": (changed("train/lr", "big"), "/train/lr: expected a number"),
    "batch size zero": (changed("train/batch_size", 0), "/train/batch_size"),
    "tf32 on the CPU": (changed("train/dtype", "tf32"), "tf32 needs --device cuda"),
    "online without steps": (
        changed("task/train", {"input_seq_len": 16, "num_kv_pairs": 2, "num_examples": 0}),
        "/train/steps_per_epoch",
    ),
    "sweep of nothing": (changed("sweep/grid", {"train.lr": []}), "/sweep/grid/train.lr"),
    "sweep of a whole section": (changed("sweep/grid", {"train": [1]}), "dotted"),
    "sweep of an unknown option": (changed("sweep/grid", {"train.lrr": [1]}), "/train/lrr"),
    "zip of unequal lists": (
        changed("sweep/zip", {"train.lr": [0.1, 0.2], "model.d_model": [16]}),
        "equal lengths",
    ),
    "zip group of unequal lists": (
        changed("sweep/zip", [{"train.lr": [0.1, 0.2], "model.d_model": [16]}]),
        "/sweep/zip/0/train.lr: zipped lists need equal lengths",
    ),
    "selection by test results": (
        changed("sweep/select", {"over": ["train.lr"], "by": "test.accuracy"}),
        "/sweep/select/by: only validation.accuracy may decide",
    ),
    "selection over what is not swept": (
        changed("sweep/select", {"over": ["train.lr"], "by": "validation.accuracy"}),
        "/sweep/select/over/0: 'train.lr' is no axis",
    ),
    "more steps than can be": (
        changed("train/num_epochs", 4611686018427387904),
        "/train/num_epochs: the number of steps of all epochs is at most 1000000000000",
    ),
    "more steps in an epoch than can be": (
        changed("task/train/num_examples", 9223372036854775807),
        "/task/train/num_examples: the number of steps of an epoch is at most 10000000",
    ),
    "more steps than can be, online": (
        {
            **changed("task/train/num_examples", 0),
            "train": {"steps_per_epoch": 9223372036854775807, "num_epochs": 2},
        },
        "/train/steps_per_epoch: the number of steps of an epoch is at most 10000000",
    ),
    "vocabulary of any size": (
        changed("task/vocab_size", 1 << 62),
        "/task/train: mqar: vocab_size must be in [2, 16777216]",
    ),
    "batch of any size": (
        changed("train/batch_size", 9223372036854775807),
        "/train/batch_size: must be in [1, 1048576]",
    ),
    "endless test": (
        changed("task/test/num_examples", 9223372036854775807),
        "/task/test/num_examples: a set that is scored is at most 1000000000",
    ),
    "more cells than can be": (
        {
            **changed("sweep/grid", {"train.lr": [i / 1000 for i in range(1, 1001)]}),
            "seeds": {"count": 1000},
        },
        "1000 points of the sweep with 1000 seeds are more than 100000 cells",
    ),
    "no seeds": (changed("seeds/count", 0), "/seeds/count: must be >= 1"),
    "byte order mark": ("\ufeff" + json.dumps(tiny_suite()), "byte order mark"),
    "trailing NUL": (json.dumps(tiny_suite()) + "\0", "a NUL byte"),
    "name outside out": (changed("name", "../elsewhere"), "/name: '../elsewhere'"),
    "grid value twice": (
        changed("sweep/grid", {"train.lr": [0.1, 0.1]}),
        "/sweep/grid/train.lr/1: 0.1 stands there already",
    ),
    "exclusion of an unknown axis": (
        changed("sweep/exclude", [{"model.sequence_mixr.name": "attention"}]),
        "/sweep/exclude/0/model.sequence_mixr.name: unknown axis",
    ),
    "exclusion of nothing": (
        changed("sweep/exclude", [{"model.sequence_mixer.name": "atention"}]),
        "atention is none of attention, delta_net",
    ),
    "huge grid": (
        changed("sweep/grid", {f"train.{k}": [i / 1000 for i in range(1, 1001)] for k in ("lr", "eps", "min_lr")}),
        "more than 100000 cells",
    ),
    "too many seeds": (changed("seeds/count", 10**9), "/seeds/count: must be in 1..10000"),
    "unknown phase": (changed("throughput/phases", ["forward"]), "/throughput/phases/0"),
}


class BadConfigTest(ProgramTest):
    def check(self, suite, expected):
        if isinstance(suite, dict):
            suite = json.dumps(suite)
        with open(self.path("bad.json"), "wb") as file:
            file.write(suite.encode("utf-8", "surrogateescape"))
        for command in (["validate", "bad.json"], ["run", "bad.json", "--device", "cpu"]):
            result = self.expect(2, *command)
            self.assertTrue(result.stderr.startswith("error: "), result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            self.assertIn(expected, result.stderr)
            self.assertEqual(result.stdout, "")
        self.assertFalse(os.path.exists(self.path("out")), "something was written")

    def test_planning_makes_no_weights(self):
        """Sizes that no machine trains are planned in the memory of small ones, and in about their time."""
        suite = tiny_suite()
        suite["seeds"] = {"count": 1}
        suite["sweep"]["grid"] = {"model.sequence_mixer": [{"name": "gla"}]}
        del suite["throughput"]
        seconds = []
        for d_model, n_layers in ((16, 2), (65536, 2), (4096, 1024)):
            suite["model"].update({"d_model": d_model, "n_layers": n_layers})
            self.write("large.json", suite)
            limits = (resource.RLIMIT_AS, (16 << 30, 16 << 30))
            used = children_seconds()
            result = subprocess.run(
                [PROGRAM, "validate", "large.json"],
                cwd=self.folder.name,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
                preexec_fn=lambda: resource.setrlimit(*limits),
            )
            self.assertEqual(result.returncode, 0, result.stderr)
            seconds.append(children_seconds() - used)
        # 2.7 s more when every parameter was compared with every other one by building a message.
        self.assertLess(max(seconds) - seconds[0], 1.5, seconds)

    def test_all_errors_at_once_each_with_its_place(self):
        text = """{
  "name": "bad", "$schema": "https://example.org/config.json",
  "trian": {},
  "task": {"name": "mqar", "vocab_sise": 32, "noise": "zeros",
    "train": {"input_seq_len": 16, "num_kv_pairs": 2, "num_examples": 64},
    "validation": {"num_examples": 8}, "test": {"num_examples": 8}},
  "model": {"d_modle": 16,
    "n_layers": "2",
    "sequence_mixer": "gla"},
  "train": {"lr": 99, "batch_size": 8, "learning_rate": 1},
  "sweep": {"grid": {"model.sequence_mixer": [{"name": "gla"}, {"name": "glaa"}]}},
  "seeds": {"count": 0}
}"""
        self.write("bad.json", text)
        result = self.expect(2, "validate", "bad.json", "--set", "train.dtype=fp33")
        lines = result.stderr.splitlines()
        self.assertEqual(lines[0], "error: 10 errors:", result.stderr)
        for expected in (
            r"/trian: unknown key .*'train'.*\(line 3, column 3\)",
            r"/task/train/vocab_sise: .*did you mean 'vocab_size'.*\(line 4, column 28\)",
            r"/task/train/noise: .*did you mean 'zero'.*\(line 4, column 46\)",
            r"/model/d_modle: .*did you mean 'd_model'.*\(line 7, column 13\)",
            r"/model/n_layers: expected an integer, got string \(line 8, column 5\)",
            r"/model/sequence_mixer.*did you mean 'gla'.*\(line 11, column 22\)",
            r"/train/lr: must be in .*\(line 10, column 13\)",
            r"/train/learning_rate: unknown .*\(line 10, column 40\)",
            r"/train/dtype: unknown .*\(--set train.dtype\)",
            r"/seeds/count: must be >= 1 \(line 12, column 13\)",
        ):
            found = [line for line in lines if re.fullmatch("  " + expected, line)]
            self.assertEqual(len(found), 1, f"{expected}: {result.stderr}")

    def test_what_is_set_is_named_instead_of_a_place_in_the_file(self):
        self.write("suite.json", tiny_suite())
        for setting, expected in (
            ("train.lr=0.1,0.2,0.1", r"/sweep/grid/train.lr/2: .*\(--set train.lr\)"),
            ("task.noise=zeros", r"/task/train/noise: .*\(--set task.noise\)"),
            ("task.train.num_kv_pairs=4000", r"/task/train: [^(]*(\([^l][^)]*\))?[^(]*"),
        ):
            stderr = self.expect(2, "validate", "suite.json", "--set", setting).stderr
            self.assertRegex(stderr, expected)
            self.assertNotIn("(line ", stderr)

    def test_what_follows_from_an_error_is_not_told(self):
        # Without its length the task's own default would not fit the vocabulary.
        suite = changed("task/train/input_seq_len", "long")
        suite["model"]["d_model"] = True
        self.write("bad.json", suite)
        lines = self.expect(2, "validate", "bad.json").stderr.splitlines()
        self.assertEqual(len(lines), 3, lines)
        self.assertIn("/input_seq_len: expected", lines[1])
        self.assertIn("/model/d_model: expected an integer, got boolean", lines[2])

    def test_the_first_twenty(self):
        suite = tiny_suite()
        suite["train"].update({f"option_{i}": i for i in range(30)})
        self.write("bad.json", suite)
        lines = self.expect(2, "validate", "bad.json").stderr.splitlines()
        self.assertEqual(len(lines), 21)
        self.assertIn("error: 20 errors", lines[0])

    def test_enough_cases(self):
        self.assertGreaterEqual(len(CASES), 30)


for case, (suite_, expected_) in CASES.items():
    def one(self, suite=suite_, expected=expected_):
        self.check(suite, expected)

    setattr(BadConfigTest, "test_" + case.replace(" ", "_").replace("-", "_"), one)


if __name__ == "__main__":
    unittest.main()
