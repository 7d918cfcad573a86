#pragma once

// Decides whether a rule matches a packet, as the kernel's matches would for the first packet of a
// connection, or for a later one. Pure except for the facts; any thread.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ipset/judge/answer.h"
#include "ipset/judge/node_facts.h"
#include "ipset/judge/packet.h"
#include "ipset/rules/rule_types.h"

namespace ipvsproxier::ipset {

// What a rule does to a packet. Several values of `leads`: what is not known of the packet decides
// which of them it is.
struct RuleOutcome {
  // `no`: the rule does not match, or does nothing that matters; `unknown`: whether it matches is
  // not known, or not what it then does.
  Answer answer = Answer::no;
  std::vector<Action> effects;  // marks and tracking, in order
  std::vector<Action> leads;    // what becomes of the packet then; none: the next rule sees it
  bool vague = false;           // the rule gives a mark or an address that is not known
  bool settles = false;         // the destination stays, whatever later chains of type nat say
  std::string flowtable;        // to which the rule adds the connection; "" for none
  std::string found;            // set elements that matched: "inet host blocked has 192.0.2.1"
};

class RuleJudge {
 public:
  // Keeps references; the packet may change between two calls.
  RuleJudge(const NodeFacts& facts, const Packet& packet) : facts_(facts), packet_(packet) {}

  // A rule in our vocabulary, or with a ForeignTarget.
  RuleOutcome outcome(const Rule& rule) const;

  // Parts of a rule. `found`: the set elements that matched.
  Answer match(const Match& match, std::string& found) const;
  Answer condition(const Condition& condition, std::string& found) const;

  // The type of an address, a bit of AddressTypeCondition; nullopt: not known.
  std::optional<unsigned> address_type(Direction direction,
                                       AddressTypeCondition::Limit limit) const;

 private:
  Answer holds(const Rule& rule, std::string& found) const;

  const NodeFacts& facts_;
  const Packet& packet_;
};

// Adds the action to the effects, or to what becomes of the packet.
void add_action(Action action, RuleOutcome& outcome);

// The element of the set that contains the packet, looked up with these directions; nullptr: none.
const Element* find_element(const std::set<Element>& set, const std::vector<Direction>& directions,
                            const Packet& packet);

}  // namespace ipvsproxier::ipset
