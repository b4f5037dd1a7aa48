"""A user's torch.nn.Module as the engine sees it. SPDX-License-Identifier: Apache-2.0"""

import collections
import contextlib
import gc
import hashlib
import importlib
import importlib.util
import inspect
import itertools
import os
import sys
import threading
import weakref

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

from . import settings, sources

_keys = itertools.count(1)
_loading = threading.RLock()  # another thread must not find a module that has run halfway
_BITS = {torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}  # of precision


def load_class(place):
    """The class of 'FILE.py:Class' or 'package.module:Class'."""
    path = sources.check(place)
    file, name = sources.split(place)
    if not file.endswith(".py"):
        with _loading:
            if file not in sys.modules:
                with settings.put_back_after_import(path), _loading_what_counts(place, path):
                    importlib.import_module(file)
        return getattr(sys.modules[file], name)
    return getattr(_load_file(place, path), name)


@contextlib.contextmanager
def _loading_what_counts(place, path):
    """Around an import, which may load no source file that is not in the identity of `place`."""
    files, earlier = sources.counted(place, path), set(sys.modules)
    yield
    sources.require_counted(path, files, set(sys.modules) - earlier)


def _load_file(place, path):
    stem = os.path.basename(path).removesuffix(".py")
    key = f"mixerbench_user_{stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}"
    with _loading:
        if key in sys.modules:
            return sys.modules[key]
        folder = os.path.dirname(path)
        if folder not in sys.path:
            sys.path.append(folder)  # for what lies beside it, as `python3 FILE.py` would
            sources.folders_of_files.add(folder)
        spec = importlib.util.spec_from_loader(key, sources.FromSource(key, path))
        module = importlib.util.module_from_spec(spec)
        sys.modules[key] = module  # before it runs: pickling, dataclasses and Triton look it up
        try:
            with settings.put_back_after_import(path), _loading_what_counts(place, path):
                spec.loader.exec_module(module)
                _check_helpers(path)
        except BaseException:
            del sys.modules[key]
            raise
        return module


def _check_helpers(path):
    """A file's identity holds the files beside it: no other may have answered for one of them."""
    for name, file in sources.helpers(path).items():
        loaded = getattr(sys.modules.get(name), "__file__", None)
        if loaded is not None and not os.path.samefile(loaded, file):
            raise sources.ConfigProblem(
                f"{path} imports {name}, which stands beside it, but {loaded} is loaded under this name: rename one"
            )


def _accepted(cls, offered):
    """Of the arguments that are offered those that the class takes."""
    parameters = inspect.signature(cls.__init__).parameters
    taken = set(parameters)
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        taken |= {"layer_idx", "num_layers"}  # what every class may get; what else there is it has to name
    return {name: value for name, value in offered.items() if name in taken}


def _built(cls, spec):
    """The class called as docs/PYTHON.md says."""
    offered = {name: spec[name] for name in ("layer_idx", "num_layers", "max_seq_len")}
    named = {**_accepted(cls, offered), **spec["options"]}
    try:
        inspect.signature(cls.__init__).bind(None, spec["d_model"], **named)
    except TypeError as error:
        call = ", ".join(["d_model", *(f"{name}={value!r}" for name, value in named.items())])
        raise sources.ConfigProblem(f"{spec['module']} is called as {cls.__name__}({call}): {error}") from error
    return cls(spec["d_model"], **named)


def _precision(x):
    """Products in the dtype of x where the weights are kept in more bits."""
    if x.dtype in (torch.bfloat16, torch.float16):
        return torch.autocast(x.device.type, x.dtype, cache_enabled=False)
    return contextlib.nullcontext()


@contextlib.contextmanager
def _parameters_kept(module):
    """What is trained are the parameters that were there when the module was built, by the step's gradients alone."""
    earlier = {name: (p, p._version, p.requires_grad, _seen(p.grad)) for name, p in module.named_parameters()}
    yield
    now = dict(module.named_parameters())
    for name in {**earlier, **now}:
        if name not in earlier:
            raise RuntimeError(f"the module gets a new parameter {name} while it runs, which nothing trains")
        parameter, version, is_trained, gradient = earlier[name]
        if now.get(name) is not parameter:
            raise RuntimeError(f"the module replaces or deletes its parameter {name} while it runs")
        if parameter._version != version or parameter.requires_grad != is_trained:
            raise RuntimeError(f"the module writes to its parameter {name} while it runs, or freezes it")
        if not _is_as_seen(parameter.grad, gradient):
            raise RuntimeError(
                f"the module adds to the gradient of its parameter {name} while it runs: take torch.autograd.grad in "
                "the place of backward()"
            )


