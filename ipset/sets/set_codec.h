#pragma once

// Decodes listings of IP sets over nfnetlink. Pure; any thread.
//
//   nlmsghdr | nfgenmsg (4) | PROTOCOL SETNAME TYPENAME FAMILY REVISION DATA{...} ADT{...}
//            |              |          `- in the first message of a set only -'
//                             DATA: HASHSIZE MAXELEM, or PORT PORT_TO (bitmap:port), and options
//                             ADT:  DATA{IP{IPADDR_IPV4} PORT PROTO IP2{...} CIDR2} DATA{...} ...
//
// Integers are in network order. A set that does not fit into one message goes on in the next, with
// its name and ADT only. Sources: <linux/netfilter/ipset/ip_set.h>, ip_set_dump_do() in
// net/netfilter/ipset/ip_set_core.c (Linux 6.1), the *_list functions of the set types.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ipset/sets/set_table.h"
#include "ipset/sets/set_types.h"
#include "netlink/nl_codec.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

// What a listing says of a set before its elements.
struct SetHeader {
  std::string name;
  std::string type;  // "hash:ip,port"; may be a type that we do not use
  std::uint8_t revision = 0;
  std::optional<Family> family;  // nullopt if the type has no family
  std::uint32_t hash_size = 0;   // 0 if the type has no hash size
  std::uint32_t max_elements = 0;
  std::vector<std::string> options;  // options that our sets do not have: "timeout", "range 0-99"

  friend bool operator==(const SetHeader&, const SetHeader&) = default;
};

// The kind with this type name; nullopt for a type that we do not use.
std::optional<SetKind> kind_of_type(std::string_view type);

// Why the kernel's set differs from `wanted`: "family inet, wanted inet6"; "" if it matches. The
// hash size may differ, because the kernel increases it.
std::string difference(const SetHeader& actual, const SetSpec& wanted);

// Whether the kernel can swap the two in one step (ip_set_swap(), ip_set_core.c).
bool may_swap(const SetHeader& actual, const SetSpec& wanted);

enum class ListDepth : std::uint8_t { header, elements };

// A dump request for one set. The kernel answers ENOENT if there is none of this name.
netlink::Bytes list_request(std::string_view name, ListDepth depth);

// An element of a hash:net set. Of all elements that contain an address, the longest decides.
struct NetMember {
  IpPrefix net;
  bool excepted = false;  // "nomatch": the prefix is an exception

  friend auto operator<=>(const NetMember&, const NetMember&) = default;
};
inline constexpr std::string_view kNetType = "hash:net";

// Collects the messages of one dump of one set.
class SetListing {
 public:
  // Reads the payload (after nlmsghdr) of one message. `malformed` if it cannot belong to this
  // dump. Elements marked `nomatch` are skipped, except in a hash:net.
  Status add(netlink::ByteView payload);

  // From the first message; nullopt before it.
  const std::optional<SetHeader>& header() const { return header_; }

  // The elements read since the last call, in the kernel's order. Errors as for take().
  Result<ListedSet> take_part();

  // The whole set with sorted elements and without duplicates (a resize during the dump may list an
  // element twice). `malformed` without a header, `unsupported` for a kind that we do not use. A
  // bitmap:port gets the defaults of SetSpec for values that it does not have.
  Result<ListedSet> take() &&;

  // The elements of a hash:net, a type that our sets do not use; `unsupported` for other types.
  Result<std::vector<NetMember>> take_nets() &&;

 private:
  Status add_header(const netlink::AttrReader& message);
  Status add_elements(netlink::ByteView elements);
  Status add_net(const netlink::AttrReader& element);

  std::optional<SetHeader> header_;
  std::optional<SetKind> kind_;
  std::vector<Element> elements_;
  std::vector<NetMember> nets_;
};

}  // namespace ipvsproxier::ipset
