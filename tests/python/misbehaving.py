"""Mixers that do what they must not. SPDX-License-Identifier: Apache-2.0"""

import os
import random
import signal
import sys
import threading
import time

import torch
from mixers import Mean
from torch import nn


class Raises(Mean):
    def forward(self, x):
        raise ValueError("boom")


class RaisesWhenBuilt(nn.Module):
    def __init__(self, d_model):
        raise KeyError("no such width")


class _RaisesBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        raise ArithmeticError("no gradient today")


class RaisesBackward(Mean):
    def forward(self, x):
        return _RaisesBackward.apply(super().forward(x))


class _ExitsBackward(_RaisesBackward):
    @staticmethod
    def backward(ctx, gradient):
        sys.exit(3)


class ExitsBackward(Mean):
    def forward(self, x):
        return _ExitsBackward.apply(super().forward(x))


class Exits(Mean):
    def forward(self, x):
        sys.exit(3)


class ExitsAtOnce(Mean):
    def forward(self, x):
        os._exit(3)


class EndsWhenBuilt(Mean):
    def __init__(self, d_model):
        os._exit(0)


class CrashesWhenBuilt(Mean):
    def __init__(self, d_model):
        signal.raise_signal(signal.SIGSEGV)  # in this thread, at once


class BlocksWhenBuilt(Mean):
    def __init__(self, d_model):
        time.sleep(1e6)


class Interrupts(Mean):
    def forward(self, x):
        raise KeyboardInterrupt


class Narrow(Mean):
    def forward(self, x):
        return super().forward(x)[..., :-1]


class Short(Mean):
    def forward(self, x):
        return super().forward(x)[:, :-1]


class Nothing(Mean):
    def forward(self, x):
        super().forward(x)


class Pair(Mean):
    def forward(self, x):
        return super().forward(x), None


class Whole(Mean):
    def forward(self, x):
        return super().forward(x).long()


class Detached(Mean):
    def forward(self, x):
        return super().forward(x).detach()


class Overwrites(Mean):
    def forward(self, x):
        return super().forward(x.mul_(2))


class NotANumber(Mean):
    def forward(self, x):
        return super().forward(x) * float("nan")


class Complex(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model, dtype=torch.complex64))


class Counts(Mean):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class Large(Mean):
    def forward(self, x):
        return super().forward(x) + torch.zeros(1 << 48, device=x.device)[0]


class Sleeps(Mean):
    def forward(self, x):
        time.sleep(3600)


class StateChanges(Mean):
    def initial_state(self, batch):
        return {"a": torch.zeros(batch, 1)}

    def forward(self, x, state):
        return super().forward(x), [state["a"]]


class StateWithoutBatch(Mean):
    def initial_state(self, batch):
        return torch.zeros(3, batch)

    def forward(self, x, state):
        return super().forward(x), state


class StateOfText(StateWithoutBatch):
    def initial_state(self, batch):
        return {"a": "text"}


class StateForgotten(StateWithoutBatch):
    def initial_state(self, batch):
        return torch.zeros(batch, 3)

    def forward(self, x, state):
        return Mean.forward(self, x)


class NeedsWidth(nn.Module):
    def __init__(self, width):
        super().__init__()
        raise RuntimeError(f"width {width} is not for me")


class NotAModule:
    def __init__(self, d_model):
        pass


def function(d_model):
    return Mean(d_model, 0, 1)


class ImportsWhenBuilt(nn.Module):
    def __init__(self, d_model):
        import no_such_package  # noqa: F401


class NeedsAnOption(nn.Module):
    def __init__(self, d_model, *, window):
        super().__init__()


class LeavesNoGradient(Mean):
    def forward(self, x):
        y = super().forward(x)
        torch.set_grad_enabled(False)
        return y


class LeavesDoubles(Mean):
    def forward(self, x):
        torch.set_default_dtype(torch.float64)
        return super().forward(x)


class ReadsBeyond(Mean):
    """On a GPU an assertion of the device."""

    def forward(self, x):
        rows = torch.full((1,), x.shape[1] + 7, device=x.device)
        return super().forward(x) + x[:, rows]


class Recurses(Mean):
    def forward(self, x):
        return self.forward(x)


class Crashes(Mean):
    def forward(self, x):
        signal.raise_signal(signal.SIGSEGV)  # in this thread, at once