def _seen(tensor):
    return tensor, None if tensor is None else tensor._version


def _is_as_seen(tensor, seen):
    return tensor is seen[0] and (tensor is None or tensor._version == seen[1])


def _saved_buffers(module):
    """Those of the state_dict. The others may be made anew in a call, as tables are that grow with the input."""
    return {
        f"{prefix}.{name}".removeprefix("."): buffer
        for prefix, part in module.named_modules()
        for name, buffer in part._buffers.items()
        if name not in part._non_persistent_buffers_set
    }


@contextlib.contextmanager
def _buffers_kept(module):
    """Buffers are constants: nothing saves what a call leaves in them."""
    seen = {name: _seen(buffer) for name, buffer in module.named_buffers()}
    earlier = _saved_buffers(module)
    yield
    for name, (buffer, version) in seen.items():
        if buffer._version != version:
            raise RuntimeError(f"the module writes to its buffer {name} while it runs, which nothing saves")
    now = _saved_buffers(module)
    for name in {**earlier, **now}:
        if name not in earlier or name not in now or now[name] is not earlier[name]:
            how = "adds, replaces or deletes"
            raise RuntimeError(f"the module {how} its buffer {name} while it runs, which nothing saves")


def _bytes(tensor):
    """By which NaN equals itself, and 0 is not -0."""
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def _keeps_values_elsewhere(tensor):
    return type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


def _constants(module):
    """(what it is, name, tensor, bytes) of all that nothing trains."""
    held = [("buffer", name, buffer) for name, buffer in module.named_buffers()]
    held += [("parameter", name, p) for name, p in module.named_parameters() if not p.requires_grad]
    return [(*one, _bytes(one[2]).clone()) for one in held if not _keeps_values_elsewhere(one[2])]


def _dtypes(module):
    """What the module says that it computes in; of a module that says nothing, everything."""
    dtypes = getattr(module, "dtypes", _BITS)
    if isinstance(dtypes, torch.dtype):
        dtypes = (dtypes,)
    dtypes = tuple(dtypes)
    if not dtypes or not set(dtypes) <= set(_BITS):
        raise TypeError(f"dtypes is {dtypes}, not some of torch.bfloat16, torch.float32 and torch.float64")
    if set(dtypes) == {torch.float64}:
        raise TypeError("dtypes names torch.float64 alone: a run keeps its weights in torch.float32")
    return dtypes


def _losses(module):
    """Names and weights of the auxiliary losses."""
    losses = getattr(module, "auxiliary_losses", {})
    weights = losses.values() if isinstance(losses, dict) else [None]
    if not all(isinstance(weight, (int, float)) and 0 <= weight < float("inf") for weight in weights):
        raise TypeError(f"auxiliary_losses is {losses!r}, not a dict of names and weights >= 0")
    return {str(name): float(w) for name, w in sorted(losses.items())}


def _taps(module, losses):
    taps = getattr(module, "taps", ())
    if not isinstance(taps, (list, tuple, set, frozenset)) or not all(isinstance(name, str) for name in taps):
        raise TypeError(f"the attribute taps is {taps!r}, not a list of the names of taps")
    if twice := sorted(set(taps) & set(losses)):
        raise TypeError(f"{twice[0]} is the name of an auxiliary loss and of a tap")
    return sorted(taps)


def _kind(name, leaf):
    if isinstance(leaf, int) and not isinstance(leaf, bool):
        return "position"
    if not isinstance(leaf, torch.Tensor):
        raise TypeError(f"state {name} is {type(leaf).__name__}: a state is made of tensors and integers")
    return "cache" if leaf.dim() > 1 and leaf.shape[1] == 0 else "recurrent"


