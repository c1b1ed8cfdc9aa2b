// Catch2 for all tests. Versions 2 and 3 have other headers and some other names; tests use those
// of version 3.
//
// A file with a main of its own defines CATCH_CONFIG_RUNNER before it includes this one.
#pragma once

#if !__has_include(<catch2/catch_all.hpp>)
#include <catch2/catch.hpp>
#elif defined CATCH_CONFIG_RUNNER
#include <catch2/catch_all.hpp>
#else  // what tests use, which compiles faster than all of it
#include <catch2/catch_approx.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_adapters.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#endif

namespace ladder {

#if __has_include(<catch2/catch_all.hpp>)
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
inline auto ContainsSubstring(const std::string& text) { return Catch::Matchers::Contains(text); }
#endif
using Catch::Matchers::EndsWith;
using Catch::Matchers::Equals;
using Catch::Matchers::Matches;
using Catch::Matchers::StartsWith;

}  // namespace ladder
