// The form of a hand-written JSON value, said once: what reads it checks it, and `schema` prints
// it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"

namespace mixerbench::io {

struct Form {
  Value schema;  // JSON Schema, draft 7
  // Of a value and its JSON pointer. Throws ConfigError for the first that is not as it should be.
  std::function<void(const Value&, const std::string&)> check;
};

struct Member {
  std::string name;
  Form form;
  std::string help = {};
  bool is_required = false;
};

// Whatever its owner reads there.
Form AnyForm();
Form TextForm();
Form ObjectForm();
Form IntegerForm(std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max());
// Texts; `kind` is what a message calls them: "phase".
Form OneOfForm(std::string kind, std::vector<std::string> names);
// At least one item; `expected` is the message for what is no such list: "a list of lengths".
Form ListForm(Form item, std::string expected);
// The same, where no item stands twice.
Form DistinctListForm(Form item, std::string expected);
// An object with these members and no others.
Form ClosedForm(std::vector<Member> members);

}  // namespace mixerbench::io
