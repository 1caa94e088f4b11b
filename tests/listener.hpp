// What Catch2 tells of a run, in version 2 or 3. Included in place of catch.hpp, or before it.
#pragma once

#define CATCH_CONFIG_EXTERNAL_INTERFACES  // version 2 shows its listeners only then
#include "catch.hpp"

namespace dlprim::test {

#if __has_include(<catch2/catch_all.hpp>)
using ListenerBase = Catch::EventListenerBase;
using ListenerResult = void;
#else
using ListenerBase = Catch::TestEventListenerBase;
using ListenerResult = bool;
#endif

}  // namespace dlprim::test
