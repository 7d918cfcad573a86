#pragma once

// The value of a Result that a test cannot do without; throws the error's words.

#include <stdexcept>
#include <utility>

#include "netlink/result.h"

namespace ipvsproxier::test {

template <typename T>
T require(netlink::Result<T> result) {
  if (!result) throw std::runtime_error(netlink::to_string(result.error()));
  return std::move(*result);
}

}  // namespace ipvsproxier::test
