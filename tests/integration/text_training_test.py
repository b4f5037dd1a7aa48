"""Small models train on a text task, on other chapters than they are tested on.

SPDX-License-Identifier: Apache-2.0
"""

import collections
import json
import unittest

from program import ProgramTest

IGNORE = -100  # the label of a position that is not scored

# NIAH without an instruction, at the least length that holds any sample, and at twice that.
SUITE = {
    "schema_version": "1.0",
    "name": "text",
    "task": {
        "name": "niah",
        "gen": "answer",
        "inst": "none",
        "train": {"input_seq_len": 224, "type_haystack": "kjv_train", "num_examples": 0},
        "validation": {"num_examples": 16},
        "test": {"input_seq_len": [224, 448], "type_haystack": "kjv_test", "num_examples": 40},
    },
    "model": {
        "backbone": "zoology",
        "d_model": 32,
        "n_layers": 2,
        "sequence_mixer": {
            "name": "hybrid",
            "pattern": [{"name": "base_conv"}, {"name": "attention"}],
        },
    },
    "train": {
        "recipe": "zoology",
        "lr": 0.01,
        "batch_size": 8,
        "steps_per_epoch": 20,
        "num_epochs": 2,
    },
    "sweep": {"grid": {"train.loss_mode": ["target_only", "all_tokens"]}},
}

# A key of three digits at the beginning of a filler, always at the same place: whoever reads it there
# is right.
READING = {
    "schema_version": "1.0",
    "name": "reading",
    "task": {
        "name": "passkey",
        "gen": "answer",
        "key_digits": 3,
        "depth_mode": "fixed",
        "depth": 100,
        "train": {"input_seq_len": 104, "num_examples": 0},
        "validation": {"num_examples": 16},
        "test": {"input_seq_len": 104, "num_examples": 100},
    },
    "model": {
        "backbone": "zoology",
        "d_model": 32,
        "n_layers": 2,
        "sequence_mixer": {"name": "attention"},
    },
    "train": {
        "recipe": "zoology",
        "lr": 0.01,
        "batch_size": 32,
        "loss_mode": "target_only",
        "steps_per_epoch": 100,
        "num_epochs": 4,
    },
}


def knows_the_form(samples):
    """What knowing which token is commonest at each place of an answer, and no more, has right."""
    answers = [[label for label in sample["labels"] if label != IGNORE] for sample in samples]
    places = list(zip(*answers, strict=True))
    commonest = [collections.Counter(tokens).most_common(1)[0][1] for tokens in places]
    return sum(commonest) / (len(places) * len(answers))


class TextTrainingTest(ProgramTest):
    def test_both_losses_learn_from_held_out_chapters_and_report(self):
        self.write("text.json", SUITE)
        self.expect(0, "run", "text.json", "-o", "out")
        report = self.read_json("out/report.json")
        cells = {cell["config"]["train"]["loss_mode"]: cell for cell in report["cells"]}
        self.assertEqual(set(cells), {"target_only", "all_tokens"})
        for cell in cells.values():
            self.assertEqual(cell["state"]["value"], "completed", json.dumps(cell["state"]))
            for split, haystack in (("train", "kjv_train"), ("test", "kjv_test")):
                for segment in cell["config"]["task"][split]:
                    self.assertEqual(segment["type_haystack"], haystack)
            first, last = (point["train_loss"] for point in cell["learning_curve"])
            self.assertLess(last, first - 0.5)
            lengths = [row["axes"]["input_seq_len"] for row in cell["accuracy_by_length"]
                       if row["slice"] is None]
            self.assertEqual(lengths, [224, 448])
        for row in cells["target_only"]["accuracy_by_length"]:
            if row["slice"] is None:
                self.assertLess(row["chance"], 0.13)
                self.assertEqual(row["ceiling"], 1)
        with open(self.path("out/report.md"), encoding="utf-8") as file:
            self.assertIn("448 tokens", file.read())

    def test_a_model_learns_to_read_and_not_the_form_alone(self):
        self.write("reading.json", READING)
        self.expect(0, "run", "reading.json", "-o", "out")
        (cell,) = self.read_json("out/report.json")["cells"]
        (row,) = [row for row in cell["accuracy_by_length"] if row["slice"] is None]
        settings = []
        for key, value in READING["task"].items():
            if not isinstance(value, dict) and key != "name":
                settings += ["--set", f"{key}={value}"]
        settings += ["--set", "input_seq_len=104", "--split", "test", "--count", "100"]
        text = self.expect(0, "generate", "passkey", *settings).stdout
        form = knows_the_form([json.loads(line) for line in text.splitlines()])
        # A space, and three digits of ten each.
        self.assertGreater(form, (1 + 3 / 10) / 4 - 0.01)
        self.assertLess(form, (1 + 3 / 10) / 4 + 0.06)
        self.assertGreater(row["accuracy"], form + 0.1)


if __name__ == "__main__":
    unittest.main()
