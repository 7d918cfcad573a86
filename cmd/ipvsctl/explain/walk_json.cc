#include <nlohmann/json.hpp>

#include "cmd/ipvsctl/explain/walk_text.h"
#include "proxier/api/json_text.h"

namespace ipvsproxier::ctl {

namespace {

using Json = nlohmann::ordered_json;

Json steps_json(const std::vector<WalkStep>& steps) {
  auto list = Json::array();
  for (const auto& step : steps) {
    Json one = {{"stage", step.stage}, {"text", step.text}};
    if (!step.chain.empty()) one["chain"] = step.chain;
    if (!step.found.empty()) one["found"] = step.found;
    if (step.unjudged) one["unjudged"] = true;
    if (step.decides) one["decides"] = true;
    list.push_back(std::move(one));
  }
  return list;
}

Json arrival_json(const Arrival& arrival) {
  Json one = {{"fate", to_string(arrival.fate)}};
  if (arrival.notice != Notice::none) one["notice"] = to_string(arrival.notice);
  if (!arrival.why.empty()) one["why"] = arrival.why;
  one["source"] = arrival.source.to_string();
  one["masqueraded"] = arrival.masqueraded;
  if (!arrival.source_because.empty()) one["sourceBecause"] = arrival.source_because;
  if (!arrival.translated_to.empty()) one["translatedTo"] = arrival.translated_to;
  if (!arrival.out_link.empty()) one["outLink"] = arrival.out_link;
  if (!arrival.cautions.empty()) one["cautions"] = arrival.cautions;
  return one;
}

template <typename Key>
void put_name(Json& object, const std::function<std::string(const Key&)>& name, const Key& key) {
  if (auto text = name ? name(key) : std::string(); !text.empty()) object["name"] = std::move(text);
}

Json server_json(const netlink::RealServer& server, const WalkNames& names) {
  Json one = {{"address", server.key.address.to_string()},
              {"port", server.key.port},
              {"weight", server.weight}};
  put_name(one, names.address, server.key.address);
  return one;
}

Json service_json(const PacketWalk& walk, const WalkNames& names) {
  const auto& key = walk.service->key;
  Json one = {{"address", key.address.to_string()},
              {"port", key.port},
              {"protocol", netlink::to_string(key.protocol)},
              {"scheduler", walk.service->scheduler.view()}};
  if (key.fwmark != 0) one["firewallMark"] = key.fwmark;
  put_name(one, names.service, key);
  return one;
}

Json end_json(const netlink::IpAddress& address, std::uint16_t port) {
  return {{"address", address.to_string()}, {"port", port}};
}

Json live_json(const LiveFlows& live) {
  auto connections = Json::array();
  for (const auto& one : live.connections)
    connections.push_back({{"client", end_json(one.client_address, one.client_port)},
                           {"server", end_json(one.server_address, one.server_port)},
                           {"state", one.state},
                           {"expires", one.expires}});
  auto tracked = Json::array();
  for (const auto& one : live.tracked)
    tracked.push_back({{"source", end_json(one.source.address, one.source.port)},
                       {"server", end_json(one.server.address, one.server.port)},
                       {"seen", end_json(one.seen.address, one.seen.port)},
                       {"state", one.state},
                       {"answered", one.answered},
                       {"expires", one.expires}});
  Json all = {{"ipvs", std::move(connections)}, {"conntrack", std::move(tracked)}};
  if (!live.unread.empty()) all["unread"] = live.unread;
  return all;
}

}  // namespace

std::string walk_json(const PacketWalk& walk, const WalkNames& names, const LiveFlows* live) {
  const auto& flow = walk.flow;
  Json flow_json = {{"protocol", netlink::to_string(flow.protocol)},
                    {"destination", flow.destination.to_string()},
                    {"port", flow.port}};
  if (flow.source) flow_json["source"] = flow.source->to_string();
  if (!flow.in_link.empty()) flow_json["inLink"] = flow.in_link;
  flow_json["sentHere"] = walk.sent_here;

  Json root = {{"flow", std::move(flow_json)}, {"steps", steps_json(walk.steps)}};
  if (walk.service) root["service"] = service_json(walk, names);
  if (walk.candidates.empty()) root["arrival"] = arrival_json(walk.arrival);
  auto candidates = Json::array();
  for (const auto& one : walk.candidates)
    candidates.push_back({{"server", server_json(one.server, names)},
                          {"steps", steps_json(one.steps)},
                          {"arrival", arrival_json(one.arrival)}});
  root["candidates"] = std::move(candidates);
  auto passed_over = Json::array();
  for (const auto& server : walk.passed_over) passed_over.push_back(server_json(server, names));
  root["passedOver"] = std::move(passed_over);
  root["getsThere"] = gets_there(walk);
  root["certain"] = is_certain(walk);
  if (live != nullptr) root["live"] = live_json(*live);
  return api::to_json_text(root, 2) + "\n";
}

}  // namespace ipvsproxier::ctl
