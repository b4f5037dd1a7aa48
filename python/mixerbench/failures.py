"""What is said of an exception, a hang or a crash in a user's code. SPDX-License-Identifier: Apache-2.0"""

import contextlib
import faulthandler
import os
import re
import signal
import sys
import tempfile
import traceback

import torch

from . import sources

_watched = None  # the file that watch() names
_said = set()
_LONGEST = 500  # characters of an exception
ASKED = signal.SIGUSR2  # kAskWhere of harness/python/watch.h
_STACK = "(most recent call first):"  # how faulthandler begins a thread
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


class Failed(Exception):
    """A failure in another process, as that process would answer it."""

    def __init__(self, answer, text):
        super().__init__(answer)
        self.answer, self.text = answer, text


def hidden_folders():
    """The starts of file names whose code is no user's; the first is this package."""
    own = os.path.dirname(os.path.abspath(__file__))
    return (own + os.sep, os.path.dirname(torch.__file__) + os.sep, contextlib.__file__, "<frozen", "<string>")


def answer_of(error):
    """The text that stands for an exception: its kind ('c', 'm' or '!', see bridge.py) and one line."""
    if isinstance(error, Failed):
        return error.answer
    if isinstance(error, sources.ConfigProblem):
        return "c" + plain(str(error))
    is_memory = isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "DefaultCPUAllocator" in _text(error)
    return ("m" if is_memory else "!") + one_line(error)


def traceback_of(error):
    """Nothing of what a user got wrong outside of his code."""
    if isinstance(error, Failed):
        return error.text
    return "" if isinstance(error, sources.ConfigProblem) else plain("".join(traceback.format_exception(error)))


def one_line(error):
    """'ValueError: y is [2, 3] (mine.py:14 in forward; mine.py:30 in helper)': innermost last."""
    text, _, more = _text(error).strip().partition("\n")
    if text.endswith(":"):  # as of load_state_dict
        text = " ".join([text, *more.split()])
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
    places = _places([(f.filename, f.lineno, f.name) for f in traceback.extract_tb(error.__traceback__)])
    return plain(type(error).__name__ + (f": {text}" if text else "") + places)


def places_in(dump):
    """' (mine.py:14 in forward)': where the thread that called a user's code stands, in what faulthandler has written.

    '' where there is none. The same of what the engine reads without the interpreter's lock: harness/python/watch.h.
    """
    for thread in dump.split(_STACK)[1:]:
        called = []  # by this package, from the innermost on
        for file, line, function in _FRAME.findall(thread):
            if file.startswith(hidden_folders()[0]):
                return _places(called[::-1])
            called.append((file, line, function))
    return ""


def _places(frames):
    """The innermost three of a user's code, in brackets, of (file, line, function) from the outermost on."""
    own = [frame for frame in frames if not frame[0].startswith(hidden_folders())]
    text = "; ".join(f"{os.path.basename(file)}:{line} in {function}" for file, line, function in own[-3:])
    return f" ({text})" if text else ""


def _text(error):
    try:
        return str(error)
    except Exception:  # its class is a user's too
        return ""


def plain(text):
    """`text` with escapes in the place of what UTF-8 has no form for."""
    return text.encode("utf-8", "backslashreplace").decode()


def watch(path, ends):
    """From now on tracebacks, and of a crash where Python code stands, are written to the file `path` too.

    So is, at SIGUSR2, where every thread stands, without the interpreter's lock; then the process ends if it `ends`.
    Without a path it is a file of its own. Returns the path of the file.
    """
    watch_in(open(path, "w", encoding="utf-8") if path else tempfile.TemporaryFile("w", encoding="utf-8"), ends)
    return path or f"/proc/self/fd/{_watched.fileno()}"


def watch_in(file, ends):
    """As watch(), with an open file."""
    global _watched
    unwatch()
    _watched = file
    faulthandler.enable(file)
    faulthandler.register(ASKED, file, all_threads=True, chain=ends)


def unwatch():
    """The file is left when something was written to it."""
    global _watched
    if _watched is None:
        return
    faulthandler.unregister(ASKED)
    faulthandler.disable()
    if isinstance(_watched.name, str) and os.fstat(_watched.fileno()).st_size == 0:
        os.remove(_watched.name)
    _watched.close()
    _watched = None


def note(text):
    """Adds `text` to the file that is watched."""
    if _watched is not None:
        _watched.write(text)
        _watched.flush()


def stack_of(error):
    """The same for all exceptions that are raised in one place, whatever they say of sizes."""
    return traceback_of(error) if isinstance(error, Failed) else "".join(traceback.format_tb(error.__traceback__))


def say(text, key=None):
    """On standard error, once in this process for each key, by default `text`."""
    key = text if key is None else key
    if key not in _said:
        _said.add(key)
        with contextlib.suppress(ValueError, OSError):  # a class may have closed it
            sys.stderr.write(text)
            sys.stderr.flush()
