// The engine as a program of its own.
// SPDX-License-Identifier: Apache-2.0
#include "harness/engine.h"

int main(int argc, char** argv) {
  return mixerbench::harness::EngineMain(argc, argv, {"/proc/self/exe"});
}
