// Which runs belong to the folder of a collection.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mixerbench::harness {

// In the folder of a collection: the collection, as given.
inline constexpr char kCollectionFile[] = "collection.json";

bool IsCollection(const std::filesystem::path& out);

// The names of the collection's suites, which are those of their folders, in its order. Throws
// Error(kBadInput) for a file that is damaged or none of a collection.
std::vector<std::string> SuiteNamesOf(const std::filesystem::path& out);

}  // namespace mixerbench::harness
