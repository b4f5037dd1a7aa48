#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker for scheduler_test and run_test: does with each cell what the file `behaviour` in its folder says, or that
in the folder of the same name in $SCHEDULER_TEST_CELLS. `complete` leaves prepared.json, and where the cell is to have batches of N prepared-N.json.

Notes when in $SCHEDULER_TEST_LOG: "start ID PID", and "end ID PID" of cells that complete.
"""

import os
import pathlib
import shutil
import signal
import sys
import threading
import time


def note(word, cell):
    with open(os.environ["SCHEDULER_TEST_LOG"], "a", encoding="utf-8") as log:
        log.write(f"{word} {cell.name} {os.getpid()}\n")


def say(text):
    os.write(1, (text + "\n").encode())


def work(cell, batch_size):
    told = cell
    if not (cell / "behaviour").exists():
        told = pathlib.Path(os.environ["SCHEDULER_TEST_CELLS"]) / cell.name

    def complete():
        suffix = f"-{batch_size}" if batch_size else ""
        shutil.copy(told / f"prepared{suffix}.json", cell / "result.json")
        note("end", cell)  # before the scheduler reads it and may end this process
        say(f"done {cell.name}")

    words = {
        "cell": cell,
        "batch_size": batch_size,  # 0: that of the cell
        "complete": complete,
        "die": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "pause": time.sleep,
        "say": say,
        "shutil": shutil,
    }
    note("start", cell)
    exec((told / "behaviour").read_text(encoding="utf-8"), words)


signal.signal(signal.SIGTERM, lambda *_: os._exit(75))
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])  # as workers start with it blocked
cells = pathlib.Path(sys.argv[sys.argv.index("--cells") + 1])
for line in sys.stdin:
    name, *batch_size = line.split()
    threading.Thread(target=work, args=[cells / name, int(batch_size[0]) if batch_size else 0]).start()