class Unpicklable(Mean):
    """Harmless: nothing pickles a module."""

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.shape = lambda y: y

    def forward(self, x):
        return self.shape(super().forward(x))


class LeavesADevice(Mean):
    def forward(self, x):
        y = super().forward(x)
        torch.set_default_device("meta")
        return y


class LeavesDeterminism(Mean):
    def forward(self, x):
        torch.set_deterministic_debug_mode((torch.get_deterministic_debug_mode() + 1) % 2)
        return super().forward(x)


class LeavesTheFolder(Mean):
    """Others of its process would no longer find their files."""

    def forward(self, x):
        os.chdir("/")
        return super().forward(x)


class AddsAWeight(Mean):
    def forward(self, x):
        if not hasattr(self, "late"):
            self.late = nn.Linear(x.shape[2], x.shape[2])
        return self.late(super().forward(x))


class ReplacesAWeight(Mean):
    def forward(self, x):
        self.value.weight = nn.Parameter(self.value.weight.detach().clone())
        return super().forward(x)


class DeletesAWeight(Mean):
    def forward(self, x):
        y = super().forward(x)
        del self.value.weight
        return y


class WritesToAWeight(Mean):
    def forward(self, x):
        with torch.no_grad():
            self.value.weight.mul_(0.5)
        return super().forward(x)


class Freezes(Mean):
    def forward(self, x):
        y = super().forward(x)
        self.value.requires_grad_(False)
        return y


