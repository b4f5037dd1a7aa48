// SPDX-License-Identifier: Apache-2.0
#include "harness/python/watch.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

const std::vector<std::string> kHidden = {"/lib/mixerbench/", "/lib/torch/", "<string>"};

// As Python 3.11 writes it, and 3.14, which names threads.
constexpr char kDump[] = R"(Thread 0x00007efcb6e0d6c0 [idle] (most recent call first):
  File "/home/me/pool.py", line 982 in wait

Thread 0x00007efcb6e0d6c1 (most recent call first):
  File "/lib/torch/nn/functional.py", line 7 in softmax
  File "/home/me/mine.py", line 30 in <lambda>
  File "/home/me/other.py", line 12 in helper
  File "/home/me/mine.py", line 14 in forward
  File "/home/me/mine.py", line 1 in outer
  File "/lib/mixerbench/bridge.py", line 30 in _dispatch

Current thread 0x00007efcb7c53c40 (most recent call first):
  File "/lib/mixerbench/host.py", line 5 in main
  File "<string>", line 1 in <module>
)";

TEST_CASE("places: the innermost of a user, in the thread that the engine calls") {
  CHECK(PlacesIn(kDump, kHidden) ==
        "mine.py:14 in forward; other.py:12 in helper; mine.py:30 in <lambda>");
}

TEST_CASE("places: any thread's where the engine has called none, such as a backward pass") {
  const std::string dump = R"(Current thread 0x1 (most recent call first):
  <no Python frame>

Thread 0x2 (most recent call first):
  File "mine.py", line 3 in hook
)";
  CHECK(PlacesIn(dump, kHidden) == "mine.py:3 in hook");
}

TEST_CASE("places: tracebacks of exceptions are no places where code stands") {
  CHECK(PlacesIn("", kHidden).empty());
  CHECK(PlacesIn("Traceback (most recent call last):\n  File \"mine.py\", line 3, in forward\n",
                 kHidden)
            .empty());
  const std::string dump = kDump;
  CHECK(PlacesIn(dump + "Traceback (most recent call last):\n  File \"b.py\", line 3, in f\n", {})
            .find("b.py") == std::string::npos);
  CHECK(PlacesIn("  File \"mine.py\", line 3 in a thread of nobody\n", kHidden).empty());
  CHECK(PlacesInFile("no such file").empty());
}

}  // namespace
}  // namespace mixerbench::harness
