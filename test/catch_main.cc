// The one Catch main: every test executable links it. Prints the seed that random tests use.

#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