def _in_fp32(value):
    return value.float() if isinstance(value, torch.Tensor) and value.dtype == torch.float64 else value


def _differ(value, other):
    """By more than the rounding of what computes them."""
    if value.shape != other.shape or value.dtype != other.dtype:
        return True
    if value.is_complex():
        value, other = torch.view_as_real(value), torch.view_as_real(other)
    value, other = (tensor.detach().double().nan_to_num(0, 0, 0) for tensor in (value, other))
    largest = value.abs().max().item() if value.numel() else 0
    return not torch.allclose(value, other, rtol=0, atol=1e-3 * largest)


def require_one_of_a_seed(module, other):
    """Raises TypeError where two modules that were built alike have unlike weights or constants."""
    values, others = ({**dict(m.named_parameters()), **dict(m.named_buffers())} for m in (module, other))
    for name in {**values, **others}:
        if name not in values or name not in others or _differ(values[name], others[name]):
            raise TypeError(
                f"{name} is another one each time that the class is built with the same seed: draw it from torch's "
                "generator, random or numpy.random, which the seed of the cell sets, and leave no value unwritten"
            )


def answers_differ(unit, other):
    """Whether two units of one seed answer otherwise, though each does so again: an attribute of theirs differs."""
    held, others = (itertools.chain(u.module.parameters(), u.module.buffers()) for u in (unit, other))
    for tensor, of_other in zip(held, others):
        of_other.data.copy_(tensor.data)  # may differ by rounding
    x = torch.linspace(-1, 1, 2 * 8 * unit.d_model, dtype=torch.float64 if unit.is_double else torch.float32)
    x = x.view(2, 8, unit.d_model)
    first, again, of_other = (
        [_bytes(called.answer(x, training)) for training in (False, True)] for called in (unit, unit, other)
    )
    return all(map(torch.equal, first, again)) and not all(map(torch.equal, first, of_other))


def _parameters_in_memory(module):
    """(name, parameter) of those that have a storage; of one that has several names the first."""
    for name, parameter in module.named_parameters():
        if parameter.layout == torch.strided and not _keeps_values_elsewhere(parameter):
            yield name, parameter


def _require_own_memory(place, module):
    """Each parameter is trained by itself: of two that share values the engine would make two."""
    by_storage = {}
    for name, parameter in _parameters_in_memory(module):
        by_storage.setdefault(parameter.untyped_storage()._cdata, []).append((name, parameter))
    for sharers in by_storage.values():
        if len(sharers) == 1 or not any(parameter.requires_grad for _, parameter in sharers):
            continue
        owner = torch.full((sharers[0][1].untyped_storage().nbytes(),), -1)  # by byte
        for i, (name, parameter) in enumerate(sharers):
            size = parameter.element_size()
            where = torch.arange(len(owner)).as_strided(
                parameter.shape, [size * step for step in parameter.stride()], size * parameter.storage_offset()
            )
            if other := [sharers[j][0] for j in owner[where].flatten().unique().tolist() if j >= 0]:
                raise TypeError(
                    f"{place}: parameters {other[0]} and {name} share memory and would be trained apart: give both the "
                    "one parameter (self.a.weight = self.b.weight), or compute one from the other"
                )
            owner[where] = i


