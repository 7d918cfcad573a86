#include "test/support/hostile_objects.h"

#include <fmt/format.h>

#include "test/support/foreign_text.h"

namespace ipvsproxier::test {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLargestMap = std::size_t{256} << 10U;  // of annotations, in all

constexpr std::array<std::string_view, kHostilities> kNames{"text",
                                                            "huge annotations",
                                                            "huge labels",
                                                            "deep",
                                                            "numbers",
                                                            "nulls",
                                                            "duplicate keys",
                                                            "special addresses",
                                                            "addresses of others",
                                                            "text of addresses",
                                                            "many ports",
                                                            "many endpoints",
                                                            "many slices",
                                                            "many addresses",
                                                            "many ranges",
                                                            "prefix names",
                                                            "foreign slices",
                                                            "one address",
                                                            "hostile names",
                                                            "broken text"};

constexpr std::array kSpecial{
    "224.0.0.1",  "239.255.255.250", "255.255.255.255", "10.0.0.255", "10.0.0.0", "0.0.0.0",
    "127.0.0.1",  "127.8.8.8",       "169.254.169.254", "240.0.0.1",  "::",       "::1",
    "fe80::1",    "fe80::97:1",      "ff02::1",         "ff05::2",    "100::1",   "64:ff9b::a60:1",
    "::10.0.0.1", "2001:db8::1"};

constexpr std::array kOddTexts{"fe80::1%eth0",
                               "::ffff:10.97.200.1",
                               "::ffff:0:0",
                               "010.097.200.001",
                               " 10.97.200.2",
                               "10.97.200.3\n",
                               "10.97.200.4/32",
                               "10.97.200",
                               "0x0a61c805",
                               "10.97.200.256",
                               "[fd00:97::c8]",
                               "fd00:97:0:0:0:0:0:c8",
                               "\x1b[2J",
                               "",
                               "10.97.200.5%\xe2\x80\xae"};

// What acts on terminals, forges lines, closes quotes, or only looks as if it did.
const std::array<std::string, 21> kBits{"\x1b[2J",
                                        "\x1b]0;title\x07",
                                        "\xc2\x9b"
                                        "31m",
                                        "\x7f",
                                        "\r\n",
                                        "\n2026-01-01T00:00:00Z info: synced: all is well\n",
                                        "\t",
                                        std::string("\0", 1),
                                        "\xe2\x80\xae",
                                        "\xe2\x81\xa6",
                                        "\xe2\x80\x8f",
                                        "\xe2\x80\xa8",
                                        "\xef\xbb\xbf",
                                        "\xe2\x80\x8b",
                                        "\xf3\xa0\x80\x81\xf3\xa0\x81\x81",
                                        "\"} 1\nup 0\n",
                                        "%s%n{}{:>9}",
                                        "\\u001b\\",
                                        "gr\xc3\xbc\xc3\x9f \xe6\x9c\xac \xf0\x9f\x90\x9f",
                                        "\xef\xbf\xbf",
                                        "'$(reboot)`"};

// The port of the daemon itself: it cannot answer for the Service, and says so.
void ask_for_taken_port(Json& service) {
  service["spec"]["type"] = "LoadBalancer";
  service["spec"]["externalTrafficPolicy"] = "Local";
  service["spec"]["healthCheckNodePort"] = 10256;
}

std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

HostileObject object_of(const Json& json, std::string raw = {}) {
  const auto& metadata = json.at("metadata");
  return {.kind = json.at("kind"),
          .name_space = metadata.value("namespace", ""),
          .name = metadata.at("name"),
          .json = json_text(json),
          .raw = std::move(raw)};
}

template <typename Edit>
void edit(HostileObject& object, const Edit& change) {
  auto json = Json::parse(object.json);
  change(json);
  object = object_of(json, object.raw);
}

}  // namespace

std::string_view to_string(Hostility hostility) {
  return kNames.at(static_cast<std::size_t>(hostility));
}

std::string HostileObject::text() const {
  constexpr std::string_view kRaw = "\"RAW\"";
  auto text = json;
  if (const auto at = text.find(kRaw); !raw.empty() && at != std::string::npos)
    text.replace(at, kRaw.size(), raw);
  return text;
}

