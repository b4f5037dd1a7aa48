// Catch2, whichever version is installed. Include it last: c10 also defines CHECK.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
