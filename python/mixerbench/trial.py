"""Builds a user's class in a process of its own first. SPDX-License-Identifier: Apache-2.0

What ends or blocks the process that plans a run would end or block the run without a word; in a worker it costs a cell.
So a plan is made of what these processes say of each layer.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import tempfile
import threading
import time

import torch

from . import failures, host, modules, settings

SECONDS = 60
_SECONDS_OF_CALLS = 3
_GRACE = 5  # for a process that is to end, and to say first where it stands
_PR_SET_PDEATHSIG = 1
_SEED = 0x6D69786572  # one that no class sets: one that is set shows (settings.kept)
_known = {}  # by what is asked: what was answered
_called = set()  # of what a layer was called, in a builder
_lock = threading.Lock()
_server = None  # a copy of this process, which has loaded no user's code


class _Peer:
    """A process that answers each line with a line."""

    def __init__(self, serve):
        to_peer, from_peer = os.pipe(), os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(to_peer[1])
            os.close(from_peer[0])
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # its pipe has copies in its siblings
            try:
                serve(os.fdopen(to_peer[0]), os.fdopen(from_peer[1], "w"))
            finally:
                os._exit(1)  # whatever happens, this copy does not go on as what it was copied from
        os.close(to_peer[0])
        os.close(from_peer[1])
        self.orders, self.answers = os.fdopen(to_peer[1], "w"), os.fdopen(from_peer[0])

    def ask(self, line, seconds=None):
        """Its answer; '' when it ended instead, None when it took longer."""
        try:
            print(line, file=self.orders, flush=True)
        except BrokenPipeError:
            return ""
        if not select.select([self.answers], [], [], seconds)[0]:
            return None
        return self.answers.readline()

    def end(self):
        """How it ended: an exit code, or minus a signal. It is killed if it does not."""
        for stream in (self.orders, self.answers):
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        deadline = time.monotonic() + _GRACE
        while True:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > deadline:
                os.kill(self.process, signal.SIGKILL)
            time.sleep(0.01)


class _Builder(_Peer):
    """Builds layers of one class, and is watched (failures.watch)."""

    def __init__(self):
        self._watched = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        super().__init__(self._serve)

    def _serve(self, orders, answers):
        failures.watch_in(self._watched, ends=True)
        _build_all(orders, answers)

    def end_asking(self):
        """As end(), of one that hangs: it is asked where it stands."""
        os.kill(self.process, failures.ASKED)
        return self.end()

    def dump(self):
        """What it has left, once it has ended: where its threads stood when it was asked or crashed."""
        with self._watched:
            self._watched.seek(0)
            return self._watched.read()


def start():
    """To be called while the process has one thread, so that a copy of it works, and torch is loaded already."""
    global _server
    _server = _Peer(_serve)


def is_started():
    return _server is not None


def _serve(orders, answers):
    """Has each class built by a builder, of which there is one for each class."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for who asks
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # standard output is for the engine's answers
    sys.stdout = sys.stderr
    builders = {}
    for line in orders:
        seconds, spec = json.loads(line)
        place = spec["module"]
        if place not in builders:
            builders[place] = _Builder()
        answer = builders[place].ask(line.strip(), seconds)
        if not answer:
            builder = builders.pop(place)
            if answer is None:
                builder.end_asking()
                fault = f"is not built within {seconds} s"
            else:
                fault = f"ends its process while it is imported or built, with {host.ending(builder.end())}"
            dump = builder.dump()
            answer = json.dumps({"failure": f"c{place}: {fault}{failures.places_in(dump)}", "traceback": dump})
        print(answer.strip(), file=answers, flush=True)


def _build_all(orders, answers):
    process = os.getpid()
    for line in orders:
        try:
            answer = _built(json.loads(line)[1])
        except BaseException as error:
            answer = {"failure": failures.answer_of(error), "traceback": failures.traceback_of(error)}
        if os.getpid() != process:
            os._exit(1)  # the class forked: the copy must not answer as well
        ctypes.CDLL(None).fflush(None)  # what it has printed by C: whoever ends this process does not wait
        print(json.dumps(answer), file=answers, flush=True)


def _built(spec):
    unit, other = modules.Unit(spec), modules.Unit(spec)
    modules.require_one_of_a_seed(unit.module, other.module)
    of_all_layers = json.dumps([spec["module"], spec["options"]], sort_keys=True)
    if of_all_layers not in _called:  # which takes its time
        _require_one_answer(unit, other)
        _called.add(of_all_layers)
    facts, stand_ins = unit.facts(), [torch.empty_like(value).requires_grad_() for value in unit.trained.values()]
    unit.install(stand_ins)
    unit.require_first_memory_freed()
    return {"facts": facts, "shapes": [list(tensor.shape) for tensor in stand_ins], "notes": settings.notes}


def _require_one_answer(unit, other):
    """Of two units of one seed. A copy of this process calls them: what a class does wrong in a call costs a cell."""

    def serve(orders, answers):
        orders.readline()
        failures.unwatch()  # what is watched is this process
        torch.set_num_threads(1)  # a copy has no others
        with torch.no_grad(), open(os.devnull, "w", encoding="utf-8") as nothing:
            for stream in (1, 2):
                os.dup2(nothing.fileno(), stream)  # what it says it will say in its cell too
            print(int(modules.answers_differ(unit, other)), file=answers, flush=True)

    caller = _Peer(serve)
    differs = caller.ask("", _SECONDS_OF_CALLS) == "1\n"
    os.kill(caller.process, signal.SIGKILL)
    caller.end()
    if differs:
        raise TypeError(
            "the output is another one each time that the class is built with the same seed: draw its constants from "
            "torch's generator, random or numpy.random, which the seed of the cell sets"
        )


def build(spec, seconds=SECONDS):
    """What modules.Unit(spec) is: (facts(), shapes of its trained parameters). Seeds do not matter.

    Raises failures.Failed where there is none. The same is built once.
    """
    asked = json.dumps([seconds, {**spec, "device": "cpu", "seed": _SEED}], sort_keys=True)
    with _lock:
        if asked not in _known:
            line = _server.ask(asked)
            ended = f"c{spec['module']}: ends the processes around it while it is imported or built"
            _known[asked] = json.loads(line) if line else {"failure": ended, "traceback": ""}
        answer = _known[asked]
    if "failure" in answer:
        raise failures.Failed(answer["failure"], answer["traceback"])
    for text in answer["notes"]:
        failures.say(f"note: {text}\n")
    return answer["facts"], answer["shapes"]