std::string HostileObjects::character() {
  switch (number(0, 3)) {
    case 0:
      return pick(kBits);
    case 1: {
      const auto code = static_cast<std::uint32_t>(number(0, 0x10ffff));
      return utf8(code >= 0xd800 && code <= 0xdfff ? code - 0x800 : code);
    }
    case 2:
      return utf8(static_cast<std::uint32_t>(number(0, 0x2fff)));
    default:
      return std::string(static_cast<std::size_t>(number(1, 20)),
                         static_cast<char>(number(32, 126)));
  }
}

std::string HostileObjects::text(std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += character();
  return text;
}

Json HostileObjects::service() {
  const auto n = cases_;
  const bool v6 = number(0, 3) == 0;
  const auto address = v6 ? fmt::format("fd00:97::{:x}", n + 1)
                          : fmt::format("10.97.{}.{}", n / 200 % 200, n % 200 + 1);
  const auto* family = v6 ? "IPv6" : "IPv4";
  return {
      {"kind", "Service"},
      {"apiVersion", "v1"},
      {"metadata",
       {{"name", fmt::format("{}{}", kHostilePrefix, n)},
        {"namespace", "shop"},
        {"creationTimestamp", "2040-01-01T00:00:00Z"}}},
      {"spec",
       {{"ports",
         Json::array({{{"name", "p"}, {"protocol", "TCP"}, {"port", 80}, {"targetPort", 8080}}})},
        {"clusterIP", address},
        {"clusterIPs", {address}},
        {"type", "ClusterIP"},
        {"sessionAffinity", "None"},
        {"ipFamilies", {family}},
        {"ipFamilyPolicy", "SingleStack"},
        {"internalTrafficPolicy", "Cluster"}}},
      {"status", {{"loadBalancer", Json::object()}}}};
}

Json HostileObjects::slice(const Json& service, int index, int endpoints) {
  const auto& metadata = service["metadata"];
  const auto name = metadata["name"].get<std::string>();
  const bool v6 = service["spec"]["ipFamilies"][0] == "IPv6";
  Json list = Json::array();
  for (int i = 0; i < endpoints; ++i) {
    const int which = index * endpoints + i;
    const auto address = v6 ? fmt::format("fd00:245::{:x}", which + 1)
                            : fmt::format("10.245.{}.{}", which / 250, which % 250 + 1);
    list.push_back({{"addresses", {address}},
                    {"conditions", {{"ready", true}, {"serving", true}, {"terminating", false}}},
                    {"nodeName", which % 3 == 0 ? "n1" : "n2"}});
  }
  return {{"kind", "EndpointSlice"},
          {"apiVersion", "discovery.k8s.io/v1"},
          {"metadata",
           {{"name", fmt::format("{}-{}", name, index)},
            {"namespace", metadata["namespace"]},
            {"labels", {{"kubernetes.io/service-name", name}}}}},
          {"addressType", v6 ? "IPv6" : "IPv4"},
          {"endpoints", list},
          {"ports", Json::array({{{"name", "p"}, {"protocol", "TCP"}, {"port", 8080}}})}};
}

HostileCase HostileObjects::with_slice(const Json& service) {
  return {.objects = {object_of(service), object_of(slice(service, 0, 2))}};
}

// Texts that no validation looks at: of a Service annotations alone, of slices many.
void HostileObjects::add_texts(HostileCase& one) {
  edit(one.objects[0], [&](Json& json) {
    for (int i = 0; i < 3; ++i) json["metadata"]["annotations"][fmt::format("a{}", i)] = text(50);
    json["status"]["conditions"] =
        Json::array({{{"type", "Ready"}, {"reason", text(20)}, {"message", text(200)}}});
  });
  edit(one.objects[1], [&](Json& json) {
    json["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"] = text(40);
    for (auto& endpoint : json["endpoints"]) {
      endpoint["zone"] = text(30);
      endpoint["targetRef"] = {{"kind", text(10)}, {"name", text(100)}, {"uid", text(20)}};
      endpoint["deprecatedTopology"] = {{"a", text(20)}};
      if (number(0, 1) == 0) endpoint["hints"]["forZones"] = Json::array({{{"name", text(10)}}});
    }
  });
}

