#pragma once

// Traffic of Services as each packet filter keeps it: elements of its sets, which the fixed rules
// look up, and entries with rules of their own (rules/rule_catalog.h). Pure; any thread.

#include <utility>
#include <vector>

#include "ipset/filter/traffic.h"
#include "ipset/rules/packet_filter.h"
#include "ipset/rules/rule_catalog.h"
#include "ipset/sets/set_catalog.h"
#include "ipset/sets/set_types.h"

namespace ipvsproxier::ipset {

using SetElement = std::pair<SetId, Element>;

struct Rendered {
  std::vector<SetElement> elements;
  std::vector<OutFilterEntry> out_filter;
};

// Appends what the packet filter has for the value.
void render(PacketFilter filter, const netlink::VirtualServiceKey& key, const VipTraffic& traffic,
            Rendered& rendered);
void render(PacketFilter filter, const SharedTraffic& traffic, Rendered& rendered);

}  // namespace ipvsproxier::ipset
