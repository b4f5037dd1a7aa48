"""What `doctor` finds out is what is so.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import re
import resource
import shutil
import subprocess
import unittest

from program import PROGRAM, ProgramTest


class DoctorTest(ProgramTest):
    def home(self):
        """An environment in which all is well."""
        return {"LC_ALL": "C.UTF-8", "HOME": self.folder.name, "TMPDIR": self.folder.name}

    def doctor(self, code, *arguments, program=PROGRAM, **options):
        """{check: (verdict, text)}"""
        environment = {**os.environ, **self.home(), **options.pop("environment", {})}
        result = subprocess.run(
            [program, "doctor", "--json", *arguments],
            cwd=self.folder.name,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            **options,
        )
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        answer = json.loads(result.stdout)
        self.assertEqual(answer["fit"], code == 0)
        return {check["check"]: (check["verdict"], check["text"]) for check in answer["checks"]}

    def test_every_check_has_a_line(self):
        checks = self.doctor(0, "--device", "cpu")
        for name in ("build", "processor", "memory", "open files", "output folder", "temporary files", "cache", "cuda"):
            self.assertIn(checks[name][0], ("ok", "warn"))
            self.assertTrue(checks[name][1])
        self.assertEqual(checks["locale"], ("ok", "C.UTF-8, numbers keep their point"))
        self.assertRegex(checks["libtorch"][1], r"^\d+\.\d+.* computes on the CPU and repeats its bits")
        self.assertEqual(checks["device"], ("ok", "'cpu' is cpu"))
        self.assertRegex(checks["processor"][1], f"^{len(os.sched_getaffinity(0))} cores")
        text = self.run_program("doctor", "--device", "cpu", environment=self.home())
        self.assertEqual(text.returncode, 0, text.stdout)
        lines = text.stdout.splitlines()
        self.assertEqual(len(lines), len(checks) + 1)
        for line in lines[:-1]:
            self.assertTrue(re.match(r"(ok|warn|fail)  ", line), line)
        self.assertRegex(lines[-1], r"^\d+ ok, \d+ to look at, 0 failed$")
        self.assertEqual(os.listdir(self.folder.name), [], "something was left")

    def test_locales(self):
        def locale(name):
            return self.doctor(0, "--device", "cpu", environment={"LC_ALL": name})["locale"]

        self.assertEqual(locale("xx_XX.nonsense"), ("warn", "LANG or LC_ALL name one that is not installed"))
        self.assertEqual(locale("C")[0], "warn")

    def test_folders(self):
        verdict, text = self.doctor(7, "--device", "cpu", "--out", "/proc/nowhere/out")["output folder"]
        self.assertEqual(verdict, "fail")
        self.assertIn("/proc", text)
        home = {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": ""}
        self.assertEqual(self.doctor(0, "--device", "cpu", environment=home)["cache"][0], "warn")
        self.write("file", "")
        self.assertEqual(self.doctor(7, "--device", "cpu", "--out", "file")["output folder"][0], "fail")
        self.assertIn(self.folder.name, self.doctor(0, "--out", "a/b/c", "--device", "cpu")["output folder"][1])

    def test_few_open_files(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))

        checks = self.doctor(0, "--device", "cpu", preexec_fn=limit)
        self.assertEqual(checks["open files"], ("warn", "at most 200 at once; raise it with ulimit -n 4096"))

    def test_device_that_is_not_there(self):
        verdict, text = self.doctor(7, "--device", "cuda:99")["device"]
        self.assertEqual(verdict, "fail")
        self.assertTrue(text)

    def test_waiting_for_a_gpu(self):
        """Without a GPU there is nothing to wait for: unfit, at once, and the rest is looked at too."""
        checks = self.doctor(7, "--device", "cpu", "--wait-idle", "600")
        self.assertEqual(checks["idle"], ("fail", "'cpu' is cpu: there is no GPU to wait for"))
        self.assertEqual([name for name, check in checks.items() if check[0] == "fail"], ["idle"])
        verdict, text = self.doctor(7, "--device", "cuda:9", "--wait-idle", "0.5")["idle"]
        self.assertEqual(verdict, "fail")
        self.assertIn("--device cuda:9", text)
        self.assertEqual(self.run_program("doctor", "--wait-idle", "-1").returncode, 2)

    def test_engine_that_does_not_start(self):
        os.mkdir(self.path("bin"))
        alone = self.path("bin/mixerbench")
        shutil.copy(os.path.realpath(PROGRAM), alone)
        verdict, text = self.doctor(7, program=alone)["engine"]
        self.assertEqual(verdict, "fail")
        self.assertIn("mixerbench-engine: No such file", text)
        self.write("bin/mixerbench-engine", "#!/bin/sh\nexit 127\n")
        os.chmod(self.path("bin/mixerbench-engine"), 0o755)
        verdict, text = self.doctor(7, program=alone)["engine"]
        self.assertEqual(verdict, "fail")
        self.assertIn("does not run", text)


if __name__ == "__main__":
    unittest.main()