void HostileObjects::add_huge(HostileCase& one, const char* map) {
  const bool labels = std::string_view(map) == "labels";
  for (auto& object : one.objects)
    edit(object, [&](Json& json) {
      auto& into = json["metadata"][map];
      if (!labels) {
        into["a"] = text(kLargestMap / 2);
        return;
      }
      // A prefix of 253, a name of 63, a value of 63 characters.
      for (std::size_t i = 0; i < kLargestMap / 380; ++i)
        into[fmt::format("{:x<253}/{:n<63}", fmt::format("p{}.", i), "a")] = std::string(63, 'v');
    });
}

void HostileObjects::add_raw(HostileCase& one, std::string raw) {
  auto& object = one.objects[static_cast<std::size_t>(number(0, 1))];
  object.raw = std::move(raw);
  edit(object, [&](Json& json) {
    if (number(0, 1) == 0)
      json["metadata"]["managedFields"] = Json::array({{{"manager", "m"},
                                                        {"operation", "Apply"},
                                                        {"fieldsType", "FieldsV1"},
                                                        {"fieldsV1", "RAW"}}});
    else
      json["future"] = "RAW";
  });
}

void HostileObjects::add_duplicates(HostileCase& one) {
  if (number(0, 3) == 0) return add_raw(one, R"({"a":1,"a":{"a":[],"a":2}},"future":[{"b":1}])");
  constexpr std::array<std::pair<std::size_t, const char*>, 5> kRows{{
      {0, R"(0,"name":"hostile-twice","namespace":"hostile")"},
      {0, R"(0},"spec":{"clusterIP":"10.97.207.1","clusterIPs":["10.97.207.1"]},"f":{)"},
      {0, R"(0},"spec":{"ports":[{"name":"p","port":81}],"ports":[]},"f":{)"},
      {1, R"(0,"labels":{"kubernetes.io/service-name":"a"},"name":"b")"},
      {1, R"(0},"ports":[],"endpoints":[],"endpoints":[{}],"f":{)"},
  }};
  const auto& [object, raw] = pick(kRows);
  one.objects[object].raw = raw;
  edit(one.objects[object], [](Json& json) { json["metadata"]["future"] = "RAW"; });
}

std::string HostileObjects::deep_json() {
  const auto depth = static_cast<std::size_t>(pick(std::array{10, 90, 101, 1000, 1025, 20000}));
  const std::string open = number(0, 1) == 0 ? "[" : R"({"f:a":)";
  std::string text;
  for (std::size_t i = 0; i < depth; ++i) text += open;
  text += "null";
  return text + std::string(depth, open == "[" ? ']' : '}');
}

void HostileObjects::add_numbers(HostileCase& one) {
  add_raw(one, fmt::format(R"({{"n":[{}]}})",
                           pick(std::array{"1e400", "-9223372036854775808", "18446744073709551616",
                                           "0.1e-999", "-0", "1E+5", "4611686018427387904.5"})));
  edit(one.objects[0], [&](Json& json) {
    const bool bounds = number(0, 2) != 0;  // those of the API
    auto port = json["spec"]["ports"][0];
    port["port"] = bounds ? Json(pick(std::array{1, 65535}))
                          : pick(std::array<Json, 5>{0, 65536, -1, 80.0, 1e300});
    if (number(0, 1) == 0) {
      json["spec"]["type"] = "LoadBalancer";
      json["spec"]["externalTrafficPolicy"] = "Local";
      port["nodePort"] = 32000 + static_cast<int>(cases_ % 700);
      json["spec"]["healthCheckNodePort"] = bounds ? 65535 - static_cast<int>(cases_ % 700) : 70000;
    }
    json["spec"]["ports"][0] = std::move(port);
    json["spec"]["sessionAffinity"] = "ClientIP";
    json["spec"]["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"] =
        bounds ? pick(std::array{1, 86400}) : 86401;
    json["metadata"]["generation"] = 9223372036854775807;
  });
}

void HostileObjects::add_nulls(HostileCase& one) {
  const std::array<Json, 3> nothing{nullptr, Json::array(), Json::object()};
  for (auto& object : one.objects)
    edit(object, [&](Json& json) {
      for (const char* field : {"labels", "annotations", "ownerReferences"})
        if (number(0, 2) == 0) json["metadata"][field] = nullptr;
      for (const char* part : {"spec", "status", "endpoints", "ports", "addressType"}) {
        if (!json.contains(part) || number(0, 2) != 0) continue;
        if (json[part].is_object() && !json[part].empty())
          std::next(json[part].begin(), number(0, static_cast<int>(json[part].size()) - 1))
              .value() = pick(nothing);
        else
          json[part] = pick(nothing);
      }
    });
}

