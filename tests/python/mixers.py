"""Mixers as a user would write them. SPDX-License-Identifier: Apache-2.0"""

import gc

import torch
from torch import nn


class Mean(nn.Module):
    """The mean of all values so far: without a state."""

    def __init__(self, d_model, layer_idx, num_layers, scale=1.0):
        super().__init__()
        self.value = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model, bias=False)
        self.out.weight._no_weight_decay = True
        self.scale, self.layer = scale, (layer_idx, num_layers)

    def forward(self, x):
        count = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)
        return self.out(self.value(x).cumsum(1) / count[:, None]) * self.scale


class Decay(nn.Module):
    """A leaky sum: with a state, one integer of it."""

    def __init__(self, d_model):
        super().__init__()
        self.value = nn.Linear(d_model, d_model)
        self.rate = nn.Parameter(torch.zeros(d_model))

    def initial_state(self, batch):
        return {"sum": self.rate.new_zeros(batch, len(self.rate)), "seen": 0}

    def forward(self, x, state):
        total, keep, y = state["sum"], torch.sigmoid(self.rate), []
        for value in self.value(x).unbind(1):
            total = keep * total + value
            y.append(total)
        return torch.stack(y, 1), {"sum": total, "seen": state["seen"] + x.shape[1]}


class Lstm(nn.Module):
    """A module that holds its parameters in more than one place."""

    def __init__(self, d_model):
        super().__init__()
        self.lstm = nn.LSTM(d_model, d_model, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


class InCaptures(Mean):
    """The collector of garbage is off in captures, and on elsewhere."""

    def forward(self, x):
        is_captured = x.is_cuda and torch.cuda.is_current_stream_capturing()
        assert gc.isenabled() != is_captured, f"collector on: {gc.isenabled()}"
        return super().forward(x)


class InBf16(Mean):
    """As kernels that take nothing else."""

    dtypes = (torch.bfloat16,)

    def forward(self, x):
        assert x.dtype == torch.bfloat16, f"x is {x.dtype}"
        return super().forward(x)


class InFp32(Decay):
    dtypes = (torch.float32, torch.bfloat16)

    def forward(self, x, state):
        assert x.dtype == torch.float32, f"x is {x.dtype}"
        return super().forward(x, state)


class Talks(Mean):
    def forward(self, x):
        print("done with all of it", flush=True)
        return super().forward(x)


class Dropped(Mean):
    def forward(self, x):
        return nn.functional.dropout(super().forward(x), 0.5, self.training)


class Drawn(nn.Module):
    """Has no weight, and a loss that tells what it draws."""

    auxiliary_losses = {"drawn": 0.0}

    def __init__(self, d_model):
        super().__init__()

    def forward(self, x):
        drawn = torch.rand(len(x), 1, 1, device=x.device)
        return x * (1 + drawn), {"drawn": drawn.mean()}


class Stepped(Decay):
    """The same, one token at a time by a function of its own."""

    def step(self, x, state):
        total = torch.sigmoid(self.rate) * state["sum"] + self.value(x)
        return total, {"sum": total, "seen": state["seen"] + 1}


@torch.jit.script
def _gate(x, gate):
    return torch.tanh(x) * torch.sigmoid(gate)


class Scripted(Mean):
    def forward(self, x):
        return super().forward(_gate(x, x))


class Balanced(Mean):
    """With an auxiliary loss and a tap."""

    auxiliary_losses = {"size": 0.01}
    taps = ("value",)

    def forward(self, x):
        value = self.value(x)
        return super().forward(x), {"size": value.square().mean(), "value": value}


class TapsAWriteGate(Mean):
    """Records what it calls a write gate, and nobody can replace it."""

    taps = ("write_gate",)

    def forward(self, x):
        return super().forward(x), {"write_gate": x[..., :1].sigmoid()}


class Short(Mean):
    """Takes the lengths alone at which it is trained and tested, 16 and 32: no piece of them."""

    def forward(self, x):
        assert x.shape[1] in (16, 32), f"{x.shape[1]} tokens"
        return super().forward(x)
