#include "test/support/api_server/selectors.h"

namespace ipvsproxier::test {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Result;

Result<Selector> Selector::labels(std::string_view text) {
  return parse(text, false);
}
Result<Selector> Selector::fields(std::string_view text) {
  return parse(text, true);
}

Result<Selector> Selector::parse(std::string_view text, bool of_fields) {
  Selector selector;
  selector.of_fields_ = of_fields;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const auto part = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    Requirement requirement;
    if (const auto equals = part.find('='); equals != std::string_view::npos) {
      const bool different = equals > 0 && part[equals - 1] == '!';
      const auto value =
          equals + 1 < part.size() && part[equals + 1] == '=' ? equals + 2 : equals + 1;
      requirement = {.key = std::string(part.substr(0, different ? equals - 1 : equals)),
                     .test = different ? Test::different : Test::equal,
                     .value = std::string(part.substr(value))};
    } else if (!of_fields && part.starts_with('!')) {
      requirement = {.key = std::string(part.substr(1)), .test = Test::absent, .value = {}};
    } else {
      requirement = {.key = std::string(part), .test = Test::exists, .value = {}};
    }
    const bool odd = requirement.key.find_first_of(" ()!=") != std::string::npos;
    if (requirement.key.empty() || odd || (of_fields && requirement.test == Test::exists))
      return Error{ErrorKind::malformed, 0, "unable to parse requirement: " + std::string(part)};
    selector.requirements_.push_back(std::move(requirement));
  }
  return selector;
}

bool Selector::fits(const Requirement& requirement,
                    const std::map<std::string, std::string>& of) const {
  const auto found = of.find(requirement.key);
  switch (requirement.test) {
    case Test::exists:
      return found != of.end();
    case Test::absent:
      return found == of.end();
    case Test::equal:
      return found != of.end() && found->second == requirement.value;
    case Test::different:
      return found == of.end() || found->second != requirement.value;
  }
  return false;
}

bool Selector::matches(const Attributes& attributes) const {
  const auto& of = of_fields_ ? attributes.fields : attributes.labels;
  for (const auto& requirement : requirements_)
    if (!fits(requirement, of)) return false;
  return true;
}

}  // namespace ipvsproxier::test
