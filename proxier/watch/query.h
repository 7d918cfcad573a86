#pragma once

// Queries of URLs. Pure.

#include <string>
#include <string_view>

namespace ipvsproxier::watch {

// A value as it stands in a query: every byte that is not a letter, a digit or one of "-._~" as
// %XX.
std::string encode_query(std::string_view value);

}  // namespace ipvsproxier::watch
