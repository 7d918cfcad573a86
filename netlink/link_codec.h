#pragma once

// rtnetlink links and addresses: requests out of values, values out of replies. Pure, any thread.
//
//   nlmsghdr | ifinfomsg  | IFNAME, TXQLEN, LINKINFO { INFO_KIND "dummy" }
//   nlmsghdr | ifaddrmsg  | LOCAL, ADDRESS
//
// On a point-to-point address IFA_ADDRESS is the peer and IFA_LOCAL ours, so LOCAL is preferred;
// IPv6 sends LOCAL only then. Sources: net/core/rtnetlink.c, net/ipv4/devinet.c,
// net/ipv6/addrconf.c (6.1).

#include <cstdint>
#include <string>
#include <string_view>

#include "netlink/link_records.h"
#include "netlink/link_table.h"
#include "netlink/nl_codec.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

Bytes encode_get_link(std::string_view name);
Bytes encode_new_dummy(std::string_view name);
Bytes encode_delete_link(std::int32_t index);
Bytes encode_address_op(std::int32_t link_index, const AddressOp& op);
Bytes encode_list_links();      // a dump
Bytes encode_list_addresses();  // a dump

// `payload` starts with the family header. `malformed` for bytes that break the policy,
// `unsupported` for an address of another family than IPv4 and IPv6.
Result<LinkRecord> decode_link(ByteView payload);
Result<AddressRecord> decode_address(ByteView payload);

}  // namespace ipvsproxier::netlink
