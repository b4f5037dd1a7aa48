"""Layers of flash-linear-attention as mixers, with the sizes that our mixers of the same name have by default and the
start that they get in the backbone zoology.

See tools/peers/README.md. SPDX-License-Identifier: Apache-2.0
"""

import functools
import importlib
import os

import fla.layers
import torch
import triton.testing
from fla.ops.common import chunk_o
from torch import nn

# flash-linear-attention refuses some backward passes on Hopper with Triton 3.4 to 3.7.0. With 0 they run: whether their
# gradients are right is then for `mixer check --dtype fp32 --device cuda` to say.
if os.environ.get("FLA_HOPPER_CHECK") == "0":
    chunk_o.TRITON_ABOVE_3_7_1 = True


def launch_once(call, quantiles=(), **_):
    call()
    return [0.0] * len(quantiles)


# How long Triton's tuner times each variant of a kernel, where it is asked to be short: its own eighth of a second is
# minutes for a layer that has a thousand of them. With 0 every variant is compiled and the first one chosen, for
# `peers.py warm`, which runs many layers at once and drops what is chosen there.
if (milliseconds := os.environ.get("PEERS_TUNING_MS")) is not None:
    of_triton = triton.testing.do_bench
    in_short = functools.partial(of_triton, warmup=int(milliseconds) / 4, rep=int(milliseconds))
    triton.testing.do_bench = in_short if int(milliseconds) else launch_once


def start_as_zoology(module, num_layers):
    """The start that zoology gives the layers it holds, and so the backbone zoology ours: linear weights N(0, 0.02^2),
    those that add to the residual stream divided by sqrt(2 num_layers), biases 0 but for those marked."""
    for name, linear in module.named_modules():
        if not isinstance(linear, nn.Linear):
            continue
        adds = name.rpartition(".")[2] in ("out_proj", "fc2")
        nn.init.normal_(linear.weight, std=0.02 / (2 * num_layers) ** 0.5 if adds else 0.02)
        if linear.bias is not None and not getattr(linear.bias, "_no_reinit", False):
            nn.init.zeros_(linear.bias)


def _find(layer):
    """fla.layers exports most."""
    module, _, name = layer.rpartition(".")
    return getattr(importlib.import_module(f"fla.layers.{module}") if module else fla.layers, name)


def _peer(layer, heads=2, computes_in=(torch.bfloat16, torch.float32), **sizes):
    """A class around fla.layers.`layer`; options of a suite replace the sizes given here."""

    class Peer(nn.Module):
        dtypes = computes_in

        def __init__(self, d_model, layer_idx, num_layers, max_seq_len, **options):
            super().__init__()
            sized = {name: value(d_model) if callable(value) else value for name, value in sizes.items()}
            arguments = {"hidden_size": d_model, "num_heads": heads, "layer_idx": layer_idx, **sized, **options}
            self.layer = _find(layer)(**{name: value for name, value in arguments.items() if value is not None})
            start_as_zoology(self.layer, num_layers)

        def forward(self, x):
            y = self.layer(x)
            return y[0] if isinstance(y, tuple) else y

    Peer.__name__ = Peer.__qualname__ = f"fla.{layer}"
    return Peer


def _head(d_model):
    return d_model // 2


_BF16 = (torch.bfloat16,)

Abc = _peer("ABCAttention", expand_k=0.5, expand_v=1.0, use_short_conv=False)
DeltaNet = _peer("DeltaNet", computes_in=_BF16, expand_k=1.0, expand_v=1.0)
Fox = _peer("ForgettingAttention")
GatedDeltaNet = _peer("GatedDeltaNet", head_dim=_head, expand_v=2, use_gate=False)
GatedDeltaProduct = _peer("GatedDeltaProduct", computes_in=_BF16, head_dim=_head, expand_v=2)
Gla = _peer("GatedLinearAttention", expand_k=0.5, expand_v=1.0)
Gsa = _peer("GatedSlotAttention", expand_k=1.0, expand_v=1.0)
Hgrn2 = _peer("HGRN2Attention", expand_ratio=_head)  # without lower bounds, which only their model hands to its layers
Kda = _peer("KimiDeltaAttention", head_dim=_head, expand_v=1.0)
LinearAttention = _peer("LinearAttention", feature_map="elu", expand_k=1, expand_v=1)
Mamba = _peer("Mamba", heads=None, intermediate_size=lambda d_model: 2 * d_model)
Mamba2 = _peer("Mamba2", heads=4, head_dim=_head, state_size=128, expand=2)
MesaNet = _peer("MesaNet", head_dim=_head)
RetNet = _peer("MultiScaleRetention", expand_k=1.0, expand_v=2.0)
SimpleGla = _peer("simple_gla.SimpleGatedLinearAttention", expand_k=1.0, expand_v=1.0)
