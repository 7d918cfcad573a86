#include "cmd/ipvsctl/explain/walk_text.h"
#include "proxier/api/document_writer.h"

namespace ipvsproxier::ctl {

namespace {

void write_steps(api::DocumentWriter& out, const std::vector<WalkStep>& steps) {
  out.list("steps", steps, [&](const WalkStep& step) {
    out.object([&] {
      out.member("stage", step.stage);
      out.member("text", step.text);
      if (!step.chain.empty()) out.member("chain", step.chain);
      if (!step.found.empty()) out.member("found", step.found);
      if (step.unjudged) out.member("unjudged", true);
      if (step.decides) out.member("decides", true);
    });
  });
}

void write_arrival(api::DocumentWriter& out, const Arrival& arrival) {
  out.object("arrival", [&] {
    out.member("fate", to_string(arrival.fate));
    if (arrival.notice != Notice::none) out.member("notice", to_string(arrival.notice));
    if (!arrival.why.empty()) out.member("why", arrival.why);
    out.member("source", arrival.source.to_string());
    out.member("masqueraded", arrival.masqueraded);
    if (!arrival.source_because.empty()) out.member("sourceBecause", arrival.source_because);
    if (!arrival.translated_to.empty()) out.member("translatedTo", arrival.translated_to);
    if (!arrival.out_link.empty()) out.member("outLink", arrival.out_link);
    if (!arrival.cautions.empty()) out.member("cautions", arrival.cautions);
  });
}

template <typename Key>
void write_walk_name(api::DocumentWriter& out, const std::function<std::string(const Key&)>& name,
                     const Key& key) {
  if (const auto text = name ? name(key) : std::string(); !text.empty()) out.member("name", text);
}

void write_walk_server(api::DocumentWriter& out, const netlink::RealServer& server,
                       const WalkNames& names) {
  out.object([&] {
    out.member("address", server.key.address.to_string());
    out.member("port", server.key.port);
    out.member("weight", server.weight);
    write_walk_name(out, names.address, server.key.address);
  });
}

void write_walk_service(api::DocumentWriter& out, const PacketWalk& walk, const WalkNames& names) {
  const auto& key = walk.service->key;
  out.object("service", [&] {
    out.member("address", key.address.to_string());
    out.member("port", key.port);
    out.member("protocol", netlink::to_string(key.protocol));
    out.member("scheduler", walk.service->scheduler.view());
    if (key.fwmark != 0) out.member("firewallMark", key.fwmark);
    write_walk_name(out, names.service, key);
  });
}

void write_end(api::DocumentWriter& out, std::string_view name, const netlink::IpAddress& address,
               std::uint16_t port) {
  out.object(name, [&] {
    out.member("address", address.to_string());
    out.member("port", port);
  });
}

void write_live(api::DocumentWriter& out, const LiveFlows& live) {
  out.object("live", [&] {
    out.list("ipvs", live.connections, [&](const auto& one) {
      out.object([&] {
        write_end(out, "client", one.client_address, one.client_port);
        write_end(out, "server", one.server_address, one.server_port);
        out.member("state", one.state);
        out.member("expires", one.expires);
      });
    });
    out.list("conntrack", live.tracked, [&](const auto& one) {
      out.object([&] {
        write_end(out, "source", one.source.address, one.source.port);
        write_end(out, "server", one.server.address, one.server.port);
        write_end(out, "seen", one.seen.address, one.seen.port);
        out.member("state", one.state);
        out.member("answered", one.answered);
        out.member("expires", one.expires);
      });
    });
    if (!live.unread.empty()) out.member("unread", live.unread);
  });
}

void write_flow(api::DocumentWriter& out, const PacketWalk& walk) {
  const auto& flow = walk.flow;
  out.object("flow", [&] {
    out.member("protocol", netlink::to_string(flow.protocol));
    out.member("destination", flow.destination.to_string());
    out.member("port", flow.port);
    if (flow.source) out.member("source", flow.source->to_string());
    if (!flow.in_link.empty()) out.member("inLink", flow.in_link);
    out.member("sentHere", walk.sent_here);
  });
}

}  // namespace

std::string walk_json(const PacketWalk& walk, const WalkNames& names, const LiveFlows* live) {
  api::JsonWriter out(api::JsonWriter::kIndented);
  out.object([&] {
    write_flow(out, walk);
    write_steps(out, walk.steps);
    if (walk.service) write_walk_service(out, walk, names);
    if (walk.candidates.empty()) write_arrival(out, walk.arrival);
    out.list("candidates", walk.candidates, [&](const auto& one) {
      out.object([&] {
        out.key("server");
        write_walk_server(out, one.server, names);
        write_steps(out, one.steps);
        write_arrival(out, one.arrival);
      });
    });
    out.list("passedOver", walk.passed_over,
             [&](const auto& server) { write_walk_server(out, server, names); });
    out.member("getsThere", gets_there(walk));
    out.member("certain", is_certain(walk));
    if (live != nullptr) write_live(out, *live);
  });
  return out.take() + "\n";
}

}  // namespace ipvsproxier::ctl
