#include "netlink/links/loop_kernel.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "netlink/links/link_codec.h"
#include "netlink/links/loop_codec.h"

namespace ipvsproxier::netlink {

namespace {

// nullopt: there is no such link.
Result<std::optional<LoopLink>> find_end(NlChannel& channel, const std::string& name) {
  const auto reply = channel.query(Operation::link, encode_get_link(name));
  if (!reply && reply.error().kind == ErrorKind::missing) return std::optional<LoopLink>{};
  if (!reply) return in_context(reply.error(), "find link " + name);
  auto link = decode_loop_link(*reply);
  if (!link) return in_context(std::move(link.error()), "read link " + name);
  return std::optional(*std::move(link));
}

struct Ends {
  std::optional<LoopLink> first;
  std::optional<LoopLink> second;
};

bool are_a_loop(const Ends& ends) {
  return ends.first && ends.second && ends.first->kind == "veth" &&
         ends.first->other_end == ends.second->index &&
         ends.second->other_end == ends.first->index &&
         (ends.first->has_address || ends.second->has_address);  // others may have changed one
}

// An error if links of these names are not each other's end.
Result<Ends> find_ends(NlChannel& channel, const LoopSpec& spec) {
  Ends ends;
  for (const auto& [name, end] :
       {std::pair(&spec.first, &ends.first), {&spec.second, &ends.second}}) {
    auto found = find_end(channel, *name);
    if (!found) return std::move(found.error());
    *end = *std::move(found);
  }
  if ((ends.first || ends.second) && !are_a_loop(ends))
    return Error{ErrorKind::already, 0,
                 fmt::format("a link {} exists and is not ours: it is left alone, and must be "
                             "renamed or removed",
                             ends.first ? spec.first : spec.second)};
  return ends;
}

Status change(NlChannel& channel, Operation operation, const Bytes& request,
              const std::string& what) {
  auto status = channel.transact(operation, std::span(&request, 1)).front();
  if (!status) return in_context(status.error(), what);
  return status;
}

Status make_loop(NlChannel& channel, const LoopSpec& spec) {
  const Bytes request = encode_new_loop(spec.first, spec.second);
  const auto status = channel.transact(Operation::link, std::span(&request, 1)).front();
  if (status) return {};
  auto error = status.error();
  // No rtnl_link_ops of this kind, even after the kernel asked for the module.
  if (error.sys_errno == EOPNOTSUPP)
    error = Error{ErrorKind::missing, EOPNOTSUPP,
                  "this kernel has no veth links: load module veth (modprobe veth) on the host"};
  return in_context(std::move(error), fmt::format("make links {} and {}", spec.first, spec.second));
}

bool has_ipv4(const LoopSpec& spec) {
  return std::ranges::any_of(
      spec.ways, [](const LoopWay& way) { return way.localhost.family() == Family::ipv4; });
}

// The routes of one family.
Status ensure_way(NlChannel& channel, const LoopWay& way, const Ends& ends, LoopReport& report) {
  const auto ask = [&](const Bytes& request, const std::string& what) -> Status {
    auto status = change(channel, Operation::route, request, "add " + what);
    if (status) report.written.push_back(what);
    if (status || status.error().kind == ErrorKind::already) return {};
    return status;
  };
  const auto add = [&](std::int32_t index, const IpAddress& address, bool local) {
    return ask(encode_loop_route(index, address, local),
               fmt::format("{}route {}", local ? "local " : "", address.to_string()));
  };
  if (auto added =
          ask(encode_unreachable(way.all, true), "unreachable route " + way.all.to_string());
      !added)
    return added;
  if (auto added = add(ends.first->index, way.near, false); !added) return added;
  if (auto added = add(ends.second->index, way.far, false); !added) return added;
  if (way.localhost.family() == Family::ipv4) return {};
  return add(ends.first->index, way.localhost, true);
}

}  // namespace

Result<LoopReport> ensure_loop(NlChannel& channel, const LoopSpec& spec, bool dry) {
  LoopReport report;
  auto ends = find_ends(channel, spec);
  if (!ends) return std::move(ends.error());
  if (!ends->first) {
    report.written.push_back(fmt::format("links {} and {}", spec.first, spec.second));
    if (dry) return report;
    if (auto made = make_loop(channel, spec); !made && made.error().kind != ErrorKind::already)
      return made.error();
    ends = find_ends(channel, spec);
    if (!ends) return std::move(ends.error());
    if (!ends->first)
      return Error{ErrorKind::missing, 0, fmt::format("somebody removed link {}", spec.first)};
  }
  for (const auto* end : {&*ends->first, &*ends->second}) {
    const bool takes_loopback = end == &*ends->first && has_ipv4(spec);
    if (is_settled(*end, takes_loopback)) continue;
    const auto what = "settings of link " + end->name;
    if (!dry)
      if (auto set = change(channel, Operation::link,
                            encode_settle_loop(end->index, takes_loopback), "set " + what);
          !set)
        return set.error();
    report.written.push_back(what);
  }
  if (dry) return report;
  for (const auto& way : spec.ways)
    if (auto ensured = ensure_way(channel, way, *ends, report); !ensured)
      report.failed.emplace(way.localhost.family(), ensured.error());
  return report;
}

Result<bool> remove_loop(NlChannel& channel, const LoopSpec& spec) {
  const auto ends = find_ends(channel, spec);
  if (!ends) return ends.error();
  if (!ends->first) return false;
  // A route that stays harms nobody.
  for (const auto& way : spec.ways) {
    const Bytes request = encode_unreachable(way.all, false);
    static_cast<void>(channel.transact(Operation::route, std::span(&request, 1)));
  }
  const auto gone = change(channel, Operation::link, encode_delete_link(ends->first->index),
                           "remove link " + spec.first);
  if (gone) return true;
  if (gone.error().kind == ErrorKind::missing) return false;
  return gone.error();
}

}  // namespace ipvsproxier::netlink
