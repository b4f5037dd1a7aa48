// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/command_line.h"
#include "harness/cli/exec_engine.h"

int main(int argc, char** argv) {
  return mixerbench::harness::Main(argc, argv, mixerbench::harness::ExecEngine(argv));
}