void HostileObjects::add_addresses(HostileCase& one) {
  const bool odd = one.hostility == Hostility::text_of_addresses;
  const auto some = [&] { return odd ? pick(kOddTexts) : pick(kSpecial); };
  edit(one.objects[0], [&](Json& json) {
    json["spec"]["type"] = "LoadBalancer";
    json["spec"]["externalIPs"] = {some(), some()};
    json["status"]["loadBalancer"]["ingress"] = Json::array({{{"ip", some()}}, {{"ip", some()}}});
    if (number(0, 3) == 0) json["spec"]["loadBalancerSourceRanges"] = {std::string(some()) + "/32"};
  });
  edit(one.objects[1], [&](Json& json) { json["endpoints"][0]["addresses"] = {some(), some()}; });
}

void HostileObjects::add_others_addresses(HostileCase& one) {
  const auto& victim = pick(victims_.services);
  const bool of_node = !victims_.node_addresses.empty() && number(0, 1) == 0;
  const auto address = of_node ? pick(victims_.node_addresses) : victim.address;
  // Of the node: nobody's; of a Service: its own, which it keeps, or another.
  const bool its_port = !of_node && number(0, 1) == 0;
  edit(one.objects[0], [&](Json& json) {
    ask_for_taken_port(json);
    auto& port = json["spec"]["ports"][0];  // until anything is added beside it
    port["protocol"] = its_port ? victim.protocol : "TCP";
    port["port"] = its_port ? victim.port : 20000 + static_cast<int>(cases_ % 10000);
    if (number(0, 1) == 0)
      json["spec"]["externalIPs"] = {address};
    else
      json["status"]["loadBalancer"]["ingress"] = Json::array({{{"ip", address}}});
  });
  edit(one.objects[1], [&](Json& json) { json["endpoints"][0]["addresses"] = {victim.address}; });
}

void HostileObjects::add_many(HostileCase& one) {
  auto json = Json::parse(one.objects[0].json);
  auto& spec = json["spec"];
  bool of_nobody = false;
  switch (one.hostility) {
    case Hostility::many_ports: {
      auto slice = Json::parse(one.objects[1].json);
      for (auto* ports : {&spec["ports"], &slice["ports"]}) *ports = Json::array();
      for (int i = 0; i < 250; ++i) {
        const auto name = fmt::format("p{:0>14}", i);
        spec["ports"].push_back({{"name", name}, {"protocol", "TCP"}, {"port", 1000 + i}});
        slice["ports"].push_back({{"name", name}, {"protocol", "TCP"}, {"port", 1000 + i}});
      }
      one.objects[1] = object_of(slice);
      break;
    }
    case Hostility::many_endpoints:
      one.objects[1] = object_of(slice(json, 0, 1000));
      break;
    case Hostility::many_slices:
      for (int i = 1; i < 100; ++i) one.objects.push_back(object_of(slice(json, i, 2)));
      break;
    case Hostility::many_addresses:
      of_nobody = number(0, 1) == 0;  // multicast: the kernel refuses each
      for (int i = 0; i < 1000; ++i)
        spec["externalIPs"].push_back(
            fmt::format("{}.97.{}.{}", of_nobody ? 239 : 10, 210 + i / 250, i % 250 + 1));
      break;
    default:
      spec["type"] = "LoadBalancer";
      spec["externalIPs"] = {"10.97.209.1"};
      json["status"]["loadBalancer"]["ingress"] =
          Json::array({{{"ip", fmt::format("10.97.208.{}", cases_ % 250 + 1)}}});
      for (int i = 0; i < 1000; ++i)
        spec["loadBalancerSourceRanges"].push_back(
            fmt::format("198.18.{}.{}/32", i / 250, i % 250));
  }
  one.objects[0] = object_of(json);
}

