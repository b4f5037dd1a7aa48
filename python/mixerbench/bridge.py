"""Implements the operator through which the engine calls Python. SPDX-License-Identifier: Apache-2.0

Every function of FUNCTIONS takes (text, [tensors]) and returns (text, [tensors]). No exception may leave an operator
that Python implements, so an answer's first character tells how it went: '=' well, 'c' what the user got wrong, 'm'
out of memory, '!' any other exception.
"""

import contextlib
import json
import os
import sys
import threading

import torch

from . import failures, modules, settings, sources, trial

FUNCTIONS = {}
_units = {}
_unraisable = {}  # by thread: what a backward pass left
_thread = threading.local()  # `seed` of its last call of forward(); `backward`: around its backward pass; `remembers`
_library = None


def exported(function):
    FUNCTIONS[function.__name__] = function
    return function


def implement():
    """Once the engine, which declares the operator, is loaded."""
    global _library
    _library = torch.library.Library("mixerbench", "IMPL")
    _library.impl("python", _dispatch, "CompositeImplicitAutograd")
    sys.unraisablehook = _keep_unraisable


def _dispatch(function, text, tensors):
    process = os.getpid()
    try:
        text, tensors = FUNCTIONS[function](text, tensors)
        return "=" + text, list(tensors)
    except BaseException as error:  # SystemExit and KeyboardInterrupt too: a cell fails, not the program
        return _failure(error), []
    finally:
        if os.getpid() != process:
            os._exit(1)  # a module forked: the copy must not go on as a second engine


def _failure(error):
    text = failures.traceback_of(error)
    failures.say(text, failures.stack_of(error))  # what fails in one check often fails in the next one too
    failures.note(text)
    return failures.answer_of(error)


def _keep_unraisable(unraisable):
    if unraisable.object is not None or unraisable.exc_value is None:
        sys.__unraisablehook__(unraisable)
        return
    _unraisable[threading.get_ident()] = unraisable.exc_value


@exported
def raise_unraisable(_, __):
    raise _unraisable.pop(threading.get_ident())


@exported
def describe_code(text, _):
    return sources.describe(text), []


@exported
def describe_package(_, __):
    return sources.describe_package(), []


@exported
def create(text, _):
    spec = json.loads(text)
    if trial.is_started():
        facts, shapes = trial.build(spec)
        if spec["device"] == "meta":  # a plan, which needs no more than that: nothing reads these
            dtype = torch.float64 if spec["double"] else torch.float32
            tensors = [torch.empty(shape, dtype=dtype) for shape in shapes]
            return json.dumps({"key": "", **facts}), tensors
    unit = modules.Unit(spec)
    _units[unit.key] = unit
    return json.dumps({"key": unit.key, **unit.facts()}), [p.detach() for p in unit.trained.values()]


@exported
def install(text, tensors):
    """The unit is destroyed by whoever has it, and who gets an exception here never has."""
    if text:
        unit = _units.pop(text)
        unit.install(tensors)
        if getattr(_thread, "remembers", False):
            unit.remember()
        _units[text] = unit
    return "", []


@exported
def destroy(text, _):
    if text:
        del _units[text]
    return "", []


@exported
def initial_state(text, _):
    key, mode, seed, batch_size = text.split()
    described, tensors = _units[key].initial_state(int(batch_size), mode == "train", int(seed))
    return json.dumps(described), tensors


@exported
def forward(text, tensors):
    key, mode, seed = text.split()
    _thread.seed = int(seed)
    x, *state = tensors
    y, others = _units[key].forward(x, state, mode == "train", _thread.seed)
    return "", [y, *others]


@exported
def begin_backward(_, __):
    """What holds for a call holds for a backward pass."""
    _thread.backward = contextlib.ExitStack()
    if _units:
        seed = settings.another_seed(getattr(_thread, "seed", 0), "backward")
        _thread.backward.enter_context(settings.drawing_from(seed))
        _thread.backward.enter_context(settings.kept())
    return "", []


@exported
def end_backward(_, __):
    _thread.backward.close()
    return "", []


def _units_of_thread():
    return [unit for unit in _units.values() if unit.thread == threading.get_ident()]


@exported
def remember_values(_, __):
    _thread.remembers = True
    for unit in _units_of_thread():
        unit.remember()
    return "", []


@exported
def compare_values(_, __):
    try:
        for unit in _units_of_thread():
            unit.compare()
    finally:
        forget_values("", [])
    return "", []


@exported
def forget_values(_, __):
    _thread.remembers = False
    for unit in _units_of_thread():
        unit.forget()
    return "", []


@exported
def watch(text, _):
    spec = json.loads(text)
    return failures.watch(spec["path"], spec["ends"]), []


@exported
def unwatch(_, __):
    failures.unwatch()
    return "", []


@exported
def hidden_folders(_, __):
    return "\n".join(failures.hidden_folders()), []
