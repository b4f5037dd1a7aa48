"""Python around the engine: `python3 -m mixerbench ARGUMENTS`. SPDX-License-Identifier: Apache-2.0"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys

TORCH = "2.11.0"  # of the engine; both must use one libtorch
_LIBRARY = "libmixerbench_engine.so"
_INSIDE = "MIXERBENCH_INSIDE"  # in the environment of the processes that the engine runs in
_ENDS = "MIXERBENCH_ENDS"  # in that of the process in which `mixer` runs: where it says that it comes to its end
_ORDER = "PYTHONHASHSEED"
_HANGS = 124  # exit code of a `mixer check` that has reported a class that hangs (harness/interop/mixer_check.cc)
_RUNNING = {"check": "checked", "run": "run"}  # the commands on one mixer
_PR_SET_PDEATHSIG = 1
_RECURSION = 2000  # to which torch.compile raises the limit in the call in which it compiles, for good


def engine_path():
    """The engine: that of MIXERBENCH_ENGINE, of the wheel, or of the checkout."""
    package = os.path.dirname(os.path.abspath(__file__))
    checkout = os.path.dirname(os.path.dirname(package))
    candidates = [
        os.environ.get("MIXERBENCH_ENGINE", ""),
        os.path.join(package, _LIBRARY),
        os.path.join(checkout, "bazel-bin", "harness", _LIBRARY),
    ]
    for path in candidates:
        if os.path.isfile(path):
            return path
    raise SystemExit(f"error: there is no {_LIBRARY}; build it by `bazel build //harness:{_LIBRARY}`")


def is_inside():
    """Whether this process is one that the engine runs in, or was started by one."""
    return _INSIDE in os.environ


def _load_libraries():
    """What the engine links beside torch: the machine's own where it has them, else those of the wheel."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        try:
            ctypes.CDLL(name)
        except OSError:
            ctypes.CDLL(os.path.join(folder, name))


def worker_command():
    """Starts a process like this one, which finds the same modules and does not outlive this one."""
    path = [folder for folder in sys.path if isinstance(folder, str)]  # Python itself passes over what else is in it
    code = f"import sys; sys.path[:] = {path!r}; from mixerbench import host; host.main(parent={os.getpid()})"
    return [sys.executable, "-c", code]


def _end_with(parent, number):
    """Signal `number` will come when the process `parent`, which has started this one, ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(75)


def ending(code):
    """'exit code 3' or 'signal 11 (Segmentation fault)', which is minus a signal."""
    return f"signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"exit code {code}"


def _run_in_child(words):
    """A command on one mixer, whose class may end its process: the exit code, 1 with a reason where it did."""
    said, ends = os.pipe()
    inside = {**os.environ, _ENDS: str(ends)}
    with subprocess.Popen([*worker_command(), *words], env=inside, pass_fds=[ends]) as child:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the child, which says what it means
    code = child.returncode
    if select.select([said], [], [], 0)[0]:
        return code
    if code != _HANGS:
        ended = f"ended its process while it was {_RUNNING[words[1]]}, with {ending(code)}"
        print(f"error: the class {ended}", file=sys.stderr)
    return 1


def _fix_order_of_sets():
    """Starts this process once more where Python orders sets of texts otherwise in each: a class may draw in it."""
    if os.environ.get(_ORDER) != "0":
        os.environ[_ORDER] = "0"  # for the processes that the engine starts too
        os.execv(sys.executable, sys.orig_argv)


def _strings(words):
    return (ctypes.c_char_p * (len(words) + 1))(*[os.fsencode(word) for word in words])


def main(arguments=None, parent=None):
    """Runs the engine with the arguments of the command line and ends the process, with `parent` at the latest."""
    _fix_order_of_sets()
    words = ["mixerbench", *(sys.argv[1:] if arguments is None else arguments)]
    is_worker, is_of_mixer = words[1:2] == ["worker"], words[1:2] == ["mixer"] and words[2:3] and words[2] in _RUNNING
    if parent is not None:  # a run saves its work; nothing else has any
        _end_with(parent, signal.SIGKILL if is_worker or is_of_mixer else signal.SIGTERM)
    try:
        import torch  # before the engine: it then gets this libtorch
    except ImportError as error:
        raise SystemExit(f"error: torch {TORCH} cannot be imported: {error}") from error
    if torch.__version__.split("+")[0] != TORCH:
        raise SystemExit(f"error: this is torch {torch.__version__}; the engine needs torch {TORCH}")
    library = engine_path()
    ends = os.environ.pop(_ENDS, None)
    if is_of_mixer and ends is None:
        sys.exit(_run_in_child(words[1:]))
    if ends is not None:
        os.set_inheritable(int(ends), False)
    os.environ[_INSIDE] = "1"
    from . import bridge, sources, trial

    sources.load_from_sources()
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION))
    if not is_worker:  # whose end costs one cell
        trial.start()
    _load_libraries()
    engine = ctypes.CDLL(library)  # calls through it release the interpreter's lock
    bridge.implement()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python would note Ctrl-C and never look
    # Standard output is for the engine's answers, and a worker's input for its orders.
    sys.stdout, sys.stdin = sys.stderr, open(os.devnull, encoding="utf-8")
    code = engine.mixerbench_main(len(words), _strings(words), _strings(worker_command()))
    ctypes.CDLL(None).fflush(None)
    with contextlib.suppress(ValueError, OSError):  # a class may have closed it
        sys.stderr.flush()
    if ends is not None:
        os.write(int(ends), b".")
    os._exit(code)  # a class may have left threads or exit handlers, which would be waited for
