#pragma once

// What a server adds to an object that it is given. Pure but for the time of day of its creation.

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "netlink/result.h"
#include "test/support/api_server/store.h"

namespace ipvsproxier::test {

using OrderedJson = nlohmann::ordered_json;

// `before`: the stored object that this one replaces, or null. Its uid, creation time and, if not
// `changed`, generation stay.
netlink::Result<StoredObject> dress(const OrderedJson& object, Resource resource,
                                    const StoredObject* before, std::uint64_t version,
                                    std::uint64_t uid_number, bool changed);

}  // namespace ipvsproxier::test
