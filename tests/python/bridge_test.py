"""What Python answers, without the engine: this test declares its operator. SPDX-License-Identifier: Apache-2.0"""

import contextlib
import importlib.util
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
from concurrent.futures import ThreadPoolExecutor

import torch

_declared = torch.library.Library("mixerbench", "DEF")
_declared.define("python(str function, str text, Tensor[] tensors) -> (str, Tensor[])")

from mixerbench import bridge, failures, modules, settings, sources, trial  # noqa: E402

bridge.implement()
FOLDER = os.path.dirname(os.path.abspath(__file__))
WIDTH = 8


def ask(function, text, tensors=()):
    return torch.ops.mixerbench.python(function, text, list(tensors))


def spec_of(place, seed=5, double=False, **options):
    spec = {"module": os.path.join(FOLDER, place), "options": options, "d_model": WIDTH, "layer_idx": 1}
    return spec | {"num_layers": 2, "max_seq_len": 64, "seed": seed, "device": "cpu", "double": double}


class Layer:
    """What the engine does with one module."""

    def __init__(self, *place, **options):
        self.answer, values = ask("create", json.dumps(spec_of(*place, **options)))
        if self.answer[0] != "=":
            return
        self.facts = json.loads(self.answer[1:])
        self.key = self.facts["key"]
        self.parameters = [value.clone().requires_grad_() for value in values]
        ask("install", self.key, self.parameters)

    def initial_state(self, batch, mode="eval", seed=0):
        answer, tensors = ask("initial_state", f"{self.key} {mode} {seed} {batch}")
        return answer, tensors

    def forward(self, x, state=(), mode="eval", seed=0):
        answer, tensors = ask("forward", f"{self.key} {mode} {seed}", [x, *state])
        return (answer, *tensors)


class StandInForNumpy(types.ModuleType):
    """What is used of its global generator, where the Python of the tests has no NumPy."""

    def __init__(self):
        super().__init__("numpy")
        generator = random.Random(1)
        self.random = types.SimpleNamespace(
            get_state=generator.getstate, normal=generator.gauss, seed=self._seed, set_state=generator.setstate
        )
        self._generator = generator

    def _seed(self, seed):
        if not 0 <= seed < 2**32:
            raise ValueError("Seed must be between 0 and 2**32 - 1")
        self._generator.seed(seed)


def inputs(tokens=6, batch=2):
    return torch.randn(batch, tokens, WIDTH, generator=torch.Generator().manual_seed(1))