class Lazy(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.value = nn.LazyLinear(d_model)

    def forward(self, x):
        return self.value(x)


class WithoutForward(nn.Module):
    def __init__(self, d_model):
        super().__init__()


class WithoutInit(nn.Module):
    def forward(self, x):
        return x


class ForgetsSuper(nn.Module):
    def __init__(self, d_model):
        self.value = nn.Linear(d_model, d_model)


class Inference(Mean):
    def forward(self, x):
        with torch.inference_mode():
            return super().forward(x)


class Elsewhere(Mean):
    def forward(self, x):
        return super().forward(x).to("meta")


class Infinite(Mean):
    def forward(self, x):
        return super().forward(x) / 0


class Spins(Mean):
    """Gives the interpreter's lock to nobody for long."""

    def forward(self, x):
        while True:
            pass


class SleepsBackward(Mean):
    def forward(self, x):
        y = super().forward(x)
        if y.requires_grad:
            y.register_hook(lambda gradient: time.sleep(3600))
        return y


class ClosesOutput(Mean):
    def forward(self, x):
        os.close(1)
        return super().forward(x)


class Forks(nn.Module):
    """Both copies would go on with the engine's work. For tests that call it once."""

    def __init__(self, d_model):
        super().__init__()

    def forward(self, x):
        os.fork()
        return x


class Kills(Mean):
    def forward(self, x):
        os.kill(os.getpid(), signal.SIGKILL)


class LossForgotten(Mean):
    auxiliary_losses = {"size": 0.01}


class LossMisnamed(LossForgotten):
    def forward(self, x):
        return super().forward(x), {"sizes": x.sum()}


class LossOfMany(LossForgotten):
    def forward(self, x):
        return super().forward(x), {"size": x}


# What only the checks find.


class SeesTheFuture(Mean):
    def forward(self, x):
        return super().forward(x) + x.mean(1, keepdim=True)


class SeesTheBatch(Mean):
    def forward(self, x):
        return super().forward(x) + x.mean(0, keepdim=True)


class Random(Mean):
    def forward(self, x):
        return super().forward(x) * (1 + random.random() / 1000)


class Accumulates(Mean):
    """Another answer at every call."""

    def forward(self, x):
        self.calls = getattr(self, "calls", 0) + 1
        return super().forward(x) * (1 + self.calls / 1000)


class HidesNaN(Mean):
    def forward(self, x):
        return super().forward(x.nan_to_num())


class ReadsTheUnwritten(Mean):
    def forward(self, x):
        return super().forward(x) + torch.empty(1 << 20, dtype=x.dtype)[: x.shape[2]]


class _HalfGradient(_RaisesBackward):
    @staticmethod
    def backward(ctx, gradient):
        return gradient


class WrongGradient(Mean):
    def forward(self, x):
        return _HalfGradient.apply(super().forward(x))


class LosesState(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.value = nn.Linear(d_model, d_model)

    def initial_state(self, batch):
        return self.value.weight.new_zeros(batch, self.value.out_features)

    def forward(self, x, state):
        y = self.value(x).cumsum(1) + state[:, None]
        return y, state  # not y[:, -1]


class StepsWrong(LosesState):
    def forward(self, x, state):
        y = self.value(x).cumsum(1) + state[:, None]
        return y, y[:, -1]

    def step(self, x, state):
        return self.value(x), state


class Zero(Mean):
    """As good as nothing: all other checks would pass."""

    def forward(self, x):
        return super().forward(x) * 0


class WrongDtypes(nn.Module):
    dtypes = ("bf16",)

    def __init__(self, d_model):
        super().__init__()
        self.weight = nn.Linear(d_model, d_model)


class KeepsAList(Mean):
    """What it uses is not what is trained."""

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.held = [self.value.weight]

    def forward(self, x):
        return super().forward(x) * self.held[0].sum()


class HooksAWeight(Mean):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.value.weight.register_hook(torch.zeros_like)


class LeavesAnomalies(Mean):
    def forward(self, x):
        torch.autograd.set_detect_anomaly(True)
        return super().forward(x)


class BuildsElsewhere(Mean):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        os.chdir("/")


class LossesInAList(Mean):
    auxiliary_losses = ["size"]


class LossOfNaN(Mean):
    auxiliary_losses = {"size": float("nan")}


class TapsInAWord(Mean):
    taps = "gate"


class TapOfNothing(Mean):
    taps = ("gate",)

    def forward(self, x):
        return super().forward(x), {"gate": None}


class Sparse(Mean):
    def forward(self, x):
        return super().forward(x).to_sparse()


class LeavesAThread(Mean):
    """Whose process would be waited for."""

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        threading.Thread(target=time.sleep, args=(1000,)).start()


class EndsInItsSecondLayer(Mean):
    """What plans a run must build every layer, and not itself."""

    def __init__(self, d_model, layer_idx, num_layers):
        if layer_idx == 1:
            os._exit(0)
        super().__init__(d_model, layer_idx, num_layers)


class BlocksInItsSecondLayer(Mean):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        while layer_idx == 1:
            pass


class PrintsAnswers(Mean):
    """Where only the program's answers belong, and takes what belongs to others."""

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        os.system("echo no JSON")

    def forward(self, x):
        os.write(1, b"no JSON\n")
        os.system("echo no JSON; cat")
        return super().forward(x)


class HoldsTheLock(Mean):
    """The interpreter's, while it computes for hours."""

    def forward(self, x):
        return super().forward(x) + sum(range(1 << 62))


class SetsAVariable(Mean):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


class HandlesSignals(Mean):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


class LeavesTf32(Mean):
    def forward(self, x):
        torch.backends.cuda.matmul.allow_tf32 = not torch.backends.cuda.matmul.allow_tf32
        return super().forward(x)


class SaysWhatCannotBeWritten(Mean):
    def forward(self, x):
        raise ValueError("a name of a file: \udce4")


class _Unspeakable(Exception):
    def __str__(self):
        raise ValueError("no text")


class SaysNothing(Mean):
    def forward(self, x):
        raise _Unspeakable


class DrawnByPython(Mean):
    """Harmless: the seed of the cell decides."""

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        with torch.no_grad():
            self.value.weight[0, 0] = random.gauss(0, 1)


class LoadsOtherWeights(Mean):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.value.load_state_dict({})


class HoldsTheLockWhenBuilt(Mean):
    """No code of Python runs in its process any more."""

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.sum = sum(range(1 << 62))


class KeepsItsPlaceForItself(Mean):
    """Takes the signal that asks where it stands."""

    def __init__(self, d_model, layer_idx, num_layers):
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        time.sleep(1e6)


class DrawnByNumpy(Mean):
    """Harmless, as DrawnByPython."""

    def __init__(self, d_model, layer_idx, num_layers):
        import numpy

        super().__init__(d_model, layer_idx, num_layers)
        with torch.no_grad():
            self.value.weight[0, 0] = numpy.random.normal(0, 1)


class WithoutWidth(nn.Module):
    def __init__(self, *, layer_idx):
        super().__init__()


class Recites(Mean):
    """Says something else each time."""

    def forward(self, x):
        raise ValueError(f"{x.shape[1]} tokens are too many")


class ReplacesABuffer(Counts):
    def forward(self, x):
        self.calls = self.calls + 1
        return Mean.forward(self, x)


class AddsABuffer(Mean):
    def forward(self, x):
        self.register_buffer("first", x.detach().mean())
        return super().forward(x) - self.first


class GrowsATable(Mean):
    """Harmless: what is no part of the state_dict may be made anew."""

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.register_buffer("positions", torch.arange(0), persistent=False)

    def forward(self, x):
        if len(self.positions) < x.shape[1]:
            self.positions = torch.arange(x.shape[1], device=x.device)
        return super().forward(x) * self.positions[: x.shape[1], None].cos()


class StateGrows(LosesState):
    def forward(self, x, state):
        return self.value(x), torch.cat([state, state], 1)


class StateLosesBatch(LosesState):
    def forward(self, x, state):
        return self.value(x), state[:1]


class StateTurnsToText(LosesState):
    def forward(self, x, state):
        return self.value(x), "text"


class StateTurnsToANumber(LosesState):
    def forward(self, x, state):
        return self.value(x), 3


class StateElsewhere(LosesState):
    def forward(self, x, state):
        return self.value(x), state.to("meta")


class WritesToState(LosesState):
    def forward(self, x, state):
        return self.value(x), state.add_(1)


class RunsBackward(Mean):
    """What is trained would follow two gradients."""

    def forward(self, x):
        y = super().forward(x)
        if y.requires_grad:
            y.sum().backward(retain_graph=True)
        return y


class SeedsItself(Mean):
    """The same weights for every seed of a suite."""

    def __init__(self, d_model, layer_idx, num_layers):
        torch.manual_seed(0)
        super().__init__(d_model, layer_idx, num_layers)


class SeedsACall(Mean):
    """The same mask in every step."""

    def forward(self, x):
        torch.manual_seed(0)
        return nn.functional.dropout(super().forward(x), 0.5, self.training)


class LoadsACompiler(Mean):
    """Harmless: what torch.compile does to the environment when it is loaded."""

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = "/tmp/compiled"


class SaysMuch(Mean):
    def forward(self, x):
        raise ValueError("x" * 1_000_000)


class ClosesErrors(Mean):
    def forward(self, x):
        sys.stderr.close()
        return super().forward(x)


class LeavesAMark(Mean):
    """In its process, as open files would be, which is not that of the next cell."""

    def forward(self, x):
        sys.mark_of_misbehaving = True
        raise ValueError("marked")


class FindsAMark(Mean):
    """Harmless where nothing of another class is left in its process."""

    def forward(self, x):
        assert not hasattr(sys, "mark_of_misbehaving"), "the process of another class"
        return super().forward(x)


class KeepsAView(Mean):
    """As KeepsAList does, without the parameter itself."""

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.register_buffer("first", self.value.weight.detach()[0])

    def forward(self, x):
        return super().forward(x) * self.first.sum()


class KeepsDetached(KeepsAView):
    def __init__(self, d_model, layer_idx, num_layers):
        Mean.__init__(self, d_model, layer_idx, num_layers)
        self.first = self.value.weight.data


class KeepsDetachedInAClosure(Mean):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        first = self.value.weight.detach()
        self.first_sum = lambda: first.sum()

    def forward(self, x):
        return super().forward(x) * self.first_sum()


class NormalisesByItself(Mean):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        torch.nn.utils.spectral_norm(self.value)


class DropsByPython(Mean):
    def forward(self, x):
        return super().forward(x) * (random.random() > 0.1)


class WeighsByLayer(Mean):
    """An auxiliary loss, in each layer with another weight."""

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.auxiliary_losses = {"size": 0.5 * layer_idx}

    def forward(self, x):
        y = super().forward(x)
        return y, {"size": y.square().mean()}


class TiedByMemory(Mean):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.out.weight.data = self.value.weight.data


class TiedTransposed(Mean):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.out.weight = nn.Parameter(self.value.weight.t())


class FrozenTwin(Mean):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.twin = nn.Parameter(self.value.weight.data, requires_grad=False)


ONES = torch.ones(16)


class MadeOfAGlobal(Mean):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.scale = torch.nn.Parameter(ONES)

    def forward(self, x):
        return super().forward(x) * self.scale


class LeavesAMarkQuietly(Mean):
    """As a patched function of torch would be; it completes."""

    def forward(self, x):
        sys.mark_of_misbehaving = True
        return super().forward(x)


class _NaNBackward(_RaisesBackward):
    @staticmethod
    def backward(ctx, gradient):
        return gradient * float("nan")


class NaNBackward(Mean):
    def forward(self, x):
        return _NaNBackward.apply(super().forward(x))


class WritesToData(Mean):
    """Of which torch keeps no account."""

    def forward(self, x):
        self.value.weight.data.mul_(0.9)
        return super().forward(x)


class WritesToInputData(Mean):
    def forward(self, x):
        y = super().forward(x)
        x.data.mul_(2)
        return y


class CompilesInACall(Mean):
    """Harmless: what torch.compile does to the limit when it compiles."""

    def forward(self, x):
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 2000))
        return super().forward(x)


