"""What a user's code may not change for all others of its process. SPDX-License-Identifier: Apache-2.0"""

import contextlib
import hashlib
import os
import random
import signal
import sys
import threading

import torch

try:
    import numpy
except ImportError:  # then no class uses it either
    numpy = None

notes = []  # what modules have set for the whole process when they were imported
_drawing = threading.Lock()  # of the generators, which all threads share
_backends = torch.backends
_OF_COMPILERS = {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"}  # variables that torch.compile sets when it is loaded
_standing_in = []  # the thread of keep_stand_in_for_gpu
_PRECISIONS = {"tf32": "high", "bf16": "medium"}


def _attribute(owner, name):
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)


def _autocast(device):
    def put(value):
        torch.set_autocast_enabled(device, value[0])
        torch.set_autocast_dtype(device, value[1])

    return lambda: (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)), put


# By their names, how they are read and set.
_SETTINGS = {
    "torch's gradient mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch's autocast on the CPU": _autocast("cpu"),
    "torch's autocast on GPUs": _autocast("cuda"),
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "the seed of torch's generator": (torch.initial_seed, torch.default_generator.manual_seed),
    "torch's default device": (torch.get_default_device, torch.set_default_device),
    "torch's deterministic mode": (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    "torch's anomaly mode": (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    "torch's precision of float32 products": (
        lambda: _backends.cuda.matmul.fp32_precision,  # does not mind by which of its two interfaces it was set
        lambda value: torch.set_float32_matmul_precision(_PRECISIONS.get(value, "highest")),
    ),
    "torch.backends.cudnn.enabled": _attribute(_backends.cudnn, "enabled"),
    "torch.backends.cudnn.benchmark": _attribute(_backends.cudnn, "benchmark"),
    "torch.backends.cudnn.deterministic": _attribute(_backends.cudnn, "deterministic"),
    "torch.backends.cudnn.allow_tf32": _attribute(_backends.cudnn, "allow_tf32"),
    "the recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
    "the current folder": (os.getcwd, os.chdir),  # other cells of this process look for files in it
}


def _read():
    return {name: read() for name, (read, _) in _SETTINGS.items()}


def _put_back(earlier):
    """The names of those that were changed."""
    changed = [name for name, (read, _) in _SETTINGS.items() if read() != earlier[name]]
    for name in changed:
        _SETTINGS[name][1](earlier[name])
    return changed


@contextlib.contextmanager
def kept():
    """Around a call, which must leave them as they were: everything after it would run otherwise."""
    earlier = _read()
    changed = []
    try:
        yield
    finally:
        changed = _put_back(earlier)
    if changed:
        raise RuntimeError(f"the module changes {changed[0]} and leaves it so")


@contextlib.contextmanager
def kept_by_constructor():
    """As kept(), and the environment and what signals do as well."""
    environment = dict(os.environ)
    try:
        with kept(), _handlers_kept():
            yield
    finally:
        changed = _changed(environment)
        for name in changed:
            os.environ.pop(name, None)
            if name in environment:
                os.environ[name] = environment[name]
    if changed:
        raise RuntimeError(f"the module changes the environment variable {changed[0]} and leaves it so")


@contextlib.contextmanager
def put_back_after_import(path):
    """Around an import, often of somebody else's code: puts them back, and `notes` says so.

    Variables of the environment stay: what is imported may read them later.
    """
    earlier, environment = _read(), dict(os.environ)
    changed = []
    try:
        with drawing_all_from(0), _handlers_kept():
            yield
    finally:
        changed = _put_back(earlier)
    name = os.path.basename(path)
    notes.extend(f"{name} changes {what} when it is imported; it is put back" for what in changed)
    notes.extend(f"{name} sets {what} in the environment when it is imported" for what in _changed(environment))


def _changed(environment):
    names = {**environment, **os.environ}.keys() - _OF_COMPILERS
    return sorted(name for name in names if os.environ.get(name) != environment.get(name))


def keep_stand_in_for_gpu():
    """Where there is no GPU torch.compile sets something in its place, for the whole process and once. It is of the
    thread that compiles first and goes with it (torch 2.11): what another one compiles then crashes. Every cell has
    a thread of its own, so this one stays."""
    if _standing_in or "torch._dynamo" not in sys.modules or torch.cuda.is_available():
        return
    is_set = threading.Event()

    def stay():
        torch._C._ensureCUDADeviceGuardSet()
        is_set.set()
        threading.Event().wait()

    _standing_in.append(threading.Thread(target=stay, daemon=True))
    _standing_in[0].start()
    is_set.wait()


@contextlib.contextmanager
def _handlers_kept():
    """Signals stop the program and save its work."""
    earlier = {number: signal.getsignal(number) for number in signal.valid_signals()}
    yield
    for number, handler in earlier.items():
        if signal.getsignal(number) != handler:
            raise RuntimeError(f"the module handles {signal.Signals(number).name}, which the program does itself")


def another_seed(seed, what):
    """For what is drawn beside what comes of `seed` itself."""
    return int.from_bytes(hashlib.sha256(f"{what} {seed}".encode()).digest()[:8], "big")


@contextlib.contextmanager
def drawing_from(seed):
    """What is drawn of torch's generator comes of `seed`, and the generator is left as it was."""
    with _drawing, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def _other_generators():
    if not numpy:
        return random.getstate()
    _, words, *rest = numpy.random.get_state()
    return random.getstate(), words.tobytes(), rest


@contextlib.contextmanager
def drawing_from_torch_alone():
    """Around a call, inside of drawing_from: a step on a GPU is replayed without Python, and what Python or NumPy drew
    once would stand for all of them."""
    earlier = _other_generators()
    yield
    if _other_generators() != earlier:
        raise RuntimeError(
            "the module draws from Python's random or numpy.random while it runs, which no seed repeats: draw from "
            "torch's generator"
        )


@contextlib.contextmanager
def drawing_all_from(seed):
    """The same of Python's and NumPy's global generators too."""
    with drawing_from(seed):
        of_python, of_numpy = random.getstate(), numpy and numpy.random.get_state()
        random.seed(seed)
        if numpy:
            numpy.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(of_python)
            if numpy:
                numpy.random.set_state(of_numpy)