class ModulesTest(unittest.TestCase):
    def test_gradients_reach_the_tensors_of_the_engine(self):
        for name in ("Mean", "Lstm", "Decay"):
            layer, x = Layer(f"mixers.py:{name}"), inputs().requires_grad_()
            state = layer.initial_state(2)[1] if layer.facts["has_state"] else []
            _, y, *_ = layer.forward(x, state)
            y.square().sum().backward()
            for tensor in (x, *layer.parameters):
                self.assertGreater(tensor.grad.abs().sum(), 0, name)

    def test_a_change_of_the_tensors_is_a_change_of_the_module(self):
        layer, x = Layer("mixers.py:Lstm"), inputs()
        _, before = layer.forward(x)
        with torch.no_grad():
            for tensor in layer.parameters:
                tensor.zero_()
        self.assertFalse(before.equal(layer.forward(x)[1]))
        self.assertEqual(layer.forward(x)[1].abs().sum(), 0)

    def test_weights_are_those_of_the_seed_and_nothing_else_is_drawn(self):
        state = torch.get_rng_state()
        first, again, other = Layer("mixers.py:Mean"), Layer("mixers.py:Mean"), Layer("mixers.py:Mean", seed=6)
        self.assertTrue(first.parameters[0].equal(again.parameters[0]))
        self.assertFalse(first.parameters[0].equal(other.parameters[0]))
        self.assertTrue(Layer("mixers.py:Mean", double=True).parameters[0].equal(first.parameters[0].double()))
        self.assertTrue(state.equal(torch.get_rng_state()))

    def test_other_generators_are_seeded_and_left_too(self):
        state = random.getstate()
        first, again, other = (Layer("misbehaving.py:DrawnByPython", seed=seed) for seed in (5, 5, 6))
        self.assertTrue(first.parameters[0].equal(again.parameters[0]))
        self.assertNotEqual(first.parameters[0][0, 0], other.parameters[0][0, 0])
        self.assertEqual(state, random.getstate())

    def test_numpys_generator_is_seeded_and_left_too(self):
        numpy = settings.numpy or StandInForNumpy()
        modules_there = unittest.mock.patch.dict(sys.modules, {"numpy": numpy})
        with unittest.mock.patch.object(settings, "numpy", numpy), modules_there:
            state = repr(numpy.random.get_state())
            seeds = (5, 5, 6, 2**53 - 1)  # NumPy takes 32 bits of them
            drawn = [Layer("misbehaving.py:DrawnByNumpy", seed=seed).parameters[0] for seed in seeds]
            self.assertTrue(drawn[0].equal(drawn[1]))
            self.assertNotEqual(drawn[0][0, 0], drawn[2][0, 0])
            self.assertEqual(state, repr(numpy.random.get_state()))

    def test_what_an_import_sets_is_put_back(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "sets.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write("import os, random, torch\ntorch.set_default_dtype(torch.float64)\n")
                file.write("torch.manual_seed(7)\nrandom.seed(7)\nos.environ['OF_SETS'] = '1'\nclass A: pass\n")
            states = torch.get_rng_state(), random.getstate()
            modules.load_class(f"{path}:A")
        self.assertEqual(torch.get_default_dtype(), torch.float32)
        self.assertTrue(states[0].equal(torch.get_rng_state()))
        self.assertEqual(states[1], random.getstate())
        self.assertEqual(os.environ.pop("OF_SETS"), "1")
        self.assertEqual(settings.notes[-2:], [
            "sets.py changes torch's default dtype when it is imported; it is put back",
            "sets.py sets OF_SETS in the environment when it is imported",
        ])

    def test_an_import_that_handles_a_signal_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "handles.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write("import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\nclass A: pass\n")
            self.addCleanup(signal.signal, signal.SIGUSR1, signal.getsignal(signal.SIGUSR1))
            with self.assertRaisesRegex(RuntimeError, "handles SIGUSR1, which the program does itself"):
                modules.load_class(f"{path}:A")

    def test_what_a_weight_is_and_carries_stays(self):
        x = inputs()
        expected = Layer("mixers.py:Mean").forward(x)[1]
        for name, factor in {"TagsAWeight": 100, "TriplesAWeight": 3}.items():
            layer = Layer(f"misbehaving.py:{name}")
            y = layer.forward(x, mode="train")[1]
            self.assertTrue(y.allclose(expected * factor), name)
            y.sum().backward()
            self.assertTrue(all(tensor.grad is not None for tensor in layer.parameters))

    def test_names_and_decay(self):
        facts = Layer("mixers.py:Mean").facts
        self.assertEqual(facts["parameters"], [["value.weight", True], ["value.bias", True], ["out.weight", False]])

    def test_dropout_is_that_of_the_seed_and_of_training(self):
        layer, x = Layer("mixers.py:Dropped"), inputs()
        state = torch.get_rng_state()
        masks = [layer.forward(x, mode="train", seed=seed)[1] for seed in (1, 1, 2)]
        self.assertTrue(masks[0].equal(masks[1]))
        self.assertFalse(masks[0].equal(masks[2]))
        self.assertTrue(layer.forward(x)[1].equal(Layer("mixers.py:Mean").forward(x)[1]))
        self.assertTrue(state.equal(torch.get_rng_state()))

    def test_a_state_passes_through_the_engine(self):
        layer, x = Layer("mixers.py:Decay"), inputs()
        answer, state = layer.initial_state(2)
        self.assertEqual(json.loads(answer[1:]), [["seen", "position"], ["sum", "recurrent"]])
        _, whole, *_ = layer.forward(x, state)
        _, first, *state = layer.forward(x[:, :4], state)
        self.assertEqual(state[0].item(), 4)
        _, second, *state = layer.forward(x[:, 4:], state)
        torch.testing.assert_close(torch.cat([first, second], 1), whole)
        self.assertEqual(state[0].item(), 6)

    def test_losses_and_taps_come_behind_the_output(self):
        layer, x = Layer("mixers.py:Balanced"), inputs().requires_grad_()
        self.assertEqual((layer.facts["losses"], layer.facts["taps"]), ({"size": 0.01}, ["value"]))
        _, y, size, value = layer.forward(x)
        self.assertTrue(y.equal(Layer("mixers.py:Mean").forward(x)[1]))
        self.assertFalse(value.requires_grad)
        size.backward()
        torch.testing.assert_close(size, value.square().mean())
        self.assertGreater(x.grad.abs().sum(), 0)

    def test_a_step_is_taken_where_nothing_is_trained(self):
        layer, x = Layer("mixers.py:Stepped"), inputs(tokens=1)
        state = layer.initial_state(2)[1]
        with torch.no_grad():
            _, y, seen, total = layer.forward(x, state)
        torch.testing.assert_close(y, layer.forward(x, state)[1])
        self.assertEqual((seen.item(), total.shape), (1, (2, WIDTH)))

    def test_bf16_comes_back_as_it_came(self):
        layer, x = Layer("mixers.py:Mean"), inputs()
        y = layer.forward(x.bfloat16())[1]
        self.assertEqual(y.dtype, torch.bfloat16)
        torch.testing.assert_close(y.float(), layer.forward(x)[1], rtol=0.05, atol=0.05)
        self.assertEqual(Layer("mixers.py:Mean", double=True).forward(x.double())[1].dtype, torch.float64)

    def test_a_class_that_computes_in_some_dtypes_is_called_in_these(self):
        x = inputs()
        for double in (False, True):
            given = x.double() if double else x
            layer = Layer("mixers.py:InBf16", double=double)
            y = layer.forward(given)[1]
            self.assertEqual(y.dtype, given.dtype)
            torch.testing.assert_close(y.float(), Layer("mixers.py:Mean").forward(x)[1], rtol=0.05, atol=0.05)
            y.sum().backward()
            self.assertTrue(all(p.grad.dtype == p.dtype and p.grad.abs().sum() > 0 for p in layer.parameters))
        exact = Layer("mixers.py:InFp32", double=True)
        _, y, seen, total = exact.forward(x.double(), exact.initial_state(2)[1])
        layer = Layer("mixers.py:Decay")
        torch.testing.assert_close(y.float(), layer.forward(x, layer.initial_state(2)[1])[1])
        self.assertEqual((y.dtype, seen.item()), (torch.float64, x.shape[1]))
        self.assertIn("not some of torch.bfloat16", Layer("misbehaving.py:WrongDtypes").answer)

    def test_buffers_go_with_the_inputs(self):
        double, single = (Layer("misbehaving.py:ConstantInFp32", double=double) for double in (True, False))
        y = double.forward(inputs().double())[1]
        self.assertEqual(y.dtype, torch.float64)
        self.assertTrue(y.allclose(single.forward(inputs())[1].double(), atol=1e-5))

    def test_the_parts_of_a_state_have_names_and_no_order(self):
        layer = Layer("misbehaving.py:StateInAnotherOrder")
        state = layer.initial_state(2)[1]
        answer, y, *after = layer.forward(inputs(), state)
        self.assertEqual(answer, "=")
        self.assertTrue(after[0].equal(state[0]))  # "ones", "sum"
        self.assertTrue(after[1].equal(y[:, -1]))

    def test_threads_that_load_one_file_wait_for_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "slow.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write("import time\ntime.sleep(0.5)\nclass Late:\n    pass\n")
            with ThreadPoolExecutor(4) as pool:
                classes = list(pool.map(modules.load_class, [f"{path}:Late"] * 4))
        self.assertEqual(len(set(classes)), 1)

    def test_options_and_what_a_class_asks_for(self):
        plain, scaled = Layer("mixers.py:Mean"), Layer("mixers.py:Mean", scale=2.0)
        torch.testing.assert_close(scaled.forward(inputs())[1], 2 * plain.forward(inputs())[1])
        self.assertIn("unexpected keyword argument 'scal'", Layer("mixers.py:Mean", scal=2).answer)
        self.assertIn("'window'", Layer("misbehaving.py:NeedsAnOption").answer)
        called = "WithoutWidth is called as WithoutWidth(d_model, layer_idx=1): too many positional arguments"
        self.assertIn(called, Layer("misbehaving.py:WithoutWidth").answer)


class FailuresTest(unittest.TestCase):
    def expect(self, name, text, kind="!"):
        layer = Layer(f"misbehaving.py:{name}")
        answer = layer.answer
        if answer[0] == "=":
            state = []
            if layer.facts["has_state"]:
                answer, state = layer.initial_state(2)
            if answer[0] == "=":
                answer = layer.forward(inputs().requires_grad_() * 1, state, "train", 1)[0]
        self.assertEqual(answer[0], kind, answer)
        self.assertIn(text, answer)
        self.assertNotIn("\n", answer)

    def test_an_exception_names_its_places(self):
        self.expect("Raises", "ValueError: boom (misbehaving.py:17 in forward)")
        self.expect("RaisesWhenBuilt", "KeyError: 'no such width' (misbehaving.py:")
        self.expect("ImportsWhenBuilt", "ModuleNotFoundError: No module named 'no_such_package'")

    def test_nothing_ends_the_process(self):
        self.expect("Exits", "SystemExit: 3")
        self.expect("Interrupts", "KeyboardInterrupt")

    def test_a_class_that_ends_its_process_is_found_in_another(self):
        self.start_trials()
        facts, shapes = trial.build(spec_of("mixers.py:Mean"))
        self.assertEqual([name for name, _ in facts["parameters"]], ["value.weight", "value.bias", "out.weight"])
        self.assertEqual(shapes, [[WIDTH, WIDTH], [WIDTH], [WIDTH, WIDTH]])
        for name, fault in {
            "EndsWhenBuilt": "c.*EndsWhenBuilt: ends its process while it is imported or built, with exit code 0",
            "EndsInItsSecondLayer": "ends its process while it is imported or built, with exit code 0",
            "CrashesWhenBuilt": "imported or built, with signal 11 .Segmentation fault. .misbehaving.py:.* in __init__",
            "RaisesWhenBuilt": "!KeyError: 'no such width' .misbehaving.py:",
            "KeepsAList": "something else holds parameter value.weight",
            "KeepsAView": "another tensor shares the memory of parameter value.weight",
            "KeepsDetached": "another tensor shares the memory of parameter value.weight",
            "KeepsDetachedInAClosure": "another tensor shares the memory of parameter value.weight",
            "NormalisesByItself": "another tensor shares the memory of parameter value.weight_orig",
            "TiedByMemory": "parameters value.weight and out.weight share memory",
            "TiedTransposed": "parameters value.weight and out.weight share memory",
            "FrozenTwin": "parameters twin and value.weight share memory",
            "MadeOfAGlobal": "another tensor shares the memory of parameter scale",
            "SetsAVariable": "changes the environment variable CUDA_VISIBLE_DEVICES",
            "HandlesSignals": "handles SIGTERM, which the program does itself",
            "SeedsItself": "changes the seed of torch's generator",
        }.items():
            with self.assertRaisesRegex(failures.Failed, fault):
                trial.build(spec_of(f"misbehaving.py:{name}"))
        trial.build(spec_of("mixers.py:Mean") | {"layer_idx": 0})  # others go on

    def test_where_a_class_hangs_that_is_built_in_another_process(self):
        self.start_trials()
        for name in ("BlocksWhenBuilt", "BlocksInItsSecondLayer", "HoldsTheLockWhenBuilt"):
            fault = f"{name}: is not built within 2 s .misbehaving.py:[0-9]+ in __init__.$"
            with self.assertRaisesRegex(failures.Failed, fault) as failed:
                trial.build(spec_of(f"misbehaving.py:{name}"), seconds=2)
            self.assertIn('misbehaving.py", line ', failed.exception.text)
        with self.assertRaisesRegex(failures.Failed, "KeepsItsPlaceForItself: is not built within 1 s$"):
            trial.build(spec_of("misbehaving.py:KeepsItsPlaceForItself"), seconds=1)

    def test_a_file_that_cannot_be_imported_is_found_in_another_process(self):
        self.start_trials()
        for number, (source, fault) in enumerate({
            "import no_such_package": "^!ModuleNotFoundError: No module named 'no_such_package' .file0.py:1 in <module>",
            "import sys; sys.exit(0)": "^!SystemExit: 0 .file1.py:1 in <module>",
            "import os; os._exit(0)": "^c.*file2.py:A: ends its process while it is imported or built, with exit code 0$",
            "while True: pass": "^c.*file3.py:A: is not built within 2 s .file3.py:1 in <module>.$",
        }.items()):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, f"file{number}.py")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"{source}\nclass A: pass\n")
                with self.assertRaisesRegex(failures.Failed, fault):
                    trial.build(spec_of(f"{path}:A"), seconds=2)

    def test_a_class_of_a_seed_is_one(self):
        for name, what in {"DrawsAnew": "scales", "FreezesAWeightDrawnAnew": "frozen"}.items():
            with self.assertRaisesRegex(TypeError, f"{what} is another one each time"):
                trial._built(spec_of(f"misbehaving.py:{name}"))
        for name in ("DrawsAnAttributeAnew", "DrawsATensorAnew"):
            with self.assertRaisesRegex(TypeError, "the output is another one each time"):
                trial._built(spec_of(f"misbehaving.py:{name}"))
        for name in ("HasNoNumbers", "DrawnByPython", "Random", "Accumulates", "Raises", "ExitsAtOnce", "Sleeps"):
            self.assertTrue(trial._built(spec_of(f"misbehaving.py:{name}"))["shapes"])
        for place in ("mixers.py:Lstm", "mixers.py:Dropped", "mixers.py:Decay"):
            self.assertTrue(trial._built(spec_of(place))["shapes"])

    def test_a_plan_is_of_what_another_process_has_built(self):
        self.start_trials()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "planned.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write("from torch import nn\nclass A(nn.Linear):\n")
                file.write("  def __init__(self, d): super().__init__(d, d)\n")
            answer, values = ask("create", json.dumps(spec_of(f"{path}:A") | {"device": "meta"}))
        self.assertEqual(answer[0], "=", answer)
        self.assertEqual([list(value.shape) for value in values], [[WIDTH, WIDTH], [WIDTH]])
        self.assertFalse([name for name in sys.modules if "planned" in name])
        key = json.loads(answer[1:])["key"]
        self.assertEqual((ask("install", key, values)[0], ask("destroy", key)[0]), ("=", "="))

    def start_trials(self):
        def stop():
            trial._server.end()
            trial._server = None

        trial.start()
        self.addCleanup(stop)

    def test_a_copy_of_the_process_ends_where_the_module_does(self):
        layer, process = Layer("misbehaving.py:Forks"), os.getpid()
        layer.forward(inputs())
        if os.getpid() != process:
            os._exit(0)  # a copy that came back
        _, status = os.waitpid(-1, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 1)

    def test_wrong_outputs(self):
        self.expect("Narrow", "y is [2, 6, 7], not [2, 6, 8] as x")
        self.expect("Short", "y is [2, 5, 8]")
        self.expect("Nothing", "y is NoneType")
        self.expect("Pair", "y is tuple")
        self.expect("Whole", "y is torch.int64")
        self.expect("Detached", "y has no gradient")
        self.expect("Inference", "y has no gradient")
        self.expect("Sparse", "y is sparse or nested, not a dense tensor")
        self.expect("Elsewhere", "y is on meta, not on cpu as x")
        self.expect("Overwrites", "writes to its input")
        self.expect("Counts", "writes to its buffer calls")
        self.expect("ReplacesABuffer", "adds, replaces or deletes its buffer calls")
        self.expect("AddsABuffer", "adds, replaces or deletes its buffer first")

    def test_compilers_may_set_their_folders(self):
        with unittest.mock.patch.dict(os.environ):
            self.assertEqual(Layer("misbehaving.py:LoadsACompiler").answer[0], "=")

    def test_a_table_outside_of_the_state_dict_may_grow(self):
        layer = Layer("misbehaving.py:GrowsATable")
        for tokens in (3, 6):
            self.assertEqual(layer.forward(inputs(tokens))[0], "=")

    def test_wrong_states(self):
        self.expect("StateChanges", "not those of initial_state")
        self.expect("StateWithoutBatch", "its first axis must be the batch, 2")
        self.expect("StateOfText", "state a is str: a state is made of tensors and integers")
        self.expect("StateTurnsToText", "state state is str: a state is made of tensors and integers")
        self.expect("StateTurnsToANumber", "state state is int, not what it is in initial_state")
        self.expect("StateGrows", "state state is [2, 16], not [2, 8]: its size may not change")
        self.expect("KeepsEveryOtherToken", "state state is [2, 3, 8], not [2, 6, 8]: a cache grows by a row a token")
        self.expect("StateLosesBatch", "state state is [1, 8], not [2, 8]")
        self.expect("StateElsewhere", "state state is on meta, not on cpu")
        self.expect("WritesToState", "writes to its state")
        self.expect("StateOfTwins", "two parts of the state are called a.b")
        self.expect("StateForgotten", "must return (y, state)")

    def test_a_state_begins_under_the_rules_of_a_call(self):
        for name, text in {
            "StartsInDoubles": "changes torch's default dtype",
            "StartsWithASeed": "changes the seed of torch's generator",
            "StartsCounting": "writes to its buffer calls",
            "StartsByWriting": "writes to its parameter value.weight",
        }.items():
            answer, _ = Layer(f"misbehaving.py:{name}").initial_state(2)
            self.assertIn(text, answer)
        self.assertEqual(torch.get_default_dtype(), torch.float32)
        layer = Layer("misbehaving.py:StartsAnywhere")
        first, again, other = (layer.initial_state(2, "train", seed)[1][0] for seed in (1, 1, 2))
        self.assertTrue(first.equal(again))
        self.assertFalse(first.equal(other))

    def test_a_backward_pass_is_under_the_rules_of_a_call(self):
        noise, doubles = Layer("misbehaving.py:NoiseBackward"), Layer("misbehaving.py:DoublesBackward")
        state = torch.get_rng_state()
        first, again, other = (self.gradient(noise, seed)[0] for seed in (1, 1, 2))
        self.assertTrue(first.equal(again))
        self.assertFalse(first.equal(other))
        self.assertTrue(state.equal(torch.get_rng_state()))
        self.assertIn("changes torch's default dtype", self.gradient(doubles, 1)[1])
        self.assertEqual(self.gradient(noise, 1)[1], "=")

    def test_threads_draw_backward_from_seeds_of_their_own(self):
        noise = Layer("misbehaving.py:NoiseBackward")
        alone, _ = self.gradient(noise, 1)
        x = inputs().requires_grad_()
        y = noise.forward(x, mode="train", seed=1)[1]
        with ThreadPoolExecutor(1) as threads:
            other, _ = threads.submit(self.gradient, noise, 2).result()
        self.assertFalse(other.equal(alone))
        ask("begin_backward", "")
        y.sum().backward()
        self.assertEqual(ask("end_backward", "")[0], "=")
        self.assertTrue(x.grad.equal(alone))

    def gradient(self, layer, seed):
        x = inputs().requires_grad_()
        y = layer.forward(x, mode="train", seed=seed)[1]
        ask("begin_backward", "")
        y.sum().backward()
        return x.grad, ask("end_backward", "")[0]

    def test_wrong_losses(self):
        self.expect("LossForgotten", "must return (y, {name: value})")
        self.expect("LossMisnamed", "declares the losses and taps ['size'] and returns ['sizes']")
        self.expect("LossOfMany", "one value and no axis")
        self.expect("LossesInAList", "auxiliary_losses is ['size'], not a dict")
        self.expect("LossOfNaN", "not a dict of names and weights >= 0")
        self.expect("TapsInAWord", "taps is 'gate', not a list")
        self.expect("TapOfNothing", "the tap gate is NoneType, not a tensor")
        self.expect("TapOfComplexNumbers", "the tap gate is torch.complex64: give its real and imaginary part as two")

    def test_torch_stays_as_it_was(self):
        self.expect("LeavesNoGradient", "changes torch's gradient mode")
        self.expect("LeavesDoubles", "changes torch's default dtype")
        self.expect("LeavesAutocast", "changes torch's autocast on the CPU")
        self.assertFalse(torch.is_autocast_enabled("cpu"))
        self.expect("LeavesADevice", "changes torch's default device")
        self.expect("LeavesDeterminism", "changes torch's deterministic mode")
        self.expect("LeavesAnomalies", "changes torch's anomaly mode")
        self.expect("SeedsItself", "changes the seed of torch's generator")
        self.expect("SeedsACall", "changes the seed of torch's generator")
        self.expect("LeavesTf32", "changes torch's precision of float32 products")
        self.expect("SetsAVariable", "changes the environment variable CUDA_VISIBLE_DEVICES")
        self.assertNotIn("CUDA_VISIBLE_DEVICES", os.environ)
        self.assertFalse(torch.backends.cuda.matmul.allow_tf32)
        folder = os.getcwd()
        self.expect("LeavesTheFolder", "changes the current folder")
        self.expect("BuildsElsewhere", "changes the current folder")
        self.assertEqual(os.getcwd(), folder)
        self.assertEqual(torch.get_deterministic_debug_mode(), 0)
        self.assertEqual(torch.zeros(1).device.type, "cpu")
        self.assertTrue(torch.is_grad_enabled())
        self.assertEqual(torch.get_default_dtype(), torch.float32)

    def test_what_is_trained_stays_what_it_was(self):
        self.expect("AddsAWeight", "new parameter late.weight")
        self.expect("ReplacesAWeight", "replaces or deletes its parameter value.weight")
        self.expect("DeletesAWeight", "replaces or deletes its parameter value.weight")
        self.expect("WritesToAWeight", "writes to its parameter value.weight")
        self.expect("Freezes", "parameter value.weight while it runs, or freezes it")
        self.expect("RunsBackward", "adds to the gradient of its parameter value.weight while it runs: take torch.autograd")

    @unittest.mock.patch.dict(bridge._units, clear=True)  # of other tests
    def test_what_torch_has_counted_as_no_change_is_found_by_its_values(self):
        for name, what in {
            "NormalisesBatches": "buffer mean",
            "AveragesInData": "buffer ema",
            "AveragesInAFrozenWeight": "parameter ema",
            "CountsBackward": "buffer calls",
        }.items():
            layer = Layer(f"misbehaving.py:{name}")
            self.gradient(layer, 1)
            ask("remember_values", "")
            self.assertIn(f"writes to its {what} while it runs", ask("compare_values", "")[0])
            ask("destroy", layer.key)
        layer = Layer("misbehaving.py:ClampsAWeight")
        ask("remember_values", "")
        layer.forward(inputs())
        self.assertIn("writes to its parameter value.weight while it runs", ask("compare_values", "")[0])
        self.assertFalse(bridge._units[layer.key].remembered)
        ask("remember_values", "")
        layer.forward(inputs())  # has its values already
        self.assertEqual(ask("compare_values", "")[0], "=")
        ask("destroy", layer.key)

    @unittest.mock.patch.dict(bridge._units, clear=True)
    def test_values_stay_also_of_what_is_built_meanwhile_and_in_this_thread_alone(self):
        ask("remember_values", "")
        layer = Layer("misbehaving.py:ClampsAWeight")
        with ThreadPoolExecutor(1) as threads:
            other = threads.submit(Layer, "misbehaving.py:AveragesInData").result()
        other.forward(inputs())
        layer.forward(inputs())
        self.assertIn("writes to its parameter value.weight", ask("compare_values", "")[0])
        ask("remember_values", "")
        layer.forward(inputs())
        self.assertEqual(ask("compare_values", "")[0], "=")
        for one in (layer, other):
            ask("destroy", one.key)

    def test_what_is_used_is_what_is_trained(self):
        self.expect("HooksAWeight", "misbehaving.py:HooksAWeight: parameter value.weight has a hook")
        before = set(bridge._units)
        refusal = self.installed("misbehaving.py:KeepsAList")
        self.assertIn("misbehaving.py:KeepsAList: something else holds parameter value.weight", refusal)
        self.assertEqual(self.installed("mixers.py:Mean"), "=")
        self.assertEqual(set(bridge._units), before)  # of what could not be installed nothing is kept

    @unittest.skipUnless(importlib.util.find_spec("sympy"), "without it torch makes no parameter of such a class")
    def test_a_parameter_that_keeps_its_values_elsewhere_is_refused(self):
        self.expect("KeepsValuesElsewhere", "parameter elsewhere is a _Elsewhere, which keeps its values elsewhere")

    @unittest.skipIf(torch.cuda.is_available(), "there is nothing that stands in for a GPU")
    def test_what_stands_in_for_a_gpu_outlives_the_thread_that_compiled_first(self):
        lines = [
            "import sys, threading, torch",
            "from mixerbench import settings",
            "sys.modules['torch._dynamo'] = None",  # that something was compiled; loading it takes seconds
            "def compile():",
            "    settings.keep_stand_in_for_gpu()",
            "    torch._C._ensureCUDADeviceGuardSet()",  # as torch.compile does
            "for _ in range(2):",
            "    thread = threading.Thread(target=compile)",
            "    thread.start()",
            "    thread.join()",
        ]
        ended = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def installed(self, place):
        answer, values = ask("create", json.dumps(spec_of(place)))
        key = json.loads(answer[1:])["key"]
        installed = ask("install", key, [value.clone().requires_grad_() for value in values])[0]
        if installed == "=":
            ask("destroy", key)
        return installed

    def test_wrong_classes(self):
        self.expect("Lazy", "misbehaving.py:Lazy: parameter value.weight has no shape before the first call")
        self.expect("WithoutForward", "has no forward(self, x)")
        self.expect("WithoutInit", "has no __init__(self, d_model)")
        self.expect("ForgetsSuper", "cannot assign module before Module.__init__() call")
        self.expect("NotAModule", "no subclass of torch.nn.Module")
        self.expect("function", "there is no class function", kind="c")
        self.expect("InFp64Alone", "dtypes names torch.float64 alone")
        self.expect("Complex", "keep it as real numbers")
        self.expect("NeedsWidth", "width 8 is not for me")

    def test_what_cannot_be_said_is_said_otherwise(self):
        self.expect("SaysWhatCannotBeWritten", "ValueError: a name of a file: \\udce4 (misbehaving.py:")
        self.expect("SaysNothing", "_Unspeakable (misbehaving.py:")
        self.expect("SaysMuch", "ValueError: " + "x" * 500 + " ... (misbehaving.py:")
        self.expect("LoadsOtherWeights", 'for Linear: Missing key(s) in state_dict: "weight", "bias". (misbehaving.py:')

    def test_what_cannot_be_heard_is_answered_all_the_same(self):
        closed = open(os.devnull, "w", encoding="utf-8")
        closed.close()
        with unittest.mock.patch.object(sys, "stderr", closed):
            failures.say("to nobody\n")
            self.expect("Exits", "SystemExit: 3")

    def test_what_was_said_is_not_said_again(self):
        layer, unlike = Layer("misbehaving.py:Recites"), Layer("misbehaving.py:Narrow")
        with contextlib.redirect_stderr(io.StringIO()) as said:
            for tokens in (5, 6):
                self.assertIn(f"{tokens} tokens", layer.forward(inputs(tokens))[0])
                unlike.forward(inputs(tokens))
        self.assertEqual(said.getvalue().count("Traceback"), 2)
        self.assertIn("ValueError: 5 tokens are too many", said.getvalue())

    def test_lack_of_memory_is_told_apart(self):
        self.expect("Large", "allocate", kind="m")


