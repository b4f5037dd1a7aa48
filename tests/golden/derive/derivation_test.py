"""Every token task against its second derivation, bit by bit: inputs, labels, slices.

    python3 tests/golden/derive/derivation_test.py PROGRAM [TEST...]

SPDX-License-Identifier: Apache-2.0
"""

import itertools
import unittest

import settings
from families import DERIVATIONS, tasks_of
from program_rows import facts, parts_of, settings_of

ROWS = 50
# Of one data set: where 50 rows have more tokens, as many rows as fit are compared, at least one.
MAX_TOKENS = 1 << 21
TEXT_TASKS = {"cwe", "fwe", "niah", "passkey", "phonebook", "vt"}  # text_tasks.py
LABEL_MODES = ("scored", "all_tokens", "target_only")
# Both words of a 64-bit index change within these rows.
SETTING_KEYS = {"seed": 1234567890123456789, "split": 23, "start": 2**32 - 17}


def first_difference(row, derived):
    """None, or what differs."""
    if row == derived:
        return None
    return next((f"position {t}: {a} instead of {b}"
                 for t, (a, b) in enumerate(itertools.zip_longest(row, derived)) if a != b), None)


class Family:
    """The tasks of one module, with settings besides the presets."""

    def compare(self, what, count, mode="scored", **flags):
        for manifest, part, rows in parts_of(what, count, mode, **flags):
            derivation = DERIVATIONS[manifest["task"]]
            self.assertEqual(part["canon"], derivation.canon(part["params"]))
            first, seed, split = int(part["first"]), int(manifest["seed"]), int(manifest["split"])
            derived = derivation.samples(part["params"], seed, split, first, count)
            for index, (row, sample) in enumerate(zip(rows, derived, strict=True), first):
                where = f"{part['canon']} of {what}, {flags}, {mode} labels, sample {index}"
                self.assertIsNone(first_difference(row["inputs"], sample.inputs), f"inputs of {where}")
                self.assertIsNone(first_difference(row["labels"], sample.labels_as(mode)), f"labels of {where}")
                if mode == "scored":
                    self.assertEqual(row["meta"], sample.meta(index), where)

    def compare_preset(self, name, split):
        sizes = [(manifest["task"], manifest["seed"], part) for manifest, part, _ in parts_of([name], 1, split=split)]
        if max(part["seq_len"] for _, _, part in sizes) * ROWS <= MAX_TOKENS:
            self.compare([name], ROWS, split=split)
            return
        for task, seed, part in sizes:  # parts with a number of rows each
            count = max(1, min(ROWS, MAX_TOKENS // part["seq_len"]))
            self.compare([task, *settings_of(part["params"])], count, split=split, seed=seed)

    def test_presets(self):
        for preset in facts("list", "presets"):
            if preset["task"] not in self.tasks:
                continue
            for split in ("train", "test"):
                with self.subTest(preset=preset["name"], split=split):
                    self.compare_preset(preset["name"], split)

    def test_odd_settings_in_every_label_mode(self):
        for task, options in self.odd_settings:
            for mode in LABEL_MODES:
                with self.subTest(task=task, options=options, labels=mode):
                    self.compare([task, *settings_of(options)], ROWS, mode, **SETTING_KEYS)

    def test_defaults_are_those_of_the_page(self):
        for task in self.tasks:
            described = {option["name"]: option["default"] for option in facts("describe", "task", task)["params"]}
            self.assertEqual(described, DERIVATIONS[task].defaults, task)

    def test_every_option_is_set_to_something_else(self):
        for task in self.tasks:
            for option, default in DERIVATIONS[task].defaults.items():
                values = {options.get(option, default) for name, options in self.odd_settings if name == task}
                self.assertTrue(values - {default}, f"no setting of {task} changes {option}")


class Recall(Family, unittest.TestCase):
    tasks, odd_settings = tasks_of("recall"), settings.RECALL


class Mad(Family, unittest.TestCase):
    tasks, odd_settings = tasks_of("mad"), settings.MAD


class Copying(Family, unittest.TestCase):
    tasks, odd_settings = tasks_of("copying"), settings.COPYING


class Lookup(Family, unittest.TestCase):
    tasks, odd_settings = tasks_of("lookup"), settings.LOOKUP


class StateTracking(Family, unittest.TestCase):
    tasks, odd_settings = tasks_of("state_tracking"), settings.STATE_TRACKING


class Registry(unittest.TestCase):
    def test_every_task_has_a_derivation(self):
        tasks = {task["name"] for task in facts("list", "tasks")}
        self.assertEqual(tasks, set(DERIVATIONS) | TEXT_TASKS)


if __name__ == "__main__":
    unittest.main()
