// `version`: this program, the forms that it writes, and what it is made of.
// SPDX-License-Identifier: Apache-2.0
#include "base/version.h"

#include <iostream>
#include <string>
#include <vector>

#include "gate/render/comparison_json.h"
#include "harness/cli/build_flags.h"
#include "harness/cli/commands.h"
#include "io/dataset_manifest.h"
#include "io/json.h"
#include "reports/leaderboard/leaderboard.h"
#include "reports/result/result_json.h"
#include "reports/score/score.h"

namespace mixerbench::harness {
namespace {

struct Library {
  const char* name;
  const char* licence;  // SPDX
  // What its shared objects begin with; none of what is compiled in.
  std::vector<std::string> files;
};

// What the front program, the engine and a build with CUDA consist of beside this project.
// tests/integration/program_page_test.py holds the shared objects of the build against it.
const std::vector<Library>& Libraries() {
  static const std::vector<Library> libraries = {
      {"Boost", "BSL-1.0", {}},
      {"CLI11", "BSD-3-Clause", {}},
      {"CUDA runtime", "LicenseRef-NVIDIA-End-User-License-Agreement", {"libcudart", "libcupti"}},
      {"GCC runtime",
       "GPL-3.0-or-later WITH GCC-exception-3.1",
       {"libgcc_s", "libgomp", "libstdc++"}},
      {"GNU C library",
       "LGPL-2.1-or-later",
       {"ld-linux", "libc.", "libdl.", "libm.", "libpthread.", "librt.", "libutil."}},
      {"JSON for Modern C++", "MIT", {}},
      {"OpenSSL", "Apache-2.0", {"libcrypto"}},
      {"PyTorch", "BSD-3-Clause", {"libc10", "libtorch"}},
      {"Range-v3", "BSL-1.0", {}},
      {"SentencePiece", "Apache-2.0", {"libsentencepiece"}},
      {"Valijson", "BSD-2-Clause", {}},
      {"Zstandard", "BSD-3-Clause", {"libzstd"}},
      {"{fmt}", "MIT", {"libfmt"}},
  };
  return libraries;
}

Value LibrariesToValue() {
  Array all;
  for (const Library& library : Libraries()) {
    Array files;
    for (const std::string& file : library.files) files.emplace_back(file);
    all.emplace_back(
        Object{{"name", library.name}, {"licence", library.licence}, {"files", std::move(files)}});
  }
  return all;
}

Value SchemaVersions() {
  const std::string_view result = reports::kSchemaVersion;
  return Object{{"cell", result},
                {"comparison", gate::kComparisonVersion},
                {"dataset", io::kManifestVersion},
                {"leaderboard", reports::kLeaderboardVersion},
                {"report", result},
                {"score", reports::kScoreVersion}};
}

}  // namespace

ExitCode PrintVersion(bool json) {
  if (!json) {
    std::cout << "mixerbench " << kVersion << "\n";
    return ExitCode::kOk;
  }
  Value version = ToolVersion();
  version.as_object().merge(Object{{"build_flags", cli::BuildFlags()},
                                   {"libraries", LibrariesToValue()},
                                   {"licence", "Apache-2.0"},
                                   {"schema_versions", SchemaVersions()}});
  std::cout << io::DumpJson(version, 2);
  return ExitCode::kOk;
}

}  // namespace mixerbench::harness
