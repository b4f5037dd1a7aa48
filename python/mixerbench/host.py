"""Python around the engine: `python3 -m mixerbench ARGUMENTS`. SPDX-License-Identifier: Apache-2.0"""

import ctypes
import os
import signal
import subprocess
import sys

TORCH = "2.11.0"  # of the engine; both must use one libtorch
_LIBRARY = "libmixerbench_engine.so"
_INSIDE = "MIXERBENCH_INSIDE"  # in the environment of the processes that the engine runs in
_CHECKED = "MIXERBENCH_CHECKED"  # in that of the process in which `mixer check` runs
_SAID = (2, 7, 8, 70, 75)  # exit codes of an engine that says why on standard error (docs/CLI.md)


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
    """Starts a process like this one, which finds the same modules."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from mixerbench import host; host.main()"
    return [sys.executable, "-c", code]


def _check_in_child(words):
    """`mixer check`, whose class may end its process: the exit code, 1 with a reason where it did."""
    # The child writes its answer to a pipe, so that none at all is seen.
    inside = {**os.environ, _CHECKED: "1"}
    with subprocess.Popen([*worker_command(), *words], env=inside, stdout=subprocess.PIPE) as child:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the child, which says what it means
        answer = child.stdout.read()
    sys.stdout.buffer.write(answer)
    sys.stdout.flush()
    code = child.returncode
    if code < 0 or not (answer or code in _SAID):
        how = f"signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"exit code {code}"
        print(f"error: the class ended its process while it was checked, with {how}", file=sys.stderr)
        return 1
    return code


def _strings(words):
    return (ctypes.c_char_p * (len(words) + 1))(*[os.fsencode(word) for word in words])


def main(arguments=None):
    """Runs the engine with the arguments of the command line and ends the process."""
    try:
        import torch  # before the engine: it then gets this libtorch
    except ImportError as error:
        raise SystemExit(f"error: torch {TORCH} cannot be imported: {error}") from error
    if torch.__version__.split("+")[0] != TORCH:
        raise SystemExit(f"error: this is torch {torch.__version__}; the engine needs torch {TORCH}")
    words = ["mixerbench", *(sys.argv[1:] if arguments is None else arguments)]
    if words[1:3] == ["mixer", "check"] and _CHECKED not in os.environ:
        sys.exit(_check_in_child(words[1:]))
    os.environ[_INSIDE] = "1"
    from . import bridge, trial

    if words[1:2] != ["worker"]:  # whose end costs one cell
        trial.start()
    _load_libraries()
    engine = ctypes.CDLL(engine_path())  # calls through it release the interpreter's lock
    bridge.implement()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python would note Ctrl-C and never look
    # Standard output is for the engine's answers, and a worker's input for its orders.
    sys.stdout, sys.stdin = sys.stderr, open(os.devnull, encoding="utf-8")
    code = engine.mixerbench_main(len(words), _strings(words), _strings(worker_command()))
    ctypes.CDLL(None).fflush(None)
    sys.stderr.flush()
    os._exit(code)  # a class may have left threads or exit handlers, which would be waited for
