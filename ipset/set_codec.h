#pragma once

// Listings of IP sets: nfnetlink bytes <-> values. Pure; any thread.
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

#include "ipset/set_table.h"
#include "ipset/set_types.h"
#include "netlink/nl_codec.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

// What the kernel says of a set before its elements.
struct SetHeader {
  std::string name;
  std::string type;  // "hash:ip,port", also of kinds that are not ours
  std::uint8_t revision = 0;
  std::optional<Family> family;  // nullopt where the type has none
  std::uint32_t hash_size = 0;   // 0 where the type has none
  std::uint32_t max_elements = 0;
  std::vector<std::string> options;  // what our sets do not have: "timeout", "range 0-99"

  friend bool operator==(const SetHeader&, const SetHeader&) = default;
};

// The kind of this type name; nullopt for one that is not ours.
std::optional<SetKind> kind_of_type(std::string_view type);

// Why the kernel's set is not the one that is wanted: "family inet, wanted inet6"; "" if it is.
// The hash size may differ: the kernel's grows.
std::string difference(const SetHeader& actual, const SetSpec& wanted);

// Whether the kernel can swap the two in one step (ip_set_swap(), ip_set_core.c).
bool may_swap(const SetHeader& actual, const SetSpec& wanted);

enum class ListDepth : std::uint8_t { header, elements };

// A dump request for one set. The kernel answers ENOENT if there is none of this name.
netlink::Bytes list_request(std::string_view name, ListDepth depth);

// An element of a set of others: of all that hold an address the longest decides.
struct NetMember {
  IpPrefix net;
  bool excepted = false;  // "nomatch"

  friend auto operator<=>(const NetMember&, const NetMember&) = default;
};
inline constexpr std::string_view kNetType = "hash:net";

// Collects the messages of one dump of one set.
class SetListing {
 public:
  // Takes the payload of one message, after nlmsghdr. `malformed` if it cannot be one of this dump.
  // Elements marked `nomatch` are passed over: they are exceptions, which our sets do not have.
  Status add(netlink::ByteView payload);

  // Of the first message; nullopt before it.
  const std::optional<SetHeader>& header() const { return header_; }

  // What came since this was called last, its elements as they came. Errors as take().
  Result<ListedSet> take_part();

  // The whole set, its elements sorted, once each (a resize during the dump may show one twice).
  // `malformed` without a header, `unsupported` for a kind that is not ours. A bitmap:port has the
  // defaults of SetSpec where the kernel has no value.
  Result<ListedSet> take() &&;

  // The elements of a hash:net, which is not ours; `unsupported` for other kinds.
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
