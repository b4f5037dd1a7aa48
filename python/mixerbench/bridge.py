"""Implements the operator through which the engine calls Python. SPDX-License-Identifier: Apache-2.0

Every function of FUNCTIONS takes (text, [tensors]) and returns (text, [tensors]). No exception may leave an operator
that Python implements, so an answer's first character tells how it went: '=' well, 'c' what the user got wrong, 'm'
out of memory, '!' any other exception.
"""

import json
import os
import sys
import threading
import traceback

import torch

from . import modules, sources, trial

FUNCTIONS = {}
_units = {}
_unraisable = {}  # by thread: what a backward pass left
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
    if isinstance(error, sources.ConfigProblem):
        return "c" + str(error)
    sys.stderr.write("".join(traceback.format_exception(error)))
    sys.stderr.flush()
    is_memory = isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "DefaultCPUAllocator" in str(error)
    return ("m" if is_memory else "!") + _one_line(error)


def _one_line(error):
    """'ValueError: y is [2, 3] (mine.py:14 in forward; mine.py:30 in helper)': innermost last."""
    text = str(error).strip().split("\n")[0]
    own = os.path.dirname(os.path.abspath(__file__))
    hidden = (own + os.sep, os.path.dirname(torch.__file__) + os.sep, "<frozen")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(hidden)]
    places = "; ".join(f"{os.path.basename(f.filename)}:{f.lineno} in {f.name}" for f in frames[-3:])
    return type(error).__name__ + (f": {text}" if text else "") + (f" ({places})" if places else "")


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
def create(text, _):
    spec = json.loads(text)
    trial.build(spec)
    unit = modules.Unit(spec)
    _units[unit.key] = unit
    facts = {
        "key": unit.key,
        "has_state": unit.has_state,
        "losses": unit.losses,
        "taps": unit.taps,
        "parameters": [[name, not getattr(p, "_no_weight_decay", False)] for name, p in unit.trained.items()],
    }
    return json.dumps(facts), [p.detach() for p in unit.trained.values()]


@exported
def install(text, tensors):
    _units[text].install(tensors)
    return "", []


@exported
def destroy(text, _):
    del _units[text]
    return "", []


@exported
def initial_state(text, _):
    key, batch_size = text.split()
    described, tensors = _units[key].initial_state(int(batch_size))
    return json.dumps(described), tensors


@exported
def forward(text, tensors):
    key, mode, seed = text.split()
    x, *state = tensors
    y, others = _units[key].forward(x, state, mode == "train", int(seed))
    return "", [y, *others]
