#!/usr/bin/env python3
"""Whether layers of flash-linear-attention compute what our mixers do: same weights, outputs and all gradients.

    python3 tools/peers/parity.py --device cuda           # all pairs, by the kernels that Triton compiles
    python3 tools/peers/parity.py gla kda --tokens 70     # without a GPU by Triton's interpreter
    python3 tools/peers/parity.py --device cuda --dtype bf16    # by the kernels in which it trains

Each computes in fp32 or as it trains, and is compared with our reference in fp64 (`mixer run`). Prints a Markdown table of errors,
largest difference over largest value; ends with 1 when one exceeds its tolerance. tools/peers/README.md says what it needs.
SPDX-License-Identifier: Apache-2.0
"""

import argparse
import concurrent.futures
import importlib.util
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import peers

D_MODEL = 128
D_STATE = 128  # of Mamba-2
# Its keys are fp16, and 1e-5 is added to the denominators of its iterations, where ours adds nothing; on a GPU it makes 2.1e-2.
TOLERANCES = {"mesa_net": 3e-2}
TOLERANCE = 5e-5
BF16_TOLERANCE = 5e-2  # a few roundings to 8 digits, which gates and denominators magnify

CONVOLUTIONS = ["q_conv1d.weight", "k_conv1d.weight", "v_conv1d.weight"]
SPLITS = {  # of Mamba-2, theirs: z x B C dt, ours: C B x dt z
    "in_proj.weight": ([2 * D_MODEL, 2 * D_MODEL, D_STATE, D_STATE, -1], [3, 2, 1, 4, 0]),
    "conv1d.weight": ([2 * D_MODEL, D_STATE, D_STATE], [2, 1, 0]),
    "conv1d.bias": ([2 * D_MODEL, D_STATE, D_STATE], [2, 1, 0]),
}


def rows(*names):
    return [f"{name}_proj.weight" for name in names]


