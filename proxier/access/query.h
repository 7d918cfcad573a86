#pragma once

// Encoding of URL queries. Pure.

#include <string>
#include <string_view>

namespace ipvsproxier::access {

// Encodes a value: every byte except letters, digits and "-._~" becomes %XX.
std::string encode_query(std::string_view value);

}  // namespace ipvsproxier::access
