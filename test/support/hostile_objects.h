#pragma once

// Services, EndpointSlices and Nodes that are hostile, each in one way, as raw JSON as an API
// server hands it out: what its validation lets through of whoever may write such objects, and, of
// the server itself, names and ports that no validation would.
//
// Pure: a seed gives the same objects each time. What is asked for here is apart from the clusters
// of RandomCluster: addresses in 10.97.0.0/16 and fd00:97::/64, real servers in 10.245.0.0/16 and
// fd00:245::/64, node ports from 32000, names that begin with kHostilePrefix or the name of
// another. Where an object is in the way of others (an address of theirs) it is younger than they
// are.

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "netlink/ip_address.h"

namespace ipvsproxier::test {

enum class Hostility : std::uint8_t {
  text,              // annotations, texts that no validation looks at
  huge_annotations,  // 256 KiB
  huge_labels,       // 256 KiB
  deep,              // unknown fields inside of each other
  numbers,           // at their bounds, and beyond in fields that nobody reads
  nulls,             // and empty lists and objects
  duplicate_keys,
  special_addresses,  // as external IPs and in the load balancer's status
  others_addresses,   // this node's, another Service's, on other ports and on theirs
  text_of_addresses,  // zones, mapped, leading zeros, blanks
  many_ports,         // 250
  many_endpoints,     // 1,000 in a slice
  many_slices,        // 100
  many_addresses,     // 1,000 external IPs
  many_ranges,        // 1,000 source ranges
  prefix_names,       // of another Service's name; slices that are named after another one's
  foreign_slices,     // that name a Service of another namespace
  one_address,        // many Services claim one
  hostile_names,      // no API server admits them
  broken_text,        // text that is no UTF-8, and lone surrogates
};
inline constexpr std::size_t kHostilities = 20;

std::string_view to_string(Hostility hostility);

inline constexpr std::string_view kHostilePrefix = "hostile-";

struct HostileObject {
  std::string kind;  // "Service"
  std::string name_space;
  std::string name;
  std::string json;  // with "RAW" once where `raw` belongs, if that is anything
  std::string raw;   // JSON that a writer of JSON would not write

  std::string text() const;  // as it is handed out
};

// What belongs together: a Service and its slices.
struct HostileCase {
  Hostility hostility = Hostility::text;
  std::uint32_t number = 0;  // makes its names and addresses its own
  std::vector<HostileObject> objects;
};

// What there is to be in the way of.
struct Victims {
  std::vector<std::string> node_addresses;
  struct Service {
    std::string name_space;
    std::string name;
    std::string address;
    int port = 80;
    std::string protocol = "TCP";
  };
  std::vector<Service> services;  // one at least
};

class HostileObjects {
 public:
  // `claimants`: how many Services claim the one address.
  HostileObjects(std::uint32_t seed, Victims victims, int claimants = 50)
      : random_(seed), victims_(std::move(victims)), claimants_(claimants) {}

  // The next one; its number is one more than that of the last.
  HostileCase make(Hostility hostility);
  HostileCase any();
  // This node's Node: what proxying reads is that of `node` (JSON), all around it is hostile.
  std::string node(std::string_view node);
  // Text as long as that about, in which anything may be.
  std::string text(std::size_t bytes);

 private:
  using Json = nlohmann::ordered_json;

  int number(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }
  template <typename List>
  const auto& pick(const List& list) {
    return list[static_cast<std::size_t>(number(0, static_cast<int>(std::size(list)) - 1))];
  }

  Json service();  // one port, sound in all
  Json slice(const Json& service, int index, int endpoints);
  HostileCase with_slice(const Json& service);
  std::string character();

  void add_texts(HostileCase& one);
  void add_huge(HostileCase& one, const char* map);
  void add_raw(HostileCase& one, std::string raw);
  void add_duplicates(HostileCase& one);  // no API server stores such
  void add_numbers(HostileCase& one);
  void add_nulls(HostileCase& one);
  void add_addresses(HostileCase& one);
  void add_others_addresses(HostileCase& one);
  void add_many(HostileCase& one);
  void add_names(HostileCase& one);
  void add_foreign_slices(HostileCase& one);
  void add_claimants(HostileCase& one);
  std::string deep_json();

  std::mt19937 random_;
  Victims victims_;
  int claimants_;
  std::uint32_t cases_ = 0;
};

}  // namespace ipvsproxier::test