class Unit:
    """One layer: a module with its parameters and the form of its state."""

    def __init__(self, spec):
        cls = load_class(spec["module"])
        if not (isinstance(cls, type) and issubclass(cls, torch.nn.Module)):
            raise TypeError(f"{spec['module']} is no subclass of torch.nn.Module")
        if cls.__init__ is torch.nn.Module.__init__:
            raise TypeError(f"{spec['module']} has no __init__(self, d_model)")
        if torch.device(spec["device"]).type == "cuda":
            torch.cuda.init()  # what an import has asked for, a seed say, is done now and not in a call
        # On the CPU: a seed gives the same weights everywhere.
        with settings.drawing_all_from(spec["seed"]), settings.kept_by_constructor():
            module = _built(cls, spec)
        self.place, self.d_model, self.is_double = spec["module"], spec["d_model"], spec["double"]
        for name, parameter in module.named_parameters():
            if isinstance(parameter, torch.nn.UninitializedParameter):
                how = "has no shape before the first call: give the layer its sizes"
                raise TypeError(f"{self.place}: parameter {name} {how}")
        _require_own_memory(self.place, module)
        self.first_memory = {
            name: StorageWeakRef(p.untyped_storage()) for name, p in _parameters_in_memory(module) if p.requires_grad
        }
        module = module.double() if spec["double"] else module.float()
        self.module = module.to(spec["device"])
        self.key = str(next(_keys))
        self.trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
        for name, parameter in self.trained.items():
            if not parameter.is_floating_point():
                raise TypeError(f"{self.place}: parameter {name} is {parameter.dtype}: keep it as real numbers")
            if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
                raise TypeError(f"{self.place}: parameter {name} has a hook, which training would not call")
            if _keeps_values_elsewhere(parameter):
                kind = type(parameter).__name__
                raise TypeError(f"{self.place}: parameter {name} is a {kind}, which keeps its values elsewhere")
        self.has_state = callable(getattr(module, "initial_state", None))
        self.has_step = self.has_state and callable(getattr(module, "step", None))
        self.dtypes = _dtypes(module)
        if getattr(module.forward, "__func__", None) is torch.nn.Module.forward:
            raise TypeError(f"{spec['module']} has no forward(self, x)")
        self.losses = _losses(module)
        self.taps = _taps(module, self.losses)
        self.thread = threading.get_ident()  # the evaluations of which compare its values
        self.constants = _constants(module)
        self.remembered = []  # the same of what is trained
        self.structure = None  # of the state, with the order and kinds of its leaves
        self.state_names = None  # of its leaves

    def facts(self):
        """What the engine has to know of it."""
        decays = [[name, not getattr(p, "_no_weight_decay", False)] for name, p in self.trained.items()]
        return {"has_state": self.has_state, "losses": self.losses, "taps": self.taps, "parameters": decays}

    def install(self, tensors):
        """Puts the engine's tensors in the place of the parameters, wherever the module holds one."""
        places = {}
        for module in self.module.modules():
            for name, parameter in module._parameters.items():
                places.setdefault(id(parameter), []).append((module, name))
        replaced = {name: weakref.ref(parameter) for name, parameter in self.trained.items()}
        for parameter, tensor in zip(self.trained.values(), tensors, strict=True):
            tensor.__class__ = type(parameter)
            tensor.__dict__.update(parameter.__dict__)
            for module, name in places[id(parameter)]:
                setattr(module, name, tensor)
        parameter = self.trained = None
        gc.collect()
        for name, old in replaced.items():
            if old() is not None:
                raise TypeError(
                    f"{self.place}: something else holds parameter {name} too (a list, a closure, an optimiser, a "
                    "trace of torch.jit, torch.nn.utils.weight_norm in the place of that of parametrizations): what is "
                    "used there would not be trained; look it up in the module when it is needed"
                )

    def require_first_memory_freed(self):
        """After install(): whatever still lies where a parameter was would have its first values for ever."""
        for name, memory in self.first_memory.items():
            if not memory.expired():
                raise TypeError(
                    f"{self.place}: another tensor shares the memory of parameter {name} (its detach() or data, a view, "
                    "what it was made of, torch.nn.utils.spectral_norm in the place of that of parametrizations): it "
                    "would keep the first values; compute it from the parameter when it is needed, or keep a copy"
                )

    def remember(self):
        """What is trained, for compare()."""
        trained = ((name, p) for name, p in self.module.named_parameters() if p.requires_grad)
        self.remembered = [("parameter", name, p, _bytes(p).clone()) for name, p in trained]

    def forget(self):
        self.remembered = []

    def compare(self):
        """Finds what a call or a backward pass has written to and torch has counted as no change, as of `.data`."""
        saved = _saved_buffers(self.module)
        for what, name, tensor, earlier in [*self.constants, *self.remembered]:
            now = saved.get(name, tensor)  # in a hook another one may have taken its place
            if not torch.equal(_bytes(now), earlier):
                more = ", which nothing saves" if what == "buffer" else ", or freezes it"
                raise RuntimeError(f"the module writes to its {what} {name} while it runs{more}")

    @contextlib.contextmanager
    def _guarded(self, training, seed):
        """Around a call of the module."""
        settings.keep_stand_in_for_gpu()
        self.module.train(training)
        with (
            settings.drawing_from(seed),
            settings.drawing_from_torch_alone(),
            settings.kept(),
            _parameters_kept(self.module),
            _buffers_kept(self.module),
        ):
            yield

    def initial_state(self, batch_size, training, seed):
        with self._guarded(training, settings.another_seed(seed, "state")):
            state = self.module.initial_state(batch_size)
        with_path, spec = pytree.tree_flatten_with_path(state)
        leaves = [(_name(path), _kind(_name(path), leaf), leaf) for path, leaf in with_path]
        if twins := [name for name, count in collections.Counter(name for name, *_ in leaves).items() if count > 1]:
            raise ValueError(f"two parts of the state are called {twins[0]}: give them names that differ")
        for name, kind, leaf in leaves:
            if kind != "position" and (leaf.dim() == 0 or leaf.shape[0] != batch_size):
                raise ValueError(f"state {name} is {list(leaf.shape)}: its first axis must be the batch, {batch_size}")
        # By name, as the engine keeps them.
        order = sorted(range(len(leaves)), key=lambda i: leaves[i][0].encode())
        self.structure = (spec, order, [kind for _, kind, _ in leaves])
        self.state_names = [name for name, _, _ in leaves]
        return [leaves[i][:2] for i in order], self._to_engine([leaf for _, _, leaf in leaves])

    def _to_engine(self, leaves):
        _, order, kinds = self.structure
        return [torch.tensor(leaves[i]) if kinds[i] == "position" else leaves[i] for i in order]

    def _from_engine(self, tensors):
        spec, order, kinds = self.structure
        leaves = [None] * len(order)
        for i, tensor in zip(order, tensors, strict=True):
            leaves[i] = int(tensor) if kinds[i] == "position" else tensor
        return pytree.tree_unflatten(leaves, spec)

    def forward(self, x, tensors, training, seed):
        """y; of a module with a state, the tensors of the next one; auxiliary losses; taps."""
        given, x = x, self._accepted_dtype(x)
        versions = [tensor._version for tensor in (x, *tensors)]
        with self._guarded(training, seed), _precision(x):
            if not self.has_state:
                y, leaves, extras = self._without_extras(self._call(x), "y")
            else:
                y, leaves, extras = self._forward_with_state(x, tensors)
        self._check(x, y)
        for what, tensor, version in zip(["input", *["state"] * len(tensors)], (x, *tensors), versions, strict=True):
            if tensor._version != version:
                raise RuntimeError(f"the module writes to its {what}: work on a copy")
        return y.to(given.dtype), leaves + extras

    def answer(self, x, training):
        """y of a call with one and the same seed and, with a state, the first one."""
        state = self.initial_state(len(x), training, 0)[1] if self.has_state else []
        return self.forward(x, state, training, 0)[0]

    def _accepted_dtype(self, x):
        """x in its own dtype or, if the module does not compute in that, in the most precise one in which it does."""
        return x if x.dtype in self.dtypes else x.to(max(self.dtypes, key=_BITS.get))

    def _fits(self, x):
        """Whether weights and buffers go with x: those in float64 do not with anything else, under autocast too."""
        held = itertools.chain(self.module.parameters(), self.module.buffers())
        return x.dtype == torch.float64 or all(tensor.dtype != torch.float64 for tensor in held)

    def _call(self, *arguments):
        """The module's answer to (x) or (x, state)."""
        if self._fits(arguments[0]):
            return self.module(*arguments)
        held = itertools.chain(self.module.named_parameters(), self.module.named_buffers())
        in_fp32 = {name: _in_fp32(tensor) for name, tensor in held}
        return torch.func.functional_call(self.module, in_fp32, pytree.tree_map(_in_fp32, arguments))

    def _without_extras(self, returned, form):
        """(y, [], losses and taps) of what a module without a state returns."""
        if not self.losses and not self.taps:
            return returned, [], []
        if not (isinstance(returned, tuple) and len(returned) == form.count(",") + 2):
            raise TypeError(f"a module with auxiliary_losses or taps must return ({form}, {{name: value}})")
        *rest, named = returned
        return (rest[0] if len(rest) == 1 else tuple(rest)), [], self._extras(named)

    def _extras(self, named):
        declared = [*self.losses, *self.taps]
        if not isinstance(named, dict) or sorted(named) != sorted(declared):
            got = sorted(named) if isinstance(named, dict) else type(named).__name__
            raise ValueError(f"the module declares the losses and taps {declared} and returns {got}")
        for name in self.losses:
            if not isinstance(named[name], torch.Tensor) or named[name].dim() != 0:
                raise ValueError(f"the auxiliary loss {name} must be a tensor with one value and no axis")
        for name in self.taps:
            if not isinstance(named[name], torch.Tensor):
                raise ValueError(f"the tap {name} is {type(named[name]).__name__}, not a tensor")
            if named[name].is_complex():
                raise ValueError(f"the tap {name} is {named[name].dtype}: give its real and imaginary part as two")
        losses = [named[name].float() for name in self.losses]
        return losses + [named[name].detach() for name in self.taps]

    def _forward_with_state(self, x, tensors):
        state = self._from_engine(tensors)
        is_step = self.has_step and x.shape[1] == 1 and not torch.is_grad_enabled() and self._fits(x)
        returned = self.module.step(x[:, 0], state) if is_step else self._call(x, state)
        y_and_state, _, extras = self._without_extras(returned, "y, state")
        if not (isinstance(y_and_state, tuple) and len(y_and_state) == 2):
            raise TypeError("forward(x, state) must return (y, state)")
        y, state = y_and_state
        if is_step and isinstance(y, torch.Tensor):
            y = y.unsqueeze(1)
        leaves = self._leaves(state)
        self._check_state(leaves, tensors, x.shape[1])
        return y, self._to_engine(leaves), extras

    def _leaves(self, state):
        """What a state is made of, in the order in which initial_state has it."""
        leaves, spec = pytree.tree_flatten(state)
        if spec == self.structure[0]:
            return leaves
        found = {_name(path): leaf for path, leaf in pytree.tree_flatten_with_path(state)[0]}
        if sorted(found) != sorted(self.state_names) or len(found) != len(leaves):
            raise ValueError(f"the state has the parts {list(found)}, not those of initial_state: {self.state_names}")
        return [found[name] for name in self.state_names]

    def _check_state(self, leaves, tensors, num_tokens):
        """The initial state tells what a state takes: a cache grows by a row a token, along its second axis."""
        _, order, kinds = self.structure
        for i, earlier in zip(order, tensors, strict=True):
            name, kind, leaf = self.state_names[i], kinds[i], leaves[i]
            if (_kind(name, leaf) == "position") != (kind == "position"):
                raise TypeError(f"state {name} is {type(leaf).__name__}, not what it is in initial_state")
            if kind == "position":
                continue
            expected, rule = list(earlier.shape), "its size may not change"
            if kind == "cache":
                expected[1] += num_tokens
                rule = "a cache grows by a row a token"
            if list(leaf.shape) != expected:
                raise ValueError(f"state {name} is {list(leaf.shape)}, not {expected}: {rule}")
            if leaf.device != earlier.device:
                raise ValueError(f"state {name} is on {leaf.device}, not on {earlier.device} as before")

    def _check(self, x, y):
        if not isinstance(y, torch.Tensor):
            raise TypeError(f"y is {type(y).__name__}, not a tensor")
        if y.layout != torch.strided or y.is_nested:
            raise TypeError("y is sparse or nested, not a dense tensor")
        if y.shape != x.shape:
            raise ValueError(f"y is {list(y.shape)}, not {list(x.shape)} as x")
        if y.device != x.device:
            raise ValueError(f"y is on {y.device}, not on {x.device} as x")
        if not y.is_floating_point():
            raise TypeError(f"y is {y.dtype}")
        is_trained = x.requires_grad or any(p.requires_grad for p in self.module.parameters())
        if torch.is_grad_enabled() and is_trained and not y.requires_grad:
            raise RuntimeError("y has no gradient: the module detaches it")


def _name(path):
    keys = [getattr(key, "key", getattr(key, "idx", getattr(key, "name", None))) for key in path]
    return ".".join(str(key) for key in keys) or "state"
