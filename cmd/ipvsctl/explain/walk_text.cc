#include "cmd/ipvsctl/explain/walk_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "proxier/api/visible_text.h"

namespace ipvsproxier::ctl {

namespace {

std::string step_line(const WalkStep& step) {
  auto line = fmt::format("{} {:<15} ", step.unjudged ? '?' : step.decides ? '>' : ' ', step.stage);
  if (!step.chain.empty()) line += step.chain + "  ";
  line += step.text;
  if (!step.found.empty()) line += fmt::format("  [{}]", step.found);
  if (step.unjudged) line += "  (cannot be judged from here: taken as not matching)";
  return api::visible(line) + "\n";
}

// " (NAME)", or "".
template <typename Key>
std::string named(const std::function<std::string(const Key&)>& name, const Key& key) {
  const auto text = name ? name(key) : std::string();
  return text.empty() ? text : fmt::format(" ({})", api::visible(text));
}

std::string head(const PacketWalk& walk, const WalkNames& names) {
  const auto& flow = walk.flow;
  auto source = flow.source.value_or(netlink::IpAddress::any(flow.destination.family()));
  const auto end = [](const netlink::IpAddress& address, std::uint16_t port) {
    return port == 0 ? address.to_string() : netlink::to_string(address, port);
  };
  return fmt::format("{} {}{} -> {}{}, {}\n\n", to_string(flow.protocol),
                     end(source, flow.source_port), named(names.address, source),
                     netlink::to_string(flow.destination, flow.port),
                     named(names.address, flow.destination),
                     walk.sent_here ? "sent by this node" : "in by " + api::visible(flow.in_link));
}

std::string who_sees(const Arrival& arrival) {
  if (arrival.source_because.empty()) return "sees " + arrival.source.to_string();
  return fmt::format("sees {} ({}: {})", arrival.source.to_string(),
                     arrival.masqueraded ? "masqueraded" : "not masqueraded",
                     api::visible(arrival.source_because));
}

std::string loss(const Arrival& arrival) {
  if (arrival.fate == Fate::refused)
    return fmt::format("is refused ({}) at {}", to_string(arrival.notice),
                       api::visible(arrival.why));
  return "is dropped at " + api::visible(arrival.why);
}

std::string cautions(const Arrival& arrival) {
  std::string text;
  for (const auto& caution : arrival.cautions)
    text += fmt::format("Beware: {}.\n", api::visible(caution));
  return text;
}

// Whether packets reach both servers in the same way: by the same rules, with the same source.
bool is_alike(const Candidate& one, const Candidate& other) {
  const auto same_step = [](const WalkStep& left, const WalkStep& right) {
    return left.stage == right.stage && left.chain == right.chain &&
           (left.chain.empty() || left.text == right.text);
  };
  return one.arrival.fate == other.arrival.fate && one.arrival.source == other.arrival.source &&
         one.arrival.out_link == other.arrival.out_link &&
         std::ranges::equal(one.steps, other.steps, same_step);
}

std::string candidate_steps(const PacketWalk& walk) {
  std::string text;
  std::vector<const Candidate*> told;
  for (const auto& one : walk.candidates) {
    const auto known = [&](const Candidate* other) { return is_alike(*other, one); };
    if (std::ranges::any_of(told, known)) continue;
    told.push_back(&one);
    const auto alike = std::ranges::count_if(
        walk.candidates, [&](const Candidate& other) { return is_alike(one, other); });
    text += fmt::format("\n  if to {}{}\n", to_string(one.server.key),
                        alike > 1 ? fmt::format(", and so to {} more", alike - 1) : "");
    for (const auto& step : one.steps) text += step_line(step);
  }
  return text;
}

std::string candidate_line(const Candidate& one, const WalkNames& names) {
  const auto& arrival = one.arrival;
  const bool lost = arrival.fate == Fate::refused || arrival.fate == Fate::dropped;
  const auto most = one.server.upper_threshold;
  return fmt::format("  {}{}  weight {}{}  {}{}\n", to_string(one.server.key),
                     named(names.address, one.server.key.address), one.server.weight,
                     most == 0 ? "" : fmt::format(", at most {} connections", most),
                     arrival.fate == Fate::delivered ? "this node  " : "",
                     lost ? loss(arrival) : who_sees(arrival));
}

std::string verdict(const PacketWalk& walk, const WalkNames& names) {
  if (walk.candidates.empty()) {
    const auto& arrival = walk.arrival;
    switch (arrival.fate) {
      case Fate::delivered:
        return fmt::format("It gets to this node itself, which {}.\n", who_sees(arrival));
      case Fate::served:
      case Fate::forwarded:
        return fmt::format("It leaves by {}, for no virtual service; {} {}.\n",
                           api::visible(arrival.out_link),
                           arrival.translated_to.empty() ? walk.flow.destination.to_string()
                                                         : arrival.translated_to,
                           who_sees(arrival));
      case Fate::refused:
      case Fate::dropped:
        return fmt::format("It {}.\n", loss(arrival));
    }
  }
  auto text = walk.candidates.size() == 1
                  ? std::string("It goes to this real server:\n")
                  : fmt::format("It goes to one of {} real servers, as {} chooses:\n",
                                walk.candidates.size(), walk.service->scheduler.view());
  for (const auto& one : walk.candidates) text += candidate_line(one, names);
  for (const auto& server : walk.passed_over)
    text += fmt::format("  {}{}  weight 0  gets nothing new\n", to_string(server.key),
                        named(names.address, server.key.address));
  return text;
}

}  // namespace

WalkNames walk_names(const ClusterNames& names) {
  return {
      .service = [&names](const netlink::VirtualServiceKey& key) -> std::string {
        const auto name = names.of(key);
        return name ? fmt::format("{}, {}", to_string(*name), ipset::to_string(name->facet)) : "";
      },
      .address = [&names](const netlink::IpAddress& address) { return names.of_address(address); }};
}

std::string walk_text(const PacketWalk& walk, const WalkNames& names, const LiveFlows* live) {
  auto text = head(walk, names);
  for (const auto& step : walk.steps) text += step_line(step);
  text += candidate_steps(walk) + "\n";
  if (walk.service)
    text += fmt::format("Virtual service {}{}.\n", to_string(walk.service->key),
                        named(names.service, walk.service->key));
  text += verdict(walk, names) + cautions(walk.arrival);
  std::vector<std::string> told;
  for (const auto& one : walk.candidates) {
    auto caution = cautions(one.arrival);
    if (std::ranges::count(told, caution) == 0) told.push_back(std::move(caution));
  }
  for (const auto& caution : told) text += caution;
  if (!is_certain(walk))
    text += "Not certain: rules that are marked ? may match, and then this may be otherwise.\n";
  if (live != nullptr) text += live_text(*live);
  return text;
}

}  // namespace ipvsproxier::ctl
