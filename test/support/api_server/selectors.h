#pragma once

// Label and field selectors as the watches of a proxy use them.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/result.h"

namespace ipvsproxier::test {

struct Attributes {
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> fields;  // metadata.name, metadata.namespace, spec.clusterIP
};

class Selector {
 public:
  // Labels: `key`, `!key`, `key=value`, `key!=value`, joined by commas; fields: the latter two.
  // Sets (`in`, `notin`) are refused.
  static netlink::Result<Selector> labels(std::string_view text);
  static netlink::Result<Selector> fields(std::string_view text);

  bool matches(const Attributes& attributes) const;
  bool empty() const { return requirements_.empty(); }

 private:
  enum class Test : std::uint8_t { exists, absent, equal, different };
  struct Requirement {
    std::string key;
    Test test = Test::exists;
    std::string value;
  };

  static netlink::Result<Selector> parse(std::string_view text, bool of_fields);
  bool fits(const Requirement& requirement, const std::map<std::string, std::string>& of) const;

  bool of_fields_ = false;
  std::vector<Requirement> requirements_;
};

}  // namespace ipvsproxier::test