// Of a name that begins as another's does, and slices that seem to be the other's.
void HostileObjects::add_names(HostileCase& one) {
  const auto& victim = pick(victims_.services);
  const bool rogue = one.hostility == Hostility::hostile_names;
  const auto name =
      rogue ? text(20) + std::to_string(cases_)
            : fmt::format("{}-{}{}", victim.name,
                          std::string(static_cast<std::size_t>(number(0, 2)), '0'), cases_);
  auto json = Json::parse(one.objects[0].json);
  json["metadata"]["name"] = name;
  json["metadata"]["namespace"] = rogue ? text(10) : victim.name_space;
  auto slices = slice(json, 0, 2);
  if (rogue) {
    ask_for_taken_port(json);
    json["spec"]["ports"][0]["name"] = slices["ports"][0]["name"] = text(10);
    slices["endpoints"][0]["nodeName"] = text(20);
  } else {
    slices["metadata"]["name"] = fmt::format("{}-x{}", victim.name, cases_);
  }
  one.objects = {object_of(json), object_of(slices)};
}

// A Service of that name is in another namespace only.
void HostileObjects::add_foreign_slices(HostileCase& one) {
  const auto& victim = pick(victims_.services);
  edit(one.objects[1], [&](Json& json) {
    json["metadata"]["namespace"] = "hostile";
    json["metadata"]["name"] = fmt::format("{}-{}", victim.name, cases_);
    json["metadata"]["labels"]["kubernetes.io/service-name"] = victim.name;
  });
}

void HostileObjects::add_claimants(HostileCase& one) {
  one.objects.clear();
  for (int i = 0; i < claimants_; ++i) {
    auto json = service();
    json["metadata"]["name"] = fmt::format("{}{}-{}", kHostilePrefix, cases_, i);
    const auto address = fmt::format("10.97.{}.{}", 220 + i / 250 % 30, i % 250 + 1);
    json["spec"]["clusterIP"] = address;
    json["spec"]["clusterIPs"] = {address};
    json["spec"]["ipFamilies"] = {"IPv4"};
    json["spec"]["externalIPs"] = {"10.97.209.9"};
    one.objects.push_back(object_of(json));
  }
}

HostileCase HostileObjects::make(Hostility hostility) {
  ++cases_;
  auto one = with_slice(service());
  one.hostility = hostility;
  one.number = cases_;
  switch (hostility) {
    case Hostility::text:
      add_texts(one);
      break;
    case Hostility::huge_annotations:
      add_huge(one, "annotations");
      break;
    case Hostility::huge_labels:
      add_huge(one, "labels");
      break;
    case Hostility::deep:
      add_raw(one, deep_json());
      break;
    case Hostility::numbers:
      add_numbers(one);
      break;
    case Hostility::nulls:
      add_nulls(one);
      break;
    case Hostility::duplicate_keys:
      add_duplicates(one);
      break;
    case Hostility::special_addresses:
    case Hostility::text_of_addresses:
      add_addresses(one);
      break;
    case Hostility::others_addresses:
      add_others_addresses(one);
      break;
    case Hostility::prefix_names:
    case Hostility::hostile_names:
      add_names(one);
      break;
    case Hostility::foreign_slices:
      add_foreign_slices(one);
      break;
    case Hostility::one_address:
      add_claimants(one);
      break;
    case Hostility::broken_text:
      add_raw(one, "{\"f:a\":\"\xff\xc0\x80 \\ud800 \xed\xa0\x80\"}");
      break;
    default:
      add_many(one);
  }
  return one;
}

HostileCase HostileObjects::any() {
  return make(static_cast<Hostility>(number(0, static_cast<int>(kHostilities) - 1)));
}

std::string HostileObjects::node(std::string_view node) {
  auto json = Json::parse(node);
  auto& metadata = json["metadata"];
  metadata["annotations"]["a"] = text(kLargestMap / 2);
  metadata["labels"]["l"] = std::string(63, 'v');
  json["spec"]["providerID"] = text(100);
  json["spec"]["taints"].push_back({{"key", "k"}, {"value", text(60)}, {"effect", "NoSchedule"}});
  auto& status = json["status"];
  for (int i = 0; i < 20; ++i)
    status["addresses"].push_back(
        {{"type", pick(std::array{"InternalIP", "ExternalIP", "Hostname", "x"})},
         {"address", "no address " + text(20)}});
  status["images"] = Json::array({{{"names", {text(500)}}, {"sizeBytes", -1}}});
  status["nodeInfo"] = {{"osImage", text(100)}, {"kernelVersion", text(100)}};
  return json_text(json);
}

}  // namespace ipvsproxier::test