class InOneThread(Mean):
    """Harmless where one thread calls it, as what torch.compile makes of a class must be called."""

    thread = threading.local()
    is_called = False

    def forward(self, x):
        assert hasattr(InOneThread.thread, "is_mine") or not InOneThread.is_called, "another thread"
        InOneThread.thread.is_mine = InOneThread.is_called = True
        return super().forward(x)


class SumFrom(nn.Module):
    """Of which others begin their state wrongly."""

    def __init__(self, d_model):
        super().__init__()
        self.value = nn.Linear(d_model, d_model)
        self.register_buffer("calls", torch.zeros(()))

    def initial_state(self, batch):
        return self.value.weight.new_zeros(batch, self.value.out_features)

    def forward(self, x, state):
        y = self.value(x).cumsum(1) + state[:, None]
        return y, y[:, -1]


class StartsAnywhere(SumFrom):
    """Harmless: the seed of the step decides."""

    def initial_state(self, batch):
        return torch.randn_like(super().initial_state(batch))


class StartsInDoubles(SumFrom):
    def initial_state(self, batch):
        torch.set_default_dtype(torch.float64)
        return super().initial_state(batch)


class StartsWithASeed(SumFrom):
    def initial_state(self, batch):
        torch.manual_seed(1)
        return super().initial_state(batch)


