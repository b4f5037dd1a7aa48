"""What every derivation gives back, and how a derivation is found by its task's name.

SPDX-License-Identifier: Apache-2.0
"""

import inspect
from dataclasses import dataclass, field
from decimal import Decimal

from sampling import Draws

IGNORE = -100


@dataclass
class Sample:
    inputs: list
    labels: dict  # scored positions with their answers
    slices: dict = field(default_factory=dict)  # name -> buckets of the scored positions, in order
    target: set = None  # scored positions of target_only; the last one if not given

    def labels_as(self, mode):
        kept = self.labels
        if mode == "target_only":
            target = self.target or {max(self.labels)}
            kept = {t: label for t, label in self.labels.items() if t in target}
        row = [IGNORE] * len(self.inputs)
        if mode == "all_tokens":
            row[:-1] = self.inputs[1:]
        for t, label in kept.items():
            row[t] = label
        return row

    def meta(self, index):
        """As the program writes it: for each slice the bucket of every scored position, in order."""
        slices = {name: [by_position.get(t) for t in sorted(self.labels)]
                  for name, by_position in self.slices.items()}
        return {"index": index} | ({"slices": slices} if slices else {})


class Derivation:
    """A task: its options with their defaults, its canon, and its samples."""

    def __init__(self, draw, canon):
        parameters = list(inspect.signature(draw).parameters.values())[1:]
        self.draw, self.template = draw, canon
        self.defaults = {p.name: p.default for p in parameters}

    def canon(self, options):
        options = self.defaults | options
        template = self.template(options) if callable(self.template) else self.template
        return template.format(**{name: as_text(value) for name, value in options.items()})

    def samples(self, options, seed, split, first, count):
        canon = self.canon(options)
        for index in range(first, first + count):
            yield self.draw(Draws(canon, seed, split, index), **options)


def as_text(value):
    """A value of a canon: flags 0 or 1, reals as the shortest plain decimal."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return f"{int(value)}" if value.is_integer() else f"{Decimal(repr(value)):f}"
    return str(value)


DERIVATIONS = {}


def task(canon):
    """Registers the function below it, whose name is the task's."""

    def register(draw):
        DERIVATIONS[draw.__name__] = Derivation(draw, canon)
        return draw

    return register


# Buckets of slices.


def count_bucket(count):
    for limit, name in ((1, "0"), (4, "1-3"), (16, "4-15"), (64, "16-63")):
        if count < limit:
            return name
    return "64+"


def occurrence_bucket(occurrence):
    return {2: "2", 3: "3"}.get(occurrence) or ("4-7" if occurrence < 8 else "8+")


def decile_bucket(position, size):
    low = 10 * position // size * 10
    return f"{low}-{low + 10}%"
