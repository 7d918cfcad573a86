#include "ipset/sets/set_codec.h"

#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

// Must come after <netinet/in.h>: these headers would define its names again.
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ipvsproxier::ipset {
namespace {

using netlink::AttrKind;
using netlink::AttrReader;
using netlink::AttrRule;
using netlink::ByteView;
using netlink::Error;
using netlink::ErrorKind;

// IPSET_ATTR_BITMASK, since Linux 6.3.
constexpr std::uint16_t kBitmaskAttribute = 12;

constexpr std::array kMessagePolicy = {
    AttrRule{IPSET_ATTR_PROTOCOL, AttrKind::u8},
    AttrRule{IPSET_ATTR_SETNAME, AttrKind::string, 0, IPSET_MAXNAMELEN - 1},
    AttrRule{IPSET_ATTR_TYPENAME, AttrKind::string, 0, IPSET_MAXNAMELEN - 1},
    AttrRule{IPSET_ATTR_REVISION, AttrKind::u8},
    AttrRule{IPSET_ATTR_FAMILY, AttrKind::u8},
    AttrRule{IPSET_ATTR_DATA, AttrKind::nested},
    AttrRule{IPSET_ATTR_ADT, AttrKind::nested},
};

constexpr std::array kHeaderPolicy = {
    AttrRule{IPSET_ATTR_HASHSIZE, AttrKind::u32}, AttrRule{IPSET_ATTR_MAXELEM, AttrKind::u32},
    AttrRule{IPSET_ATTR_TIMEOUT, AttrKind::u32},  AttrRule{IPSET_ATTR_CADT_FLAGS, AttrKind::u32},
    AttrRule{IPSET_ATTR_NETMASK, AttrKind::u8},   AttrRule{kBitmaskAttribute, AttrKind::nested},
};

// Only bitmap:port uses the attribute PORT here.
constexpr std::array kRangePolicy = {
    AttrRule{IPSET_ATTR_PORT, AttrKind::u16},
    AttrRule{IPSET_ATTR_PORT_TO, AttrKind::u16},
};

constexpr std::array kElementPolicy = {
    AttrRule{IPSET_ATTR_IP, AttrKind::nested}, AttrRule{IPSET_ATTR_PORT, AttrKind::u16},
    AttrRule{IPSET_ATTR_PROTO, AttrKind::u8},  AttrRule{IPSET_ATTR_IP2, AttrKind::nested},
    AttrRule{IPSET_ATTR_CIDR2, AttrKind::u8},  AttrRule{IPSET_ATTR_CADT_FLAGS, AttrKind::u32},
    AttrRule{IPSET_ATTR_CIDR, AttrKind::u8},
};

constexpr std::array kAddressPolicy = {
    AttrRule{IPSET_ATTR_IPADDR_IPV4, AttrKind::bytes, 4, 4},
    AttrRule{IPSET_ATTR_IPADDR_IPV6, AttrKind::bytes, 16, 16},
};

struct Option {
  std::uint32_t flag;
  std::string_view name;
};

constexpr std::array kOptions = {
    Option{IPSET_FLAG_WITH_COUNTERS, "counters"},
    Option{IPSET_FLAG_WITH_COMMENT, "comment"},
    Option{IPSET_FLAG_WITH_FORCEADD, "forceadd"},
    Option{IPSET_FLAG_WITH_SKBINFO, "skbinfo"},
};

Error bad_listing(std::string where) {
  return netlink::malformed("set listing: " + std::move(where));
}

std::string_view family_word(std::optional<Family> family) {
  if (!family) return "none";
  return *family == Family::ipv4 ? "inet" : "inet6";
}

std::optional<IpAddress> address_of(const AttrReader& element, std::uint16_t type) {
  const auto nest = element.nested(type);
  if (!nest) return std::nullopt;
  const auto inside = AttrReader::parse(*nest, kAddressPolicy);
  if (!inside) return std::nullopt;
  if (const auto bytes = inside->bytes(IPSET_ATTR_IPADDR_IPV4))
    return IpAddress::from_bytes(Family::ipv4, *bytes);
  if (const auto bytes = inside->bytes(IPSET_ATTR_IPADDR_IPV6))
    return IpAddress::from_bytes(Family::ipv6, *bytes);
  return std::nullopt;
}

// nullopt if a part is missing.
std::optional<Element> element_of(SetKind kind, const AttrReader& reader) {
  const auto port = reader.be16(IPSET_ATTR_PORT);
  if (kind == SetKind::bitmap_port) {
    if (!port) return std::nullopt;
    return PortElement{*port};
  }
  const auto ip = address_of(reader, IPSET_ATTR_IP);
  if (!ip) return std::nullopt;
  if (kind == SetKind::hash_ip) return IpElement{*ip};
  const auto number = reader.u8(IPSET_ATTR_PROTO);
  if (!port || !number) return std::nullopt;
  // Other programs' elements may have a protocol without a name in Protocol; its number is kept.
  const auto protocol = static_cast<Protocol>(*number);
  if (kind == SetKind::hash_ip_port) return IpPortElement{*ip, protocol, *port};
  const auto ip2 = address_of(reader, IPSET_ATTR_IP2);
  if (!ip2) return std::nullopt;
  if (kind == SetKind::hash_ip_port_ip) return IpPortIpElement{*ip, protocol, *port, *ip2};
  const std::uint8_t full = netlink::address_bits(ip2->family());
  const std::uint8_t length = reader.u8(IPSET_ATTR_CIDR2).value_or(full);
  if (length > full) return std::nullopt;
  return IpPortNetElement{*ip, protocol, *port, IpPrefix::of(*ip2, length)};
}

std::vector<std::string> options_of(const AttrReader& data) {
  std::vector<std::string> options;
  if (data.has(IPSET_ATTR_TIMEOUT)) options.emplace_back("timeout");
  if (data.has(IPSET_ATTR_NETMASK)) options.emplace_back("netmask");
  if (data.has(kBitmaskAttribute)) options.emplace_back("bitmask");
  const std::uint32_t flags = data.be32(IPSET_ATTR_CADT_FLAGS).value_or(0);
  for (const Option& option : kOptions) {
    if (flags & option.flag) options.emplace_back(option.name);
  }
  return options;
}

}  // namespace

std::optional<SetKind> kind_of_type(std::string_view type) {
  for (const SetKind kind : {SetKind::hash_ip, SetKind::hash_ip_port, SetKind::hash_ip_port_ip,
                             SetKind::hash_ip_port_net, SetKind::bitmap_port}) {
    if (to_string(kind) == type) return kind;
  }
  return std::nullopt;
}

std::string difference(const SetHeader& actual, const SetSpec& wanted) {
  if (actual.type != to_string(wanted.kind))
    return fmt::format("type {}, wanted {}", actual.type, to_string(wanted.kind));
  std::vector<std::string> parts;
  if (wanted.kind != SetKind::bitmap_port) {
    if (actual.family != wanted.family)
      parts.push_back(fmt::format("family {}, wanted {}", family_word(actual.family),
                                  family_word(wanted.family)));
    if (actual.max_elements != wanted.max_elements)
      parts.push_back(
          fmt::format("maxelem {}, wanted {}", actual.max_elements, wanted.max_elements));
  }
  for (const std::string& option : actual.options) parts.push_back(option + ", wanted none");
  return fmt::format("{}", fmt::join(parts, "; "));
}

bool may_swap(const SetHeader& actual, const SetSpec& wanted) {
  return actual.type == to_string(wanted.kind) &&
         (wanted.kind == SetKind::bitmap_port || actual.family == wanted.family);
}

netlink::Bytes list_request(std::string_view name, ListDepth depth) {
  const nfgenmsg header{AF_INET, NFNETLINK_V0, 0};
  netlink::MessageWriter writer((NFNL_SUBSYS_IPSET << 8) | IPSET_CMD_LIST, NLM_F_DUMP,
                                netlink::bytes_of(header));
  // Every kernel since 2.6.39 knows the lowest version, and lists the same with it.
  writer.put_u8(IPSET_ATTR_PROTOCOL, IPSET_PROTOCOL_MIN);
  writer.put_string(IPSET_ATTR_SETNAME, name);
  if (depth == ListDepth::header)
    writer.put_be32(IPSET_ATTR_FLAGS | NLA_F_NET_BYTEORDER, IPSET_FLAG_LIST_HEADER);
  return std::move(writer).take();
}

Status SetListing::add(ByteView payload) {
  if (payload.size() < sizeof(nfgenmsg)) return bad_listing("a message is too short");
  auto message = AttrReader::parse(payload.subspan(sizeof(nfgenmsg)), kMessagePolicy);
  if (!message) return message.error();
  const auto name = message->string(IPSET_ATTR_SETNAME);
  if (!name) return bad_listing("a message names no set");
  if (header_ && *name != header_->name)
    return bad_listing(fmt::format("{} inside of {}", *name, header_->name));
  if (!header_) {
    if (Status status = add_header(*message); !status) return status;
  }
  const auto elements = message->nested(IPSET_ATTR_ADT);
  if (!elements || (!kind_ && header_->type != kNetType)) return {};
  return add_elements(*elements);
}

Status SetListing::add_header(const AttrReader& message) {
  const auto type = message.string(IPSET_ATTR_TYPENAME);
  const auto family = message.u8(IPSET_ATTR_FAMILY);
  const auto nest = message.nested(IPSET_ATTR_DATA);
  if (!type || !family || !nest) return bad_listing("the first message has no header");
  SetHeader header{.name = std::string(*message.string(IPSET_ATTR_SETNAME)),
                   .type = std::string(*type),
                   .revision = message.u8(IPSET_ATTR_REVISION).value_or(0)};
  if (*family == AF_INET) header.family = Family::ipv4;
  if (*family == AF_INET6) header.family = Family::ipv6;
  auto data = AttrReader::parse(*nest, kHeaderPolicy);
  if (!data) return data.error();
  header.hash_size = data->be32(IPSET_ATTR_HASHSIZE).value_or(0);
  header.max_elements = data->be32(IPSET_ATTR_MAXELEM).value_or(0);
  header.options = options_of(*data);
  kind_ = kind_of_type(header.type);
  if (kind_ == SetKind::bitmap_port) {
    auto range = AttrReader::parse(*nest, kRangePolicy);
    if (!range) return range.error();
    const std::uint16_t from = range->be16(IPSET_ATTR_PORT).value_or(0);
    const std::uint16_t to = range->be16(IPSET_ATTR_PORT_TO).value_or(0);
    if (from != 0 || to != 65535) header.options.push_back(fmt::format("range {}-{}", from, to));
  }
  header_ = std::move(header);
  return {};
}

Status SetListing::add_elements(ByteView elements) {
  while (!elements.empty()) {
    std::uint16_t type = 0;
    const auto value = netlink::take_attribute(elements, type);
    if (!value) return bad_listing("an element is cut short");
    if (type != IPSET_ATTR_DATA) continue;
    auto reader = AttrReader::parse(*value, kElementPolicy);
    if (!reader) return reader.error();
    if (!kind_) {
      if (Status status = add_net(*reader); !status) return status;
      continue;
    }
    if (reader->be32(IPSET_ATTR_CADT_FLAGS).value_or(0) & IPSET_FLAG_NOMATCH) continue;
    const auto element = element_of(*kind_, *reader);
    if (!element) return bad_listing(fmt::format("an element of {} lacks a part", header_->name));
    elements_.push_back(*element);
  }
  return {};
}

Status SetListing::add_net(const AttrReader& element) {
  const auto ip = address_of(element, IPSET_ATTR_IP);
  if (!ip) return bad_listing(fmt::format("an element of {} has no address", header_->name));
  const std::uint8_t full = netlink::address_bits(ip->family());
  const auto length = element.u8(IPSET_ATTR_CIDR).value_or(full);
  if (length > full) return bad_listing(fmt::format("a prefix of {} is too long", header_->name));
  const auto flags = element.be32(IPSET_ATTR_CADT_FLAGS).value_or(0);
  nets_.push_back({IpPrefix::of(*ip, length), (flags & IPSET_FLAG_NOMATCH) != 0});
  return {};
}

Result<std::vector<NetMember>> SetListing::take_nets() && {
  if (!header_) return bad_listing("nothing was listed");
  if (header_->type != kNetType)
    return Error{ErrorKind::unsupported, 0,
                 fmt::format("set {} has type {}", header_->name, header_->type)};
  return std::move(nets_);
}

Result<ListedSet> SetListing::take_part() {
  if (!header_) return bad_listing("nothing was listed");
  if (!kind_)
    return Error{ErrorKind::unsupported, 0,
                 fmt::format("set {} has type {}", header_->name, header_->type)};
  ListedSet set;
  set.options = header_->options;
  set.spec = SetSpec{.name = header_->name, .kind = *kind_};
  if (header_->family) set.spec.family = *header_->family;
  if (*kind_ != SetKind::bitmap_port) {
    set.spec.hash_size = header_->hash_size;
    set.spec.max_elements = header_->max_elements;
  }
  set.elements = std::exchange(elements_, {});
  return set;
}

Result<ListedSet> SetListing::take() && {
  auto set = take_part();
  if (!set) return set;
  auto& elements = set->elements;
  std::ranges::sort(elements);
  elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
  return set;
}

}  // namespace ipvsproxier::ipset
