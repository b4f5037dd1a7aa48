"""mixerbench from a Python program (docs/PYTHON.md). SPDX-License-Identifier: Apache-2.0

Everything runs in processes of its own: torch's settings, generators and devices of the program that calls stay as they
are, and a mixer that ends its process ends no other.
"""

from __future__ import annotations

import csv
import inspect
import io
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Union

from . import host

if TYPE_CHECKING:
    import numpy
    import pandas

# A class; a class and its options; "FILE.py:Class"; the name of a mixer of the program, or its configuration.
Mixer = Union[type, "tuple[Any, Mapping[str, Any]]", str, "Mapping[str, Any]"]

# Of a run that is done on a GPU that was slowed down while it was timed; with an error, of one that cannot start.
_ENVIRONMENT = 7
# Exit codes that answer (docs/CLI.md): rows that did not complete, rows that are still to come, a run that was stopped.
_REPORTED = (0, 4, 6, _ENVIRONMENT, 75)
_CHECKED = (0, 1)


class MixerbenchError(RuntimeError):
    """The program ended with an error; the message is the program's."""


def _execute(
    arguments: Sequence[str], allowed: Sequence[int] = (0,), is_quiet: bool = True, is_answer: bool = False
) -> str:
    """Standard output of `mixerbench ARGUMENTS`. What it says beside that goes to standard error unless `is_quiet`.

    Where that `is_answer`, a program that says nothing there has failed, whatever its exit code.
    """
    if host.is_inside():
        raise MixerbenchError(
            "a file with a mixer in it calls mixerbench when it is imported: put the call under "
            "`if __name__ == '__main__':`"
        )
    with subprocess.Popen(
        [*host.worker_command(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="backslashreplace",
        start_new_session=True,  # Ctrl-C comes once, from here: a second one would not let it save
    ) as process:
        said: list[str] = []
        listener = threading.Thread(target=_listen, args=(process.stderr, said, is_quiet))
        listener.start()
        try:
            out = process.stdout.read()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            process.stdout.read()
            raise
        finally:
            listener.join()
    errors = [line for line in said if line.startswith("error: ")]
    is_refused = process.returncode == _ENVIRONMENT and bool(errors)
    if process.returncode not in allowed or is_refused or (is_answer and not out):
        how = f"mixerbench {arguments[0]} ended with {host.ending(process.returncode)}"
        raise MixerbenchError(errors[-1].strip() if errors else "\n".join([how, "".join(said[-20:])]).strip())
    return out


def _listen(stream: IO[str], said: list[str], is_quiet: bool) -> None:
    """Keeps the lines of `stream` and, unless `is_quiet`, passes them on."""
    for line in stream:
        said.append(line)
        del said[:-200]
        if not is_quiet:
            sys.stderr.write(line)
            sys.stderr.flush()


def _place(cls: type) -> str:
    """package.module:Class of a class in a package, whose imports may be relative, else FILE.py:Class."""
    try:
        path = inspect.getfile(cls)
    except (OSError, TypeError):
        path = ""
    if "." in cls.__qualname__ or not os.path.isfile(path):
        raise ValueError(
            f"{cls.__qualname__} must stand at the top level of a file, which other processes load; in a notebook, "
            "write it to one with %%writefile mine.py"
        )
    if "." in cls.__module__:
        return f"{cls.__module__}:{cls.__name__}"
    return f"{os.path.abspath(path)}:{cls.__name__}"


def _configuration(mixer: Mixer) -> dict[str, Any]:
    """{"name": ..., options}, as a report gives it back: a tuple is a list there, and a key a text."""
    named = _named(mixer)
    given = named["options"] if named.get("name") == "python" and "options" in named else named
    for name, value in given.items():
        _require_json(f"the option {name}", value)
    return json.loads(json.dumps(named))


def _require_json(what: str, value: Any) -> None:
    """Whether other processes can be told of `value`."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            _require_json(what, key)
            _require_json(f"{what}, {key!r}", item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _require_json(what, item)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{what} has a whole number that 64 bits do not hold")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{what} has {value}, which is no number")
    elif isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError(f"{what} has {value!r}, for which UTF-8 has no form")


def _named(mixer: Mixer) -> dict[str, Any]:
    options: Mapping[str, Any] = {}
    if isinstance(mixer, tuple):
        if len(mixer) != 2 or not isinstance(mixer[1], Mapping):
            raise TypeError(f"a mixer with options is a pair (class, {{option: value}}), not {mixer!r}")
        mixer, options = mixer
    if isinstance(mixer, type):
        mixer = _place(mixer)
    if isinstance(mixer, Mapping):
        return {**mixer, **options}
    if not isinstance(mixer, str):
        raise TypeError(
            f"a mixer is a class, a pair of it and its options, 'FILE.py:Class', or the name or configuration of one "
            f"of the program's, not {type(mixer).__name__}" + ("; pass the class" if hasattr(mixer, "forward") else "")
        )
    if ":" in mixer or mixer.endswith(".py"):
        return {"name": "python", "module": mixer, "options": dict(options)}
    return {"name": mixer, **options}


def _is_mapping(what: str, value: Any, example: str) -> None:
    if value is not None and not (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
        raise TypeError(f"{what} is a dict such as {example}, not {value!r}")


def _is_count(what: str, value: Any, least: int) -> None:
    if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__") or value < least):
        raise ValueError(f"{what} is a whole number >= {least}, not {value!r}")


def _is_list(what: str, value: Any, example: str) -> None:
    if isinstance(value, str):  # a sequence of its letters
        raise TypeError(f"{what} is a list such as {example}, not {value!r}")


def _settings(settings: Mapping[str, Any] | None) -> Iterator[str]:
    _is_mapping("settings", settings, "{'train.lr': 0.001}")
    for path, value in (settings or {}).items():
        _require_json(f"the setting {path}", value)
        yield "--set"
        yield f"{path}={value if isinstance(value, str) else json.dumps(value)}"


def _holds(resolved: Any, mixer: Mapping[str, Any]) -> bool:
    """Whether a resolved mixer, which names every default, is `mixer` or holds it."""
    if isinstance(resolved, Mapping):
        if _is(resolved, mixer):
            return True
        resolved = list(resolved.values())
    return isinstance(resolved, list) and any(_holds(item, mixer) for item in resolved)


def _is(resolved: Mapping[str, Any], mixer: Mapping[str, Any]) -> bool:
    return all(key in resolved and _same(resolved[key], value, key) for key, value in mixer.items())


def _same(resolved: Any, value: Any, key: str = "") -> bool:
    """To a class 1, 1.0 and True are three values of an option; a module's file may be written in several ways."""
    if key == "options":
        return json.dumps(resolved, sort_keys=True) == json.dumps(value, sort_keys=True)
    if key == "module" and ".py:" in str(value):
        return os.path.abspath(resolved) == os.path.abspath(value)
    if isinstance(resolved, Mapping) and isinstance(value, Mapping):
        return resolved.keys() == value.keys() and _is(resolved, value)
    if isinstance(resolved, list) and isinstance(value, list):
        return len(resolved) == len(value) and all(map(_same, resolved, value))
    return resolved == value


def _name_of(resolved: Mapping[str, Any], named: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Of the mixers that were given the one that a cell has: itself before one that it holds, with the most options."""
    held = [name for name, mixer in named.items() if _holds(resolved, mixer)]
    return max(held, key=lambda name: (_is(resolved, named[name]), len(named[name])), default=None)


@dataclass(frozen=True)
class Report:
    """What a run left in `folder`.

    data: its report.json (docs/REPORT_SCHEMA.md).
    rows: one for each cell and test segment, slice and bucket, as `mixerbench report --format csv`; "name" is the name
        that `run` got, or the label of a mixer of the suite.
    """

    folder: str
    data: dict[str, Any]
    rows: list[dict[str, str]]

    def __repr__(self) -> str:
        cells = {row["run_id"]: row["cell_state"] for row in self.rows}
        completed = sum(state == "completed" for state in cells.values())
        return f"Report({self.folder!r}, {completed} of {len(cells)} cells completed)"

    @classmethod
    def read(cls, folder: str, mixers: Mapping[str, Mixer] | None = None) -> Report:
        """The report of a run folder that is there already."""
        with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
            data = json.load(file)
        text = _execute(["report", folder, "--format", "csv"], allowed=_REPORTED)
        rows = list(csv.DictReader(io.StringIO(text)))
        named = {name: _configuration(mixer) for name, mixer in (mixers or {}).items()}
        names = {}
        for cell in data["cells"]:
            mixer = cell["config"]["model"]["sequence_mixer"]
            names[cell["identity"]["run_id"]] = _name_of(mixer, named)
        for row in rows:
            if row["mixer"] in named and names.get(row["run_id"]) is None:
                raise ValueError(f"{row['mixer']!r} is the name of a mixer of the suite: give yours another")
        return cls(folder, data, [{"name": names.get(row["run_id"]) or row["mixer"], **row} for row in rows])

    def accuracy(self) -> dict[str, float]:
        """By name, the mean accuracy over test segments, seeds and whatever else the suite sweeps, of the cells that
        completed: see `failures()`."""
        found: dict[str, list[float]] = {}
        for row in self.rows:
            if row["accuracy"] and not row["bucket"] and not row["slice"]:
                found.setdefault(row["name"], []).append(float(row["accuracy"]))
        return {name: sum(values) / len(values) for name, values in found.items()}

    def failures(self) -> dict[str, str]:
        """By name, the state and reason of a cell that did not complete, and where its whole traceback lies."""
        found = {}
        for row in self.rows:
            if row["cell_state"] == "completed":
                continue
            digits = row["run_id"].removeprefix("sha256:")[:16]
            path = os.path.join(self.folder, "cells", digits, "traceback.txt")
            found[row["name"]] = f"{row['cell_state']}: {row['cell_reason']}"
            if os.path.isfile(path):
                found[row["name"]] += f"; {path}"
        return found

    def to_pandas(self) -> pandas.DataFrame:
        """`rows` as a data frame, numbers as numbers. Needs the package pandas."""
        import pandas

        text = io.StringIO()
        writer = csv.DictWriter(text, self.rows[0])
        writer.writeheader()
        writer.writerows(self.rows)
        text.seek(0)
        # A mixer may be called "NA" or "1".
        return pandas.read_csv(text, dtype={"name": str}, keep_default_na=False, na_values=[""])


def run(
    suite: str | Mapping[str, Any],
    mixers: Mapping[str, Mixer] | None = None,
    device: str = "auto",
    *,
    out: str | None = None,
    seeds: int | None = None,
    smoke: bool = False,
    settings: Mapping[str, Any] | None = None,
    arguments: Sequence[str] = (),
    quiet: bool = False,
) -> Report:
    """Trains and scores every cell of a suite that is not finished.

    suite: a built-in one, a file, or the content of one.
    mixers: by a name of yours, mixers to compare with those of the suite, under their conditions.
    device: "cpu", "cuda", "cuda:1" or "auto".
    out: the folder; "out/<suite>" by default. What is finished there is not run again.
    seeds: their number; that of the suite by default.
    smoke: the reduced form that the suite has of itself.
    settings: values to change by their dotted paths, as `--set`.
    arguments: more of `mixerbench run`, such as ["--cell-timeout", "20m"].
    quiet: no progress on standard error.

    A cell that fails is a row of the report. Raises MixerbenchError for what keeps the run from starting.
    """
    if not isinstance(suite, (str, os.PathLike)) and not (isinstance(suite, Mapping) and "name" in suite):
        raise TypeError(f"suite is the name of one, a file, or a dict with a 'name', not {suite!r}")
    _is_mapping("mixers", mixers, "{'mine': MyMixer}")
    _is_count("seeds", seeds, 1)
    _is_list("arguments", arguments, "['--cell-timeout', '20m']")
    suite = suite if isinstance(suite, Mapping) else os.fspath(suite)
    name = suite["name"] if isinstance(suite, Mapping) else os.path.splitext(os.path.basename(suite))[0]
    out = out or os.path.join("out", name + ("-smoke" if smoke else ""))
    words = ["--device", device, "-o", out, *_settings(settings), *arguments]
    words += ["--smoke"] if smoke else []
    words += ["-q"] if quiet else []
    words += ["--seeds", str(seeds)] if seeds is not None else []
    for mixer in (mixers or {}).values():
        words += ["--add-mixer", json.dumps(_configuration(mixer))]
    with tempfile.TemporaryDirectory() as folder:
        file = suite
        if isinstance(suite, Mapping):
            file = os.path.join(folder, "suite.json")
            with open(file, "w", encoding="utf-8") as opened:
                json.dump(suite, opened)
        try:
            _execute(["run", str(file), *words], allowed=_REPORTED, is_quiet=quiet)
        except MixerbenchError as error:
            if "--plan merge" not in str(error):
                raise
            how = "out='another/folder', arguments=['--plan', 'merge'] or arguments=['--plan', 'replace']"
            raise MixerbenchError(f"{error}; that is, in Python, {how}") from None
    if not os.path.isfile(os.path.join(out, "report.json")):
        raise MixerbenchError(f"with the arguments {list(arguments)} mixerbench run leaves no report in {out}")
    return Report.read(out, mixers)


def generate(
    preset: str,
    split: str = "test",
    start: int = 0,
    count: int | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Samples `start` to `start + count` of a task or preset: inputs and labels, int32 [count, T].

    A label of -100 is not scored. The same arguments give the same samples, on every machine.
    """
    import numpy

    _is_count("start", start, 0)
    _is_count("count", count, 1)
    _is_count("seed", seed, 0)
    words = ["--split", split, "--start", str(start), *_settings(settings)]
    words += ["--count", str(count)] if count is not None else []
    words += ["--seed", str(seed)] if seed is not None else []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "samples.npy")
        _execute(["generate", preset, *words, "-o", path])
        inputs, labels = numpy.load(path)
    return inputs, labels


@dataclass(frozen=True)
class CheckReport:
    """What `check` found: `data` as `mixerbench mixer check --json`. True when all passed; its text is a report."""

    data: dict[str, Any]

    @property
    def passed(self) -> bool:
        return self.data["passed"]

    @property
    def failed(self) -> list[str]:
        """The names of the checks that failed."""
        return [check["name"] for check in self.data["checks"] if not check["passed"]]

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        failed = ", ".join(self.failed)
        return f"CheckReport({len(self.data['checks'])} checks, " + (f"failed: {failed})" if failed else "all passed)")

    def __str__(self) -> str:
        lines = []
        for check in self.data["checks"]:
            lines.append(f"{'ok  ' if check['passed'] else 'FAIL'}  {check['name']:<11}{check['promise']}")
            if "found" in check:
                lines.append(" " * 17 + check["found"])
        if "not_run" in self.data:
            lines.append(f"not run: {', '.join(self.data['not_run'])}")
        return "\n".join(lines)


def check(
    mixer: Mixer,
    *,
    device: str = "cpu",
    dtype: str = "fp64",
    settings: Mapping[str, Any] | None = None,
    skip: Sequence[str] = (),
    timeout: float = 120,
) -> CheckReport:
    """Whether a mixer keeps the promises of mixers: causal, the same in pieces and step by step, right gradients, ...

    dtype: "fp64", or "fp32" with wider tolerances for a mixer that knows no fp64.
    settings: "d_model", "max_seq_len", "layer_index", "num_layers" and the options of a mixer of the program; those of
        a class go with it: (MyMixer, {"scale": 0.5}).
    skip: names of checks to leave out.
    timeout: seconds for each check. One that takes longer has failed, and those after it are not run.

    Raises MixerbenchError for what cannot be built, and for a class that ends its process.
    """
    _is_list("skip", skip, "['gradients']")
    configuration = _configuration(mixer)
    name = configuration.pop("name")
    if name == "python":
        name = configuration.pop("module")
    words = [*_settings(configuration), *_settings(settings), "--device", device, "--dtype", dtype]
    words += ["--check-timeout", str(timeout)]
    for left_out in skip:
        words += ["--skip", left_out]
    out = _execute(["mixer", "check", name, "--json", *words], allowed=_CHECKED, is_quiet=False, is_answer=True)
    return CheckReport(json.loads(out))
