#include "ipset/nftables/foreign_steps.h"

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "ipset/rules/foreign_rules.h"
#include "ipset/rules/rule_extensions.h"

namespace ipvsproxier::ipset {

using netlink::Family;

namespace {

ExtensionStep match_step(const Extension& extension, Family family, SetResolver& sets) {
  ExtensionStep step;
  if (extension.name == "comment") return step;
  if (auto match = decode_match(extension, family, sets)) {
    step.text = to_string(*match, family);
    step.matches.push_back(*std::move(match));
    return step;
  }
  auto read = read_match(extension);
  step.text = std::move(read.text);
  step.conditions = std::move(read.conditions);
  return step;
}

ExtensionStep target_step(const Extension& extension, Family family) {
  auto read = read_target(family, extension);
  ExtensionStep step;
  step.text = std::move(read.text);
  step.action = std::move(read.action);
  return step;
}

struct ForeignStep {
  using Kind = NamedStep::Kind;
  const std::string text;
  Family family;
  SetResolver& sets;

  NftStep operator()(const netlink::NftUnforeseen& one) const {
    return NamedStep{text, one.only_asks ? Kind::question : Kind::unknown};
  }
  NftStep operator()(const netlink::NftWithoutEffect&) const {
    return NamedStep{text, Kind::harmless};
  }
  NftStep operator()(const netlink::NftExtension& one) const {
    const Extension extension{one.name, one.revision, one.data};
    return one.is_target ? target_step(extension, family) : match_step(extension, family, sets);
  }
  template <typename Known>
  NftStep operator()(const Known& known) const {
    return known;
  }
};

std::string object_words(const netlink::NftObjectRef& one) {
  const bool expects = one.type == netlink::NftObjectRef::kExpectation;
  return expects ? fmt::format("ct expectation set \"{}\"", one.object)
                 : fmt::format("[{}]", one.kName);
}

}  // namespace

std::vector<NftStep> steps_of(std::span<const netlink::NftExpression> expressions, Family family,
                              SetResolver& sets) {
  std::vector<NftStep> steps;
  for (const auto& expression : expressions)
    std::visit(
        [&]<typename One>(const One& one) {
          if constexpr (std::is_same_v<One, netlink::NftOtherExpression>)
            steps.push_back(std::visit(ForeignStep{"[" + one.name + "]", family, sets},
                                       netlink::read_foreign_expression(one)));
          else if constexpr (std::is_same_v<One, netlink::NftObjectRef>)
            steps.push_back(std::visit(ForeignStep{object_words(one), family, sets},
                                       netlink::foreign_object(one.type)));
          else if constexpr (!std::is_same_v<One, netlink::NftCounter>)
            steps.emplace_back(one);
        },
        expression);
  return steps;
}

netlink::Result<std::uint16_t> NoSets::index_of(const std::string& name, Family /*family*/) {
  return netlink::Error{.kind = netlink::ErrorKind::missing, .sys_errno = ENOENT, .where = name};
}

std::optional<std::string> NoSets::name_of(std::uint16_t /*index*/) {
  return std::nullopt;
}

}  // namespace ipvsproxier::ipset