OUTPUT = {"o_norm.weight": ["o_norm.weight"], "o_proj.weight": ["o_proj.weight"]}
GATES = {"A_log": ["A_log"], "dt_bias": ["dt_bias"]}
# {our mixer: {our parameter: theirs, one below the other}}
PARAMETERS = {
    "abc": {**OUTPUT, "in_proj.weight": rows("q", "k", "v", "s", "g"), "o_norm.weight": ["g_norm.weight"]},
    "delta_net": {**OUTPUT, "in_proj.weight": rows("q", "k", "v", "b"), "conv.weight": CONVOLUTIONS},
    "fox": {
        "qkv_proj.weight": rows("q", "k", "v", "f"),
        "forget_bias": ["f_proj.bias"],
        "o_proj.weight": ["o_proj.weight"],
    },
    "gated_delta_net": {
        **OUTPUT,
        **GATES,
        "in_proj.weight": rows("q", "k", "v", "b", "a"),
        "conv.weight": CONVOLUTIONS,
    },
    "gated_delta_product": {
        **OUTPUT,
        **GATES,
        "in_proj.weight": rows("q", "k", "v", "b", "a", "g"),
        "conv.weight": CONVOLUTIONS,
    },
    "gla": {
        **OUTPUT,
        "in_proj.weight": [*rows("q", "k", "v"), "gk_proj.0.weight", "g_proj.weight"],
        "decay_proj.weight": ["gk_proj.1.weight"],
        "decay_proj.bias": ["gk_proj.1.bias"],
        "o_norm.weight": ["g_norm_swish_gate.weight"],
    },
    "gsa": {**OUTPUT, "in_proj.weight": rows("q", "k", "v", "f"), "o_norm.weight": ["g_norm.weight"]},
    "hgrn2": {**OUTPUT, "in_proj.weight": rows("q", "f", "i"), "o_norm.weight": ["g_norm.weight"]},
    "kda": {
        **OUTPUT,
        **GATES,
        "in_proj.weight": [*rows("q", "k", "v"), "f_proj.0.weight", "b_proj.weight", "g_proj.0.weight"],
        "conv.weight": CONVOLUTIONS,
        "decay_proj.weight": ["f_proj.1.weight"],
        "gate_proj.weight": ["g_proj.1.weight"],
        "gate_proj.bias": ["g_proj.1.bias"],
    },
    "linear_attention": {**OUTPUT, "in_proj.weight": rows("q", "k", "v"), "o_norm.weight": ["norm.weight"]},
    "mamba": {
        **{name: [name] for name in ("A_log", "D", "in_proj.weight", "x_proj.weight", "out_proj.weight")},
        **{name: [name] for name in ("dt_proj.weight", "dt_proj.bias")},
        "conv.weight": ["conv1d.weight"],
        "conv.bias": ["conv1d.bias"],
    },
    "mamba2": {
        **GATES,
        "D": ["D"],
        "in_proj.weight": ["in_proj.weight"],
        "conv.weight": ["conv1d.weight"],
        "conv.bias": ["conv1d.bias"],
        "o_norm.weight": ["norm.weight"],
        "o_proj.weight": ["out_proj.weight"],
    },
    "mesa_net": {
        **OUTPUT,
        "in_proj.weight": rows("q", "k", "v", "b", "a"),
        "gate_bias": ["b_proj.bias", "a_proj.bias"],
        "conv.weight": CONVOLUTIONS[:2],
        "ridge": ["lambda_params"],
    },
    "retnet": {**OUTPUT, "in_proj.weight": rows("q", "k", "v", "g"), "o_norm.weight": ["g_norm_swish_gate.weight"]},
    "simple_gla": {
        **OUTPUT,
        "in_proj.weight": rows("q", "k", "v", "gk", "g"),
        "decay_bias": ["gk_proj.bias"],
        "conv.weight": CONVOLUTIONS,
        "o_norm.weight": ["g_norm_swish_gate.weight"],
    },
}
# Triton's interpreter rounds states in bf16 wrongly, which are only read beyond the first chunk.
INTERPRETED_TOKENS = {"mesa_net": 64}


def use_copy(folder, interpreted):
    """Of flash-linear-attention, where every kernel takes fp32 and inverts in it, and none that is interpreted casts what is a
    Python integer."""
    source = importlib.util.find_spec("fla").submodule_search_locations[0]
    copy = pathlib.Path(shutil.copytree(source, os.path.join(folder, "fla"), ignore=shutil.ignore_patterns("*.pyc")))
    for file in copy.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        changed = text.replace("assert q.dtype != torch.float32,", "assert True,")
        changed = changed.replace("DOT_PRECISION = tl.constexpr('tf32')", "DOT_PRECISION = tl.constexpr('tf32x3')")
        if interpreted:
            changed = changed.replace(".to(tl.int64)", "")
        if changed != text:
            file.write_text(changed, encoding="utf-8")
    sys.path.insert(0, folder)


def keep_variants(number):
    """Of each kernel of Triton's, which has up to a thousand."""
    from triton.runtime import autotuner

    init = autotuner.Autotuner.__init__

    def with_few_variants(self, function, arguments, configs, *rest, **more):
        init(self, function, arguments, configs[:number], *rest, **more)

    autotuner.Autotuner.__init__ = with_few_variants


def draw(layer, generator):
    """Weights of a size at which gates are neither open nor shut."""
    import torch

    for name, parameter in layer.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        value = parameter.detach().cpu()
        if name == "A_log" and value.dim() == 1:
            value = (0.3 + 0.5 * torch.arange(value.numel())).log()
        elif name in ("A_log", "lambda_params"):
            value = value + 0.2 * noise
        elif name in ("dt_bias", "dt_proj.bias"):
            value = 0.5 * noise - 0.5
        elif name == "D" or value.dim() == 1 and name.endswith("weight"):
            value = 1 + 0.3 * noise
        elif value.dim() == 1 or "conv1d" in name:
            value = 0.5 * noise
        else:
            value = noise / value.shape[1] ** 0.5
        parameter.data.copy_(value)


