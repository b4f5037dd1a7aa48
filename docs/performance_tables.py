#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of docs/PERFORMANCE.md from the committed results.

    docs/performance_tables.py          # writes them, after results have changed
    docs/performance_tables.py --check  # exit 1 when the page says something else

A table stands between <!-- NAME: begin --> and <!-- NAME: end -->.
"""

import datetime
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parent.parent
PAGE = ROOT / "docs/PERFORMANCE.md"
RESULTS = ROOT / "results"


def load(path):
    return json.loads((RESULTS / path).read_text())


def markdown(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value):
    return f"{value:.4g}"


def step_times():
    """Rows of whole training steps: {(mixer, dtype, seq_len): row}."""
    times = {}
    for cell in load("h200/step-time/report.json")["cells"]:
        mixer = cell["identity"]["cell"].split("/")[1]
        for row in cell["throughput"]:
            if row["phase"] == "train_step" and row["state"] == "completed":
                times[mixer, row["dtype"], row["seq_len"]] = row
    return times


def steps():
    times = step_times()
    shapes = [(256, "L 256, d 128, batch 256"), (64, "L 64, d 64, batch 512")]
    dtypes = [dtype for dtype in ("fp32", "tf32", "bf16") if any(key[1] == dtype for key in times)]
    header = ["mixer"] + [f"{shape}: {dtype}" for _, shape in shapes for dtype in dtypes]
    rows = []
    for mixer in dict.fromkeys(key[0] for key in sorted(times)):
        row = [mixer]
        for seq_len, _ in shapes:
            for dtype in dtypes:
                found = times.get((mixer, dtype, seq_len))
                row.append("–" if found is None else "{} ({}–{})".format(
                    number(found["median"]), number(found["spread"]["low"]), number(found["spread"]["high"])))
        rows.append(row)
    return markdown(header, rows)


def core_plan(cell):
    """What the recurrence of a step ran by, and why not by device code."""
    functions = [function for plan in cell["plans"] for run in plan["runs"] if run["phase"] == "train_step"
                 for function in plan["functions"] if function["core"]]
    texts = [function["function"] + " " + function["forward"] + (f" ({function['reason']})" if function["reason"] else "")
             for function in functions]
    return "; ".join(dict.fromkeys(texts)) or "–"


def every_mixer():
    rows = []
    for cell in load("h200/mixers-step-time/report.json")["cells"]:
        for row in cell["throughput"]:
            time = number(row["median"]) if row["state"] == "completed" else row["reason"] or row["state"]
            rows.append((row["median"] or float("inf"), [
                cell["identity"]["cell"].split("/")[1], time, core_plan(cell), str(cell["model_facts"]["num_parameters"]),
                str(cell["model_facts"]["state_bytes"]["measured"])]))
    return markdown(["mixer", "step, ms", "its core by", "parameters", "state, bytes"],
                    [row for _, row in sorted(rows)])


def like_with_like():
    times = step_times()
    rows = []
    for other in load("references.json")["steps"]:
        ours = times.get((other["mixer"], other["dtype"], other["input_seq_len"]))
        if ours is not None:
            rows.append([other["dtype"], other["mixer"], str(other["input_seq_len"]), other["who"], number(other["ms"]),
                         number(ours["median"]), f"{other['ms'] / ours['median']:.1f}"])
    return markdown(["precision", "mixer", "L", "others", "their ms", "ours", "times as fast"], rows)


def cores():
    line = re.compile(r"(\S+) B8 T4096 H8 K128 V128 \| fwd ([\d.]+) ms \(([\d.]+)-([\d.]+)\).* "
                      r"\| fwd\+bwd ([\d.]+) ms \(([\d.]+)-([\d.]+)\)")
    text = (RESULTS / "h200/cores/core_device_benchmark.txt").read_text()
    others = {row["core"]: row for row in load("references.json")["cores"]}
    rows = []
    for core, fwd, low, high, both, both_low, both_high in line.findall(text):
        other = others.get(core)
        rows.append([core, f"{fwd} ({low}–{high})", f"{both} ({both_low}–{both_high})",
                     f"{other['fwd']} / {other['fwd_bwd']}" if other else "–"])
    return markdown(["core", "forward", "forward and backward", "flash-linear-attention"], rows)


def suites():
    rows = []
    for path in sorted(RESULTS.glob("*/*/report.json")):
        report = json.loads(path.read_text())
        begins, ends = [], []
        for cell in report["cells"]:
            begin = datetime.datetime.fromisoformat(cell["time"]["started"].replace("Z", "+00:00"))
            begins.append(begin)
            ends.append(begin + datetime.timedelta(seconds=cell["time"]["wall_s"]))
        folder = path.parent.relative_to(RESULTS)
        device = report["cells"][0]["environment"].get("gpu") or report["cells"][0]["environment"]["cpu"]
        seconds = (max(ends) - min(begins)).total_seconds()
        rows.append([f"[{folder}](../results/{folder}/report.md)",
                     device.get("name") or device["model"], str(len(report["cells"])), f"{seconds:.0f} s"])
    return markdown(["suite", "device", "cells", "first start to last end"], rows)


def main():
    page = PAGE.read_text()
    made = page
    for table in (steps, every_mixer, like_with_like, cores, suites):
        begin, end = (f"<!-- {table.__name__}: {mark} -->" for mark in ("begin", "end"))
        before, rest = made.split(begin + "\n")
        _, after = rest.split(end)
        made = f"{before}{begin}\n{table()}\n{end}{after}"
    if sys.argv[1:] == ["--check"]:
        if made != page:
            sys.exit(f"{PAGE.name}: its tables are not those of results; run docs/performance_tables.py")
    else:
        PAGE.write_text(made)


if __name__ == "__main__":
    main()
