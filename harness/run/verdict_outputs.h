// Outputs beside the answer of a command that yields verdicts: files for CI and for people.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/run/options.h"
#include "reports/summary/sweep_report.h"

namespace mixerbench::harness {

// The file of a job summary: the one given, else that of $GITHUB_STEP_SUMMARY. Throws ConfigError
// when there is neither.
std::string JobSummaryFile(const std::string& given);

// The folder in which a file lies or would lie, with links followed.
std::filesystem::path FolderOf(const std::filesystem::path& file);

// Refuses an output that would lie in a run folder, `out` or one that is there: its own files would
// be lost, and for others the folder would be refused. Not its pages report.html and report.md, nor
// a log in it. Throws ConfigError that names the option. Nothing for "".
void RequireNotInTheWay(const std::string& option, const std::string& file,
                        const std::filesystem::path& out = {});

// The same of all that a command with verdicts was asked for.
void RequireNotInTheWay(const VerdictOutputs& outputs, const std::filesystem::path& out = {});

// Refuses a file that could not be written or would lie in a run folder, before anything is worked
// out for it: throws ConfigError that names the option. Nothing for "". A folder counts as there
// when making `out` makes it.
void RequireWritable(const std::string& option, const std::string& file,
                     const std::filesystem::path& out = {});

// The same of all that a command with verdicts was asked for.
void RequireWritable(const VerdictOutputs& outputs, const std::filesystem::path& out = {});

// Writes the file and says on stderr where it is; nothing for "".
void WriteOutput(const std::string& file, const std::string& text);

// Job summaries are appended to: other steps of the job write there too. Throws Error(kOutput).
void AppendJobSummary(const std::string& file, const std::string& text);

// What was asked for, of the reports of a command that ends with `code`: JUnit and the summary of
// their cells and of the suites whose folders are `not_begun` (RunsBelow), as HTML and as JSON on
// stdout what they say together.
void WriteVerdicts(const VerdictOutputs& outputs, std::vector<reports::SweepReport> reports,
                   std::span<const std::string> not_begun, ExitCode code);

// The same of all runs in the folder of a collection: where it states a score, HTML and JSON are
// the score's, and nothing when it holds no run yet.
void WriteCollectionVerdicts(const VerdictOutputs& outputs, const std::filesystem::path& out,
                             ExitCode code);

}  // namespace mixerbench::harness