class StartsCounting(SumFrom):
    def initial_state(self, batch):
        self.calls += 1
        return super().initial_state(batch)


class StartsByWriting(SumFrom):
    def initial_state(self, batch):
        with torch.no_grad():
            self.value.weight.mul_(1.001)
        return super().initial_state(batch)


class StartsTraining(SumFrom):
    """Harmless: it starts as it goes on."""

    def initial_state(self, batch):
        self.starts_training = self.training
        return super().initial_state(batch)

    def forward(self, x, state):
        assert self.starts_training == self.training
        return super().forward(x, state)


class _NoiseBackward(_RaisesBackward):
    @staticmethod
    def backward(ctx, gradient):
        return gradient * (1 + 0.1 * torch.randn_like(gradient))


class NoiseBackward(Mean):
    """Harmless: the seed of the step decides."""

    def forward(self, x):
        return _NoiseBackward.apply(super().forward(x))


class _DoublesBackward(_RaisesBackward):
    @staticmethod
    def backward(ctx, gradient):
        torch.set_default_dtype(torch.float64)
        return gradient


class DoublesBackward(Mean):
    def forward(self, x):
        return _DoublesBackward.apply(super().forward(x))


class DrawsInTheOrderOfASet(Mean):
    """Harmless: that is the same in every process."""

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        for name in {"first", "second", "third", "fourth", "fifth", "sixth"}:
            self.register_buffer(name, torch.randn(d_model))

    def forward(self, x):
        return super().forward(x) * self.first + self.second * self.third


class DrawsAnew(Mean):
    """A constant that nothing saves is another one in each process."""

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        own = random.Random()
        self.register_buffer("scales", torch.tensor([own.random() for _ in range(d_model)]))

    def forward(self, x):
        return super().forward(x) * self.scales


class FreezesAWeightDrawnAnew(DrawsAnew):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.frozen = nn.Parameter(self.scales.clone(), requires_grad=False)
        del self.scales
        self.scales = self.frozen.detach()


class HasNoNumbers(Mean):
    """Harmless: constants may be infinite, empty, complex or truths."""

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.register_buffer("mask", torch.full((3, 3), float("-inf")).triu(1))
        self.register_buffer("unknown", torch.tensor([float("nan"), 1]))
        self.register_buffer("empty", torch.zeros(0))
        self.register_buffer("turns", torch.polar(torch.ones(3), torch.rand(3)))
        self.register_buffer("chosen", torch.rand(5) > 0.5)


