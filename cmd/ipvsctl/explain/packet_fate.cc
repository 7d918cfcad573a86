#include <algorithm>

#include "cmd/ipvsctl/explain/packet_walk.h"

namespace ipvsproxier::ctl {

std::string_view to_string(Fate fate) {
  switch (fate) {
    case Fate::served:
      return "served";
    case Fate::delivered:
      return "delivered";
    case Fate::forwarded:
      return "forwarded";
    case Fate::refused:
      return "refused";
    case Fate::dropped:
      return "dropped";
  }
  return "";
}

std::string_view to_string(Notice notice) {
  switch (notice) {
    case Notice::none:
      return "no notice";
    case Notice::port_unreachable:
      return "ICMP port unreachable";
    case Notice::host_unreachable:
      return "ICMP host unreachable";
    case Notice::reset:
      return "TCP reset";
    case Notice::call_fails:
      return "the sender's call fails";
    case Notice::prohibited:
      return "ICMP prohibited";
  }
  return "";
}

bool gets_there(const PacketWalk& walk) {
  const auto arrives = [](const Arrival& arrival) {
    return arrival.fate != Fate::refused && arrival.fate != Fate::dropped;
  };
  if (walk.candidates.empty()) return arrives(walk.arrival);
  return std::ranges::any_of(walk.candidates, arrives, &Candidate::arrival);
}

bool is_certain(const PacketWalk& walk) {
  const auto certain = [](const std::vector<WalkStep>& steps) {
    return std::ranges::none_of(steps, &WalkStep::unjudged);
  };
  return certain(walk.steps) && std::ranges::all_of(walk.candidates, certain, &Candidate::steps);
}

}  // namespace ipvsproxier::ctl
