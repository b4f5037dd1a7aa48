"""Builds a user's class in a process of its own first. SPDX-License-Identifier: Apache-2.0

What ends or blocks the process that plans a run would end or block the run without a word; in a worker it costs a cell.
"""

import json
import os
import signal
import threading

from . import modules, sources

SECONDS = 60
_LIVED = 77  # exit code of a process that came to its end, with or without an exception
_faults = {}  # by class and options: what is wrong, or ""
_lock = threading.Lock()
_orders = _answers = None  # to and from a copy of this process


def start():
    """To be called while the process has one thread, so that a copy of it works, and torch is loaded already."""
    global _orders, _answers
    to_copy, from_copy = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(to_copy[1])
        os.close(from_copy[0])
        _serve(os.fdopen(to_copy[0]), os.fdopen(from_copy[1], "w"))
    os.close(to_copy[0])
    os.close(from_copy[1])
    _orders, _answers = os.fdopen(to_copy[1], "w"), os.fdopen(from_copy[0])


def _serve(orders, answers):
    """Builds what is asked for, each in a copy of this process, until nobody can ask any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for who asks
    for stream in range(3):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    for line in orders:
        seconds, spec = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.alarm(seconds)
            try:
                modules.Unit(spec)
            except BaseException:
                pass  # whoever builds it next says so
            os._exit(_LIVED)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)
    os._exit(0)


def build(spec, seconds=SECONDS):
    """Raises ConfigProblem when the class of modules.Unit(spec) ends its process, or takes too long.

    A class is tried once with the same options: its layers and sizes rarely decide. Nothing is tried before start().
    """
    if _orders is None:
        return
    key = (spec["module"], json.dumps(spec["options"], sort_keys=True))
    with _lock:
        if key not in _faults:
            _faults[key] = _fault({**spec, "device": "cpu"}, seconds)
    if _faults[key]:
        raise sources.ConfigProblem(f"{spec['module']}: {_faults[key]}")


def _fault(spec, seconds):
    print(json.dumps([seconds, spec]), file=_orders, flush=True)
    answer = _answers.readline()
    if not answer:
        return "ends the processes around it while it is imported or built"
    ended = int(answer)
    if ended == _LIVED:
        return ""
    if ended == -signal.SIGALRM:
        return f"is not built within {seconds} s"
    how = f"signal {-ended} ({signal.strsignal(-ended)})" if ended < 0 else f"exit code {ended}"
    return f"ends its process while it is imported or built, with {how}"