class SourcesTest(unittest.TestCase):
    def setUp(self):
        self.folder = os.path.join(os.environ["TEST_TMPDIR"], self._testMethodName)
        os.makedirs(self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def describe(self, place="mine.py:A"):
        return sources.describe(os.path.join(self.folder, place))

    def refusal(self, place):
        with self.assertRaises(sources.ConfigProblem) as refused:
            sources.describe(place)
        return str(refused.exception)

    def test_the_file_and_what_lies_beside_it_count(self):
        self.write("mine.py", "import json, torch\nimport near\nfrom far.away import b\nclass A: pass\n")
        self.write("near.py", "c = 1\n")
        self.write("far/away.py", "b = 1\n")
        self.write("other.py", "class A: pass\n")
        first = self.describe()
        self.assertRegex(first, r"^sha256:[0-9a-f]{64} torch 2\.11\.0$")
        self.write("other.py", "changed = 1\n")
        self.assertEqual(self.describe(), first)
        for name in ("near.py", "far/away.py"):
            before = self.describe()
            self.write(name, "b = c = 2\n")
            self.assertNotEqual(self.describe(), before)

    def test_packages_beside_the_file_count_with_all_that_runs_of_them(self):
        self.write("mine.py", "from ops import core\nimport more.deep.part\nfrom loose import leaf as l\nclass A: pass\n")
        counted = ["ops/__init__.py", "ops/core.py", "ops/near.py", "util.py", "more/__init__.py", "more/deep/__init__.py"]
        counted += ["more/deep/part.py", "loose/leaf.py"]
        for name in counted:
            self.write(name, "K = 1\n")
        self.write("ops/core.py", "from . import near\nimport util\n")  # the latter from where Python is started
        self.write("ops/unused.py", "K = 1\n")
        first = self.describe()
        self.assertRegex(first, r"^sha256:[0-9a-f]{64}$")
        self.write("ops/unused.py", "K = 2\n")
        self.assertEqual(self.describe(), first)
        for name in counted:
            before = self.describe()
            with open(os.path.join(self.folder, name), "a", encoding="utf-8") as file:
                file.write("L = 2\n")
            self.assertNotEqual(self.describe(), before, name)

    def test_code_is_described_alike_whatever_is_loaded(self):
        self.write("loaded/mine.py", "import torch\nimport bare_folder\nclass A(torch.nn.Module): pass\n")
        self.write("loaded/bare_folder/leaf.py", "K = 1\n")
        self.write("other/mine.py", "import bare_folder\nclass A: pass\n")
        places = ("loaded/mine.py:A", "other/mine.py:A")
        before = [self.describe(place) for place in places]
        with unittest.mock.patch.object(sys, "path", [*sys.path]):
            modules.load_class(os.path.join(self.folder, places[0]))
            self.assertEqual([self.describe(place) for place in places], before)

    def test_what_functions_import_does_not(self):
        self.write("mine.py", "try:\n  import absent\nexcept ImportError: pass\nclass A:\n  def f(self): import near\n")
        self.write("near.py", "c = 1\n")
        self.assertTrue(self.describe().endswith(" absent missing"))
        first = self.describe()
        self.write("near.py", "c = 2\n")
        self.assertEqual(self.describe(), first)

    def test_no_other_file_answers_for_one_beside_it(self):
        for folder, value in (("a", 1), ("b", 100)):
            self.write(f"{folder}/mine.py", "import torch, helper_of_two\nclass A(torch.nn.Module): k = helper_of_two.K\n")
            self.write(f"{folder}/helper_of_two.py", f"K = {value}\n")
        self.assertEqual(modules.load_class(os.path.join(self.folder, "a/mine.py:A")).k, 1)
        with self.assertRaisesRegex(sources.ConfigProblem, "imports helper_of_two, which stands beside it, but .*/a/"):
            modules.load_class(os.path.join(self.folder, "b/mine.py:A"))

    def test_paths_that_look_alike_are_two_files(self):
        self.write("c/d/e.py", "import torch\nclass A(torch.nn.Module): k = 5\n")
        self.write("c/d_e.py", "import torch\nclass A(torch.nn.Module): k = 6\n")
        found = [modules.load_class(os.path.join(self.folder, f"{name}.py:A")).k for name in ("c/d/e", "c/d_e")]
        self.assertEqual(found, [5, 6])

    def test_a_package(self):
        self.assertTrue(sources.describe("torch.nn:Linear").endswith("torch 2.11.0"))
        self.assertIn("there is no module", self.refusal("torch.nn.linears:Linear"))
        self.assertIn("No module named", self.refusal("no_such_package.a:B"))

    def test_a_class_of_a_package_may_import_relatively(self):
        for name in ("__init__", "inner/__init__", "near"):
            self.write(f"own_package/{name}.py", "K = 7\n")
        self.write("own_package/inner/mixer.py", "import torch\nfrom ..near import K\nclass A(torch.nn.Module): k = K\n")
        with unittest.mock.patch.object(sys, "path", [self.folder, *sys.path]):
            first = sources.describe("own_package.inner.mixer:A")
            self.assertEqual(modules.load_class("own_package.inner.mixer:A").k, 7)
            self.write("own_package/near.py", "K = 8\n")
            self.assertNotEqual(sources.describe("own_package.inner.mixer:A"), first)

    def test_absolute_imports_of_a_package_are_looked_up_above_it(self):
        for name in ("__init__", "util", "inner/__init__"):
            self.write(f"whole_package/{name}.py", "K = 7\n")
        self.write("whole_package/inner/util_of_none.py", "K = 8\n")  # which Python does not find
        self.write("loose_util.py", "K = 9\n")
        text = "import torch\nfrom whole_package.util import K\nimport loose_util\n"
        self.write("whole_package/inner/mixer.py", text + "try: import util_of_none\nexcept ImportError: pass\nclass A: pass\n")
        with unittest.mock.patch.object(sys, "path", [self.folder, *sys.path]):
            place = "whole_package.inner.mixer:A"
            self.assertRegex(sources.describe(place), "^sha256:.* torch 2.11.0, util_of_none missing$")
            modules.load_class(place)
            self.write("whole_package/inner/util_of_none.py", "K = 9\n")
            for name in ("util", "__init__", "inner/__init__"):
                before = sources.describe(place)
                self.write(f"whole_package/{name}.py", "K = 10\n")
                self.assertNotEqual(sources.describe(place), before, name)

    def test_a_package_of_several_distributions_counts_with_all(self):
        path = self.write("mine.py", "import shared_name\nclass A: pass\n")
        found = {"shared_name": ["shared-b", "shared-a", "shared-b"]}
        with (
            unittest.mock.patch.object(sources, "_distributions", lambda: found),
            unittest.mock.patch.object(sources.importlib.metadata, "version", {"shared-a": "1", "shared-b": "2"}.get),
        ):
            self.assertTrue(sources.describe(f"{path}:A").endswith(" shared_name shared-a 1/shared-b 2"))

    def test_a_file_does_not_answer_for_a_package_of_its_name(self):
        self.write("elsewhere/wrapped_one/__init__.py", "K = 1\n")
        text = "import torch\nfrom wrapped_one import K\nclass A(torch.nn.Module): k = K\n"
        place = self.write("file/wrapped_one.py", text) + ":A"
        with unittest.mock.patch.object(sys, "path", [os.path.join(self.folder, "elsewhere"), *sys.path]):
            first = sources.describe(place)
            self.assertEqual(modules.load_class(place).k, 1)
            self.write("elsewhere/wrapped_one/__init__.py", "K = 2\n")
            self.assertNotEqual(sources.describe(place), first)

    def test_what_is_loaded_and_does_not_count_is_refused(self):
        self.write("library/from_library.py", "K = 1\n")
        self.write("found/on_path/__init__.py", "import torch, on_path.part\n")
        self.write("found/on_path/part.py", "K = 1\n")
        self.write("found/imports_another/__init__.py", "import never_named\n")
        self.write("found/never_named.py", "K = 1\n")
        self.write("by_name.py", "K = 1\n")
        changes = f"import sys\nsys.path.insert(0, {os.path.join(self.folder, 'library')!r})\n"
        refused = {
            changes + "import from_library": ("library/from_library.py", "from_library"),
            "import imports_another": ("found/never_named.py", "never_named"),
            "__import__('by_name')": ("by_name.py", "by_name"),
        }
        with unittest.mock.patch.object(sys, "path", [os.path.join(self.folder, "found"), *sys.path]):
            for number, (text, (file, name)) in enumerate(refused.items()):
                path = self.write(f"mine{number}.py", f"{text}\nclass A: pass\n")
                file = os.path.join(self.folder, file)
                text = f"^{path} loads {file}, which does not count as its code: import {name}"
                with self.assertRaisesRegex(sources.ConfigProblem, text):
                    modules.load_class(f"{path}:A")
            path = self.write("fine.py", "import json, torch.nn.functional, on_path\nclass A(torch.nn.Module): pass\n")
            self.assertTrue(modules.load_class(f"{path}:A"))

    def test_the_package_counts_with_what_calls_a_class(self):
        package = os.path.dirname(os.path.abspath(sources.__file__))
        for name in os.listdir(package):
            if name.endswith(".py"):
                with open(os.path.join(package, name), encoding="utf-8") as file:
                    self.write(f"copy/{name}", file.read())
        spec = importlib.util.spec_from_file_location("copied_sources", os.path.join(self.folder, "copy/sources.py"))
        copied = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(copied)
        self.assertEqual(copied.describe_package(), sources.describe_package())
        self.assertEqual(ask("describe_package", "")[0], "=" + sources.describe_package())

        def changed(name):
            with open(os.path.join(self.folder, "copy", name), "a", encoding="utf-8") as file:
                file.write("\nchanged = 1\n")
            before = copied.describe_package()
            copied.describe_package.cache_clear()
            return copied.describe_package() != before

        for name in ("bridge.py", "modules.py", "settings.py"):
            self.assertTrue(changed(name), name)
        self.assertFalse(changed("api.py"))  # starts processes, and runs in none with a class

    def test_what_is_not_there(self):
        path = self.write("mine.py", "class Mixer: pass\n")
        self.assertIn("did you mean 'Mixer'?", self.refusal(f"{path}:Mixr"))
        self.assertIn("there is no file", self.refusal("absent.py:Mixer"))
        self.assertIn("expected FILE.py:Class", self.refusal("mine"))
        self.assertIn(f"name one of its classes, such as {path}:Mixer (Mixer)", self.refusal(path))
        self.assertIn("a class at the top level", self.refusal(f"{path}:Mixer.Inner"))
        broken = self.write("broken.py", "class Mixer:\n  def (:\n")
        self.assertIn("broken.py:2: ", self.refusal(f"{broken}:Mixer"))


if __name__ == "__main__":
    sys.stderr = open(os.path.join(os.environ["TEST_TMPDIR"], "tracebacks"), "w", encoding="utf-8")
    unittest.main(testRunner=unittest.TextTestRunner(stream=sys.__stderr__))
