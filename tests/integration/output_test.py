"""What cannot be written is said, with exit code 8, and nothing that is no file is replaced.

SPDX-License-Identifier: Apache-2.0
"""

import os
import resource
import stat
import subprocess
import unittest

from program import PROGRAM, ProgramTest, tiny_suite


class StandardOutputTest(ProgramTest):
    def start(self, arguments, **options):
        return subprocess.run(
            [PROGRAM, *arguments],
            cwd=self.folder.name,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            **options,
        )

    def commands(self):
        suite = tiny_suite()
        del suite["throughput"]
        suite["seeds"] = {"count": 1}
        suite["train"]["num_epochs"] = 1
        self.write("suite.json", suite)
        self.expect(0, "run", "suite.json", "--device", "cpu", "-o", "out")
        return (
            ["--help"],
            ["--version"],
            ["version"],
            ["list", "tasks"],
            ["list", "mixers"],
            ["describe", "task", "mqar"],
            ["describe", "mixer", "gla", "--json"],
            ["schema", "report"],
            ["verify", "mqar/tiny", "--count", "10"],
            ["generate", "mqar/tiny", "--count", "3"],
            ["generate", "mqar/tiny", "--count", "100000"],  # stops at the first failure
            ["status", "out"],
            ["doctor", "--device", "cpu", "-o", "out"],
            ["repro", "out", "mqar/attention seed 0", "-q"],
            ["completion", "zsh"],
            ["report", "out"],
            ["report", "out", "--format", "html"],
            ["validate", "suite.json"],
            ["validate", "out/report.json"],
            ["slurm", "suite.json", "-o", "out", "--tasks", "2"],
            ["run", "suite.json", "--device", "cpu", "-o", "out", "-n"],
        )

    def test_full_device(self):
        for arguments in self.commands():
            with open("/dev/full", "w", encoding="utf-8") as full:
                result = self.start(arguments, stdout=full)
            self.assertEqual(result.returncode, 8, arguments)
            self.assertEqual(
                result.stderr,
                "error: standard output: cannot write: No space left on device\n",
                arguments,
            )

    def test_closed(self):
        result = self.start(["list", "tasks"], preexec_fn=lambda: os.close(1))
        self.assertEqual(result.returncode, 8)
        self.assertIn("standard output: cannot write", result.stderr)

    def test_file_never_takes_the_number_of_closed_output(self):
        self.start(["generate", "mqar/tiny", "-o", "data.jsonl"], preexec_fn=lambda: os.close(1))
        self.expect(0, "verify", "data.jsonl")

    def test_reader_that_leaves_is_no_error(self):
        process = subprocess.Popen(
            [PROGRAM, "generate", "mqar/tiny", "--count", "10000"],
            cwd=self.folder.name,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        process.stdout.readline()
        process.stdout.close()
        message = process.stderr.read()
        process.stderr.close()
        self.assertEqual((process.wait(), message), (0, b""))

    def test_reader_that_leaves_the_engine_is_no_error(self):
        process = subprocess.Popen(
            [PROGRAM, "list", "cores", "--json"],
            cwd=self.folder.name,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        process.stdout.close()  # before anything was written
        message = process.stderr.read()
        process.stderr.close()
        self.assertEqual((process.wait(), message), (0, b""))


class OutputFileTest(ProgramTest):
    def make_special(self):
        """Names that a rename would replace, by what must stay of them."""
        os.mkfifo(self.path("pipe.jsonl"))
        os.symlink("pipe.jsonl", self.path("link.jsonl"))
        os.mkdir(self.path("folder.jsonl"))
        kinds = {"pipe.jsonl": stat.S_ISFIFO, "link.jsonl": stat.S_ISLNK, "folder.jsonl": stat.S_ISDIR}
        try:
            os.mknod(self.path("null.jsonl"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
            kinds["null.jsonl"] = stat.S_ISCHR
        except PermissionError:  # only root may
            pass
        return kinds

    def test_what_is_no_file_is_refused_and_stays(self):
        kinds = self.make_special()
        for name, is_kind in kinds.items():
            for command in (
                ["generate", "mqar/tiny", "-o", name],
                ["export", "niah", "--set", "input_seq_len=512", "-o", name],
            ):
                result = self.expect(8, *command)
                self.assertIn("give the name of a file", result.stderr)
                self.assertEqual(result.stderr.count("error: "), 1)  # a haystack may warn before
                self.assertTrue(is_kind(os.lstat(self.path(name)).st_mode), name)
        self.assertEqual(sorted(os.listdir(self.folder.name)), sorted(kinds), "something was left")

    def test_special_file_among_several_is_refused_before_any_is_written(self):
        os.mkfifo(self.path("data-00001-of-00002.jsonl"))
        self.expect(8, "generate", "mqar/tiny", "--count", "4", "--shards", "2", "-o", "data.jsonl")
        self.assertEqual(os.listdir(self.folder.name), ["data-00001-of-00002.jsonl"])

    def test_link_is_written_through(self):
        os.mkdir(self.path("elsewhere"))
        os.symlink("elsewhere/data.jsonl", self.path("link.jsonl"))
        self.expect(0, "generate", "mqar/tiny", "--count", "4", "-o", "link.jsonl")
        self.assertTrue(os.path.islink(self.path("link.jsonl")))
        self.assertTrue(os.path.isfile(self.path("elsewhere/data.jsonl")))
        self.expect(0, "verify", "link.jsonl")

    def test_run_folder_that_is_none(self):
        self.write("suite.json", tiny_suite())
        os.mkfifo(self.path("pipe"))
        self.expect(8, "run", "suite.json", "--device", "cpu", "-o", "pipe")
        self.assertTrue(stat.S_ISFIFO(os.lstat(self.path("pipe")).st_mode))

    def test_size_limit_of_the_process(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        result = subprocess.run(
            [PROGRAM, "generate", "mqar/tiny", "--count", "100", "-o", "data.jsonl"],
            cwd=self.folder.name,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=limit,
        )
        self.assertEqual(result.returncode, 8, result.stderr)
        self.assertIn("data.jsonl: cannot write: File too large", result.stderr)
        self.assertEqual(os.listdir(self.folder.name), [])


if __name__ == "__main__":
    unittest.main()
