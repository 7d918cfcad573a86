#include "cmd/ipvsctl/status_command.h"

#include <sys/utsname.h>

#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cmd/command_line.h"
#include "cmd/ipvsctl/control_client.h"
#include "cmd/kernel_tables.h"
#include "ipset/rules/rule_codec.h"
#include "netlink/ipvs/ipvs_reader_kernel.h"
#include "netlink/kernel_module.h"
#include "netlink/sysctl.h"
#include "proxier/api/json_text.h"

namespace ipvsproxier::ctl {

namespace {

using Json = nlohmann::json;

constexpr int kDaemonWell = 0;
constexpr int kDaemonNotWell = 1;
constexpr int kDaemonUnknown = 2;

std::string line(std::string_view name, const std::string& value) {
  return fmt::format("{:<17}{}\n", name, value);
}

// "3.2 s ago"
std::string ago(double milliseconds) {
  return milliseconds < 1000 ? fmt::format("{:.0f} ms ago", milliseconds)
                             : fmt::format("{:.1f} s ago", milliseconds / 1000);
}

std::string text_or(const Json& json, const char* key, const char* otherwise) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : otherwise;
}

std::string sync_text(const Json& sync) {
  if (!sync.is_object()) return "sync             running now; ask again for more\n";
  std::string text;
  text += line("cluster",
               fmt::format("{} Services, {} EndpointSlices{}", sync.value("services", 0),
                           sync.value("endpointSlices", 0),
                           sync.value("listed", false) ? "" : "; the first lists are awaited"));
  text += line("kernel", fmt::format("{} virtual servers on {} addresses{}",
                                     sync.value("virtualServices", 0), sync.value("addresses", 0),
                                     sync.value("kernelRead", false) ? "" : "; not read yet"));
  text += line("settled", !sync.value("settled", false) ? "no"
                          : sync.value("refusedCount", 0)
                              ? "yes, but for what the kernel refuses"
                              : "yes: the kernel is what the cluster asks for");
  text += line("last change", fmt::format("{} (took {:.1f} ms)", text_or(sync, "lastSync", "none"),
                                          sync.value("lastSyncMilliseconds", 0.0)));
  text += line("last agreement",
               text_or(sync, "lastAgreement", "none: the whole kernel was never right") +
                   std::string(sync.value("changedSinceAgreement", false)
                                   ? " (of a whole reading; later changes were acknowledged)"
                                   : ""));
  text += line("draining", fmt::format("{} real servers", sync.value("draining", 0)));
  if (const auto waiting = sync.value("waiting", 0); waiting > 0)
    text += line("to be retried",
                 fmt::format("{}, next in {} ms", waiting, sync.value("nextTryMilliseconds", 0)));
  for (const auto& wrong : sync.value("wrong", Json::array()))
    text += line("wrong", wrong.get<std::string>());
  const auto refused = sync.value("refused", Json::array());
  for (const auto& one : refused) text += line("refused", one.get<std::string>());
  if (const auto count = sync.value("refusedCount", std::size_t{0}); count > refused.size())
    text += line("refused", fmt::format("{} more", count - refused.size()));
  return text;
}

std::string watch_text(const Json& watch) {
  const auto heard = watch.contains("heardMillisecondsAgo")
                         ? "heard " + ago(watch.value("heardMillisecondsAgo", 0.0))
                         : "never heard";
  const auto error = text_or(watch, "error", "");
  return error.empty() ? heard : heard + "; it is tried again: " + error;
}

// ": reason, and reason", or "".
std::string reasons_of(const Json& status) {
  const auto reasons = status.value("notReady", std::vector<std::string>{});
  return reasons.empty() ? "" : fmt::format(": {}", fmt::join(reasons, "; "));
}

std::string status_text(const Json& status) {
  std::string text;
  text += line("version", text_or(status, "version", "?"));
  text += line("node", text_or(status, "node", "?"));
  text += line("objects from", text_or(status, "source", "?"));
  text += line("ready", status.value("ready", false) ? "yes" : "no" + reasons_of(status));
  text += line("alive", status.value("alive", false) ? "yes" : "no: a thread is stuck");
  const auto watches = status.value("watches", Json::object());
  for (const auto& [resource, watch] : watches.items()) text += line(resource, watch_text(watch));
  return text + sync_text(status.value("sync", Json()));
}

// ---- the kernel

constexpr auto kKnownSchedulers =
    std::to_array<std::string_view>({"rr", "wrr", "lc", "wlc", "fo", "ovf", "lblc", "lblcr", "dh",
                                     "sh", "mh", "sed", "nq", "twos"});

std::vector<std::string> shown_modules() {
  return {"ip_vs",
          "nf_conntrack",
          "ip_set",
          ipset::module_of(netlink::Family::ipv4),
          ipset::module_of(netlink::Family::ipv6),
          "dummy",
          "br_netfilter"};
}

// nullptr if IPVS is not loaded or cannot be read.
Json ipvs_json() {
  if (!netlink::module_present("ip_vs")) return nullptr;
  const auto reader = netlink::KernelIpvsReader::open();
  const auto info = reader ? (*reader)->info() : reader.error();
  if (!info) return nullptr;
  const auto version = info->version;
  return {{"version",
           fmt::format("{}.{}.{}", version >> 16U & 0xff, version >> 8U & 0xff, version & 0xff)},
          {"connectionBuckets", info->connection_table_size}};
}

Json kernel_json() {
  utsname names{};
  ::uname(&names);
  Json json{{"release", names.release}, {"ipvs", ipvs_json()}, {"schedulers", Json::array()}};
  for (const auto& module : shown_modules())
    json["modules"][module] = netlink::module_present(module);
  for (const auto scheduler : kKnownSchedulers)
    if (netlink::module_present(fmt::format("ip_vs_{}", scheduler)))
      json["schedulers"].push_back(scheduler);
  const auto tracked = netlink::Sysctl().read("net/ipv4/vs/conntrack");
  json["ipvsConntrack"] = tracked ? Json(*tracked == "1") : Json(nullptr);
  // Without permission there are none.
  json["firewallWarnings"] = cmd::loaded_nft_warnings().value_or(std::vector<std::string>{});
  return json;
}

std::string kernel_text(const Json& kernel) {
  const auto& ipvs = kernel.at("ipvs");
  auto text = line("this kernel",
                   fmt::format("Linux {}, {}", kernel.at("release").get<std::string>(),
                               ipvs.is_null() ? "IPVS is not loaded or may not be asked"
                                              : fmt::format("IPVS {}, {} connection buckets",
                                                            text_or(ipvs, "version", "?"),
                                                            ipvs.value("connectionBuckets", 0))));
  std::string loaded;
  std::string absent;
  for (const auto& [name, present] : kernel.at("modules").items())
    (present.get<bool>() ? loaded : absent) += " " + name;
  text += line("modules", fmt::format("present:{}{}", loaded.empty() ? " none" : loaded,
                                      absent.empty() ? "" : "; not loaded:" + absent));
  const auto schedulers = kernel.at("schedulers").get<std::vector<std::string>>();
  text += line("schedulers", fmt::format("{}", fmt::join(schedulers, " ")));
  for (const auto& warning : kernel.at("firewallWarnings"))
    text += line("problem", warning.get<std::string>());
  return text;
}

// ---- daemon and kernel

bool is_well(const Json& status) {
  const auto sync = status.value("sync", Json());
  const auto watches = status.value("watches", Json::object());
  for (const auto& [_, watch] : watches.items())
    if (!text_or(watch, "error", "").empty()) return false;
  return status.value("ready", false) && status.value("alive", false) && sync.is_object() &&
         sync.value("settled", false);
}

netlink::Result<Json> ask(const std::string& socket, const std::string& target) {
  ControlClient daemon(socket);
  const auto text = daemon.get(target);
  if (!text) return text.error();
  auto status = Json::parse(*text, nullptr, false);
  if (!status.is_object()) return daemon.stranger();
  return status;
}

// Reads nothing else, because probes come every few seconds.
int run_probe(const StatusOptions& options, Output& output) {
  const auto health = ask(cmd::probe_socket(options.socket), "/v1/health");
  if (!health) {
    complain(to_string(health.error()));
    return kDaemonUnknown;
  }
  const bool well = health->value(options.probe, false);
  if (!output.write(options.probe + (well ? ": yes\n" : ": no\n"))) return kDaemonUnknown;
  return well ? kDaemonWell : kDaemonNotWell;
}

}  // namespace

int run_status(const StatusOptions& options, Output& output) {
  if (!options.probe.empty()) return run_probe(options, output);
  const auto kernel = kernel_json();
  const auto status = ask(options.socket, "/v1/status");
  auto shown = status.value_or(Json::object());
  shown["kernel"] = kernel;
  shown["ipvsctlVersion"] = IPVS_PROXIER_VERSION;
  const auto written =
      output.write(options.json ? api::to_json_text(shown, 2) + "\n"
                                : (status ? status_text(api::visible_texts(*status)) : "") +
                                      kernel_text(api::visible_texts(kernel)));
  if (!status) complain(to_string(status.error()));
  if (!status || !written) return kDaemonUnknown;
  return is_well(*status) ? kDaemonWell : kDaemonNotWell;
}

}  // namespace ipvsproxier::ctl