def ours_of(mixer, ours, tensors):
    """Their tensors as our parameter has them."""
    import torch

    found = []
    for name in PARAMETERS[mixer][ours]:
        tensor = tensors[name].detach().cpu().double()
        if "conv1d.weight" in name:
            tensor = tensor.flatten(1)
        if name == "lambda_params":
            tensor = tensor.unflatten(0, (-1, D_MODEL // 2))
        if mixer == "mamba2" and name in SPLITS:
            sizes, order = SPLITS[name]
            sizes = [size if size >= 0 else len(tensor) - sum(sizes) + size for size in sizes]
            parts = tensor.split(sizes)
            tensor = torch.cat([parts[i] for i in order])
        found.append(tensor)
    return torch.cat(found)


def run_ours(mixer, options, tensors, *words):
    """{tensor: value} of our mixer with these inputs and weights: the output and all gradients."""
    from safetensors.torch import load_file, save_file

    with tempfile.TemporaryDirectory() as folder:
        given, returned = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
        command = [sys.executable, "-m", "mixerbench", "mixer", "run", mixer, "--set", f"d_model={D_MODEL}"]
        for name, value in options.items():
            command += ["--set", f"{name}={json.dumps(value)}"]
        save_file(tensors, given)
        subprocess.run([*command, "--in", given, "--out", returned, "--gradients", *words], check=True)
        return load_file(returned)


def run_theirs(mixer, layer, x, grad, device, dtype):
    """The same of theirs, by our names. In bf16 as a training step does it: weights fp32, x bf16, under autocast."""
    import torch

    x = x.to(device).requires_grad_()
    with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=dtype == "bf16"):
        y = layer(x)
    y.backward(grad.to(device, y.dtype))
    gradients = {name: weight.grad for name, weight in layer.layer.named_parameters()}
    return {"y": y.detach(), "grad.x": x.grad,
            **{f"grad.param.{name}": ours_of(mixer, name, gradients) for name in PARAMETERS[mixer]}}


def compare(mixer, options, peer, tokens, device, dtype):
    """{tensor: error} of theirs, and of ours; `options` are ours."""
    import torch

    generator = torch.Generator().manual_seed(1)
    theirs = peer(D_MODEL, layer_idx=0, num_layers=2, max_seq_len=tokens).to(device)
    draw(theirs.layer, generator)
    weights = dict(theirs.layer.named_parameters())
    unused = set(weights) - {name for names in PARAMETERS[mixer].values() for name in names}
    if unused:
        raise SystemExit(f"error: {mixer}: nothing of ours stands for {', '.join(sorted(unused))}")
    x, grad = (torch.randn(2, tokens, D_MODEL, generator=generator) for _ in range(2))
    # The first token reads one product of a query and a key, by which the norm of the output divides: where that is nearly
    # zero, rounding to bf16 decides what comes out.
    first = 0
    if dtype == "bf16":
        x, grad, first = x.bfloat16(), grad.bfloat16(), 1
        grad[:, :first] = 0
    given = {"x": x.double(), "grad.y": grad.double()}
    given.update({f"param.{name}": ours_of(mixer, name, weights) for name in PARAMETERS[mixer]})
    right = run_ours(mixer, options, given, "--dtype", "fp64", "--path", "reference")

    def error(found, name):
        there, here = found.cpu().double().reshape(right[name].shape), right[name]
        if name == "y":
            there, here = there[:, first:], here[:, first:]
        return ((there - here).abs().max() / here.abs().max()).item()

    names = ["y", "grad.x", *(f"grad.param.{name}" for name in PARAMETERS[mixer])]
    return [{name: error(found[name], name) for name in names}
            for found in (run_theirs(mixer, theirs, x, grad, device, dtype),
                          run_ours(mixer, options, given, "--dtype", dtype, "--device", device))]


def compare_pair(mixer, ours, theirs, options):
    """Prints the row of one layer; 1 when an error exceeds its tolerance."""
    import fla_layers

    peer = getattr(fla_layers, peers.class_of(theirs))
    tokens = options.tokens
    if options.device == "cpu":
        tokens = min(tokens, INTERPRETED_TOKENS.get(mixer, tokens))
    ours = {name: value for name, value in ours.items() if name != "name"}
    row, found = f"| {mixer} |", []
    for errors in compare(mixer, ours, peer, tokens, options.device, options.dtype):
        found += errors.values()
        y, x = errors.pop("y"), errors.pop("grad.x")
        worst = max(errors, key=lambda name: (math.isnan(errors[name]), errors[name]))
        row += f" {y:.1e} | {x:.1e} | {errors[worst]:.1e} (`{worst.removeprefix('grad.param.')}`) |"
    print(row)
    tolerance = BF16_TOLERANCE if options.dtype == "bf16" else TOLERANCES.get(mixer, TOLERANCE)
    if all(error <= tolerance for error in found):  # false of NaN
        return 0
    print(f"error: {mixer}: beyond {tolerance:g}", file=sys.stderr)
    return 1


def compare_each(mixers, options):
    """Prints the table of these, by the order in which they end, each in a process of its own: whatever happens to one,
    the others have rows, and kernels are compiled side by side. 1 when one of them fails."""
    words = ["--tokens", str(options.tokens), "--device", options.device, "--dtype", options.dtype]
    if options.variants:
        words += ["--variants", str(options.variants)]

    def ask(mixer):
        command = [sys.executable, os.path.abspath(__file__), *words, "--row", mixer]
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=False)

    columns = "output | gradient of x | of a parameter, the worst"
    print(f"| layer | theirs: {columns} | ours: {columns} |\n|{'---|' * 7}")
    failed = False
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as threads:
        asked = {threads.submit(ask, mixer): mixer for mixer in mixers}
        for answer in concurrent.futures.as_completed(asked):
            print(answer.result().stdout.rstrip() or f"| {asked[answer]} | failed |{' – |' * 5}", flush=True)
            failed |= answer.result().returncode != 0
    return int(failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("layers", nargs="*", metavar="LAYER", help="names of our mixers; all without one")
    parser.add_argument("--tokens", type=int, default=70)
    parser.add_argument("--device", default="cpu", help="cpu (Triton's interpreter, the default) or cuda")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32", help="that both compute in")
    parser.add_argument("--variants", type=int, help="of each kernel, the first ones (all; on the CPU one)")
    parser.add_argument("--row", action="store_true", help=argparse.SUPPRESS)  # of one layer, in this process
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="layers side by side (as many as cores)")
    options = parser.parse_args()
    if options.dtype == "bf16" and options.device == "cpu":
        parser.error("--dtype bf16 needs --device cuda: Triton's interpreter does not know it")
    pairs = peers.named(peers.read_suite(), options.layers)
    if not options.row:
        return compare_each(list(pairs), options)
    [(mixer, (ours, theirs))] = pairs.items()
    interpreted = options.device == "cpu"
    environment = dict(peers.BESIDE_OTHERS)  # what is chosen here is for no measurement
    if options.dtype == "fp32":  # in which products are tf32 otherwise; those of scalars take minutes to compile
        environment["TRITON_F32_DEFAULT"] = "ieee" if interpreted else "tf32x3"
    if interpreted:
        environment["TRITON_INTERPRET"] = "1"
    os.environ.update(environment)
    with tempfile.TemporaryDirectory() as folder:
        if options.dtype == "fp32":
            use_copy(folder, interpreted)
        if interpreted or options.variants:
            keep_variants(1 if interpreted else options.variants)  # Python has no times to choose by
        return compare_pair(mixer, ours, theirs, options)


if __name__ == "__main__":
    sys.exit(main())
