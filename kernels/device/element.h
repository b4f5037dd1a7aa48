// What a raw pointer of the device functions points to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace mixerbench::kernels {

enum class Element { kFloat, kBFloat16 };

// A row-major matrix whose rows may stand further apart than they are long, in elements.
struct Rows {
  void* data = nullptr;  // nullptr: absent
  Element element = Element::kFloat;
  long long stride = 0;
};

struct ConstRows {
  const void* data = nullptr;
  Element element = Element::kFloat;
  long long stride = 0;
};

}  // namespace mixerbench::kernels
