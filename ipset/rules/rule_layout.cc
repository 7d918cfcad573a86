#include "ipset/rules/rule_layout.h"

#include <netinet/in.h>

// Must come after <netinet/in.h>: these headers would define its names again.
#include <linux/netfilter/x_tables.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>

#include <algorithm>
#include <cstring>

namespace ipvsproxier::ipset {

namespace {

using netlink::Family;

// The common head of a match and a target.
struct Head {
  std::uint16_t size;
  char name[XT_EXTENSION_MAXNAMELEN];
  std::uint8_t revision;
};
static_assert(sizeof(Head) == sizeof(xt_entry_match));
static_assert(sizeof(Head) == sizeof(xt_entry_target));
static_assert(sizeof(Head) % alignof(_xt_align) == 0);

struct Offsets {
  std::uint16_t target;
  std::uint16_t next;
};
static_assert(offsetof(ipt_entry, next_offset) ==
              offsetof(ipt_entry, target_offset) + sizeof(std::uint16_t));
static_assert(offsetof(ip6t_entry, next_offset) ==
              offsetof(ip6t_entry, target_offset) + sizeof(std::uint16_t));

std::size_t place_of_offsets(Family family) {
  return family == Family::ipv4 ? offsetof(ipt_entry, target_offset)
                                : offsetof(ip6t_entry, target_offset);
}

void append(Bytes& entry, const Extension& extension) {
  Head head{};
  head.size = static_cast<std::uint16_t>(sizeof head + padded_size(extension.data.size()));
  head.revision = extension.revision;
  extension.name.copy(head.name, sizeof head.name - 1);
  const auto start = entry.size();
  entry.resize(start + head.size);
  std::memcpy(&entry[start], &head, sizeof head);
  std::copy(extension.data.begin(), extension.data.end(),
            entry.begin() + static_cast<std::ptrdiff_t>(start + sizeof head));
}

// Removes one match or target from the front of `bytes`.
std::optional<Extension> take(std::span<const std::uint8_t>& bytes) {
  Head head;
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.size < sizeof head || head.size > bytes.size()) return std::nullopt;
  if (padded_size(head.size) != head.size) return std::nullopt;
  const auto name_size = strnlen(head.name, sizeof head.name);
  if (name_size == sizeof head.name) return std::nullopt;
  const auto data = bytes.subspan(sizeof head, head.size - sizeof head);
  bytes = bytes.subspan(head.size);
  return Extension{.name = std::string(head.name, name_size),
                   .revision = head.revision,
                   .data = Bytes(data.begin(), data.end())};
}

}  // namespace

std::size_t entry_header_size(Family family) {
  return family == Family::ipv4 ? sizeof(ipt_entry) : sizeof(ip6t_entry);
}

std::size_t padded_size(std::size_t size) {
  return XT_ALIGN(size);
}

Bytes join_entry(Family family, const EntryParts& parts) {
  Bytes entry = parts.header;
  entry.resize(entry_header_size(family));
  for (const auto& match : parts.matches) append(entry, match);
  Offsets offsets{};
  offsets.target = static_cast<std::uint16_t>(entry.size());
  append(entry, parts.target);
  offsets.next = static_cast<std::uint16_t>(entry.size());
  std::memcpy(&entry[place_of_offsets(family)], &offsets, sizeof offsets);
  return entry;
}

std::optional<EntryParts> split_entry(Family family, std::span<const std::uint8_t> bytes) {
  const auto header_size = entry_header_size(family);
  if (bytes.size() < header_size) return std::nullopt;
  Offsets offsets;
  std::memcpy(&offsets, &bytes[place_of_offsets(family)], sizeof offsets);
  if (offsets.target < header_size || offsets.next < offsets.target || offsets.next > bytes.size())
    return std::nullopt;

  EntryParts parts;
  parts.header.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header_size));
  auto matches = bytes.subspan(header_size, offsets.target - header_size);
  while (!matches.empty()) {
    auto match = take(matches);
    if (!match) return std::nullopt;
    parts.matches.push_back(std::move(*match));
  }
  auto rest =
      bytes.subspan(offsets.target, static_cast<std::size_t>(offsets.next - offsets.target));
  auto target = take(rest);
  if (!target || !rest.empty()) return std::nullopt;
  parts.target = std::move(*target);
  return parts;
}

}  // namespace ipvsproxier::ipset