class TagsAWeight(Mean):
    """Harmless: what a weight is and what it carries stay."""

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.value.weight.gain = 100.0

    def forward(self, x):
        return super().forward(x) * self.value.weight.gain


class _Tripled(nn.Parameter):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        with torch._C.DisableTorchFunctionSubclass():
            value = function(*arguments, **(named or {}))
        return 3 * value if function is nn.functional.linear else value


class TriplesAWeight(Mean):
    """Harmless, as TagsAWeight."""

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.out.weight = _Tripled(self.out.weight.detach())


class _Elsewhere(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), named=None):
        with torch._C._DisableTorchDispatch():
            found = function(*arguments, **(named or {}))
        return torch.Tensor._make_subclass(cls, found) if isinstance(found, torch.Tensor) else found


class KeepsValuesElsewhere(Mean):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        values = torch.Tensor._make_subclass(_Elsewhere, torch.zeros(3))
        self.elsewhere = nn.Parameter(values)


class ConstantInFp32(Mean):
    """Harmless: its constants go with its inputs, as its weights do."""

    dtypes = torch.float32

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.register_buffer("turn", torch.eye(d_model))

    def forward(self, x):
        assert x.dtype == torch.float32, f"x is {x.dtype}"
        return super().forward(x @ self.turn)


class InFp64Alone(Mean):
    dtypes = torch.float64


class StateInAnotherOrder(LosesState):
    """Harmless: the parts of a state have names."""

    def initial_state(self, batch):
        return {"sum": super().initial_state(batch), "ones": super().initial_state(batch) + 1}

    def forward(self, x, state):
        y = (self.value(x).cumsum(1) + state["sum"][:, None]) * state["ones"][:, None]
        return y, {"ones": state["ones"], "sum": y[:, -1]}


class StateOfTwins(LosesState):
    def initial_state(self, batch):
        return {"a.b": super().initial_state(batch), "a": {"b": super().initial_state(batch)}}


class LeavesAutocast(Mean):
    def forward(self, x):
        torch.set_autocast_enabled("cpu", True)
        return super().forward(x)


class NormalisesBatches(Mean):
    """By running statistics of its own."""

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.register_buffer("mean", torch.zeros(d_model))
        self.register_buffer("var", torch.ones(d_model))

    def forward(self, x):
        y = super().forward(x)
        return nn.functional.batch_norm(y.mT, self.mean, self.var, training=self.training).mT


class AveragesInData(Mean):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.register_buffer("ema", torch.zeros(d_model))

    def forward(self, x):
        y = super().forward(x)
        self.ema.data.mul_(0.9).add_(y.detach().mean((0, 1)), alpha=0.1)
        return y + 0 * self.ema


class AveragesInAFrozenWeight(Mean):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.ema = nn.Parameter(torch.zeros(d_model), requires_grad=False)

    def forward(self, x):
        self.ema.data.add_(x.detach().mean((0, 1)))
        return super().forward(x)


class ClampsAWeight(Mean):
    def forward(self, x):
        self.value.weight.data.clamp_(-0.01, 0.01)
        return super().forward(x)


class CountsBackward(Counts):
    def forward(self, x):
        y = Mean.forward(self, x)
        if y.requires_grad:
            y.register_hook(lambda gradient: self.calls.add_(1) * 0 + gradient)
        return y


class KeepsEveryOtherToken(Mean):
    """In a cache that grows too slowly."""

    def initial_state(self, batch):
        return self.value.weight.new_zeros(batch, 0, self.value.in_features)

    def forward(self, x, state):
        return super().forward(x), torch.cat([state, x[:, ::2]], 1)


class TapOfComplexNumbers(Mean):
    taps = ("gate",)

    def forward(self, x):
        return super().forward(x), {"gate": torch.complex(x, x)}


class DrawsAnAttributeAnew(Mean):
    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.scale = random.Random().random()


class DrawsATensorAnew(Mean):
    """No buffer, and used in training alone."""

    def __init__(self, d_model, layer_idx, num_layers):
        super().__init__(d_model, layer_idx, num_layers)
        self.mask = torch.tensor([random.Random().random() for _ in range(d_model)])

    def forward(self, x):
        return super().forward(x * self.mask if self.training else x)
