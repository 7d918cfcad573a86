#include "cmd/ipvsctl/commands.h"

#include <sys/utsname.h>

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cmd/command_line.h"
#include "cmd/firewall_warnings.h"
#include "cmd/ipvsctl/control_client.h"
#include "cmd/ipvsctl/listing/entry_text.h"
#include "cmd/kernel_tables.h"
#include "ipset/rules/rule_codec.h"
#include "netlink/ipvs/ipvs_reader_kernel.h"
#include "netlink/kernel_module.h"
#include "netlink/sysctl.h"
#include "proxier/api/document_writer.h"
#include "proxier/api/fields.h"
#include "proxier/api/json_value.h"
#include "proxier/api/visible_text.h"

namespace ipvsproxier::ctl {

namespace {

using api::Fields;
using api::JsonDocument;

constexpr int kDaemonWell = 0;
constexpr int kDaemonNotWell = 1;
constexpr int kDaemonUnknown = 2;

// The value is made visible.
std::string line(std::string_view name, std::string_view value) {
  return fmt::format("{:<17}{}\n", name, api::visible(value));
}

// "3.2 s ago"
std::string ago(double milliseconds) {
  return milliseconds < 1000 ? fmt::format("{:.0f} ms ago", milliseconds)
                             : fmt::format("{:.1f} s ago", milliseconds / 1000);
}

// ---- the daemon

std::int64_t count_in(const Fields& fields, std::string_view key) {
  return fields.integer(key, 0, std::numeric_limits<std::int64_t>::max()).value_or(0);
}

std::vector<std::string> texts_in(const Fields& fields, std::string_view key) {
  return fields.texts(key).value_or(std::vector<std::string>());
}

// What is so of the node: Services may lack something all the same.
std::string settled_text(const Fields& sync) {
  if (sync.boolean("settled", false))
    return sync.boolean("removalsHeld", false)
               ? "yes, except removals, which wait: see the lines wrong"
               : "yes: all of it is programmed that this node can have";
  if (!sync.boolean("listed", false)) return "no: the first lists are awaited";
  if (!sync.boolean("kernelRead", false)) return "no: the kernel has not been read yet";
  if (const auto waiting = count_in(sync, "waiting"); waiting > 0)
    return fmt::format("no: {} parts of the kernel's state are to be tried again", waiting);
  return "no: changes are being written";
}

std::string lacking_text(const Fields& sync) {
  const auto count = count_in(sync, "lackingCount");
  if (count == 0) return line("lacking", "no Service");
  return line("lacking",
              fmt::format("{} Services; `ipvsctl service` says what: {}{}", count,
                          fmt::join(texts_in(sync, "lacking"), ", "), count > 5 ? ", ..." : ""));
}

std::string sync_text(const Fields& sync) {
  if (!sync.exists()) return "sync             running now; ask again for more\n";
  std::string text;
  text += line("cluster",
               fmt::format("{} Services, {} EndpointSlices{}", count_in(sync, "services"),
                           count_in(sync, "endpointSlices"),
                           sync.boolean("listed", false) ? "" : "; the first lists are awaited"));
  text += line("kernel", fmt::format("{} virtual servers on {} addresses{}",
                                     count_in(sync, "virtualServices"), count_in(sync, "addresses"),
                                     sync.boolean("kernelRead", false) ? "" : "; not read yet"));
  const auto refused_count = count_in(sync, "refusedCount");
  text += line("settled", settled_text(sync));
  text += lacking_text(sync);
  text += line("last change", fmt::format("{} (took {:.1f} ms)", sync.text("lastSync", "none"),
                                          sync.number("lastSyncMilliseconds", 0)));
  text +=
      line("last agreement", sync.text("lastAgreement", "none: the whole kernel was never right") +
                                 (sync.boolean("changedSinceAgreement", false)
                                      ? " (of a whole reading; later changes were acknowledged)"
                                      : ""));
  text += line("draining", fmt::format("{} real servers", count_in(sync, "draining")));
  if (const auto waiting = count_in(sync, "waiting"); waiting > 0)
    text += line("to be retried",
                 fmt::format("{}, next in {} ms", waiting, count_in(sync, "nextTryMilliseconds")));
  for (const auto& wrong : texts_in(sync, "wrong")) text += line("wrong", wrong);
  const auto refused = texts_in(sync, "refused");
  for (const auto& one : refused) text += line("refused", one);
  const auto more = refused_count - static_cast<std::int64_t>(refused.size());
  if (more > 0) text += line("refused", fmt::format("{} more", more));
  return text;
}

std::string watch_text(const Fields& watch) {
  const auto heard = watch.has("heardMillisecondsAgo")
                         ? "heard " + ago(watch.number("heardMillisecondsAgo", 0))
                         : "never heard";
  const auto error = watch.text("error");
  return error.empty() ? heard : heard + "; it is tried again: " + error;
}

// Calls visit(resource, watch) for each resource, by name.
template <typename Visit>
void each_watch(const Fields& status, Visit visit) {
  const Fields watches(status, "watches");
  std::set<std::string> resources;
  watches.each_member([&](std::string_view key, const auto&) { resources.emplace(key); });
  for (const auto& resource : resources) {
    const Fields watch(watches, resource);
    visit(resource, watch);
  }
}

// ": reason, and reason", or "".
std::string reasons_of(const Fields& status) {
  const auto reasons = texts_in(status, "notReady");
  return reasons.empty() ? "" : fmt::format(": {}", fmt::join(reasons, "; "));
}

std::string status_text(const Fields& status, const Fields& sync) {
  std::string text;
  text += line("version", status.text("version", "?"));
  text += line("node", status.text("node", "?"));
  text += line("objects from", status.text("source", "?"));
  const Fields filter(status, "packetFilter");
  text += line("packet filter",
               fmt::format("{} ({})", filter.text("name", "?"), filter.text("reason", "?")));
  for (const auto& note : texts_in(filter, "notes")) text += line("", note);
  text += line("ready", status.boolean("ready", false) ? "yes" : "no" + reasons_of(status));
  text += line("alive", status.boolean("alive", false) ? "yes" : "no: a thread is stuck");
  each_watch(status, [&](const std::string& resource, const Fields& watch) {
    text += line(resource, watch_text(watch));
  });
  return text + sync_text(sync);
}

bool is_well(const Fields& status, const Fields& sync) {
  bool watching = true;
  each_watch(status, [&](const std::string&, const Fields& watch) {
    if (!watch.text("error").empty()) watching = false;
  });
  return watching && status.boolean("ready", false) && status.boolean("alive", false) &&
         sync.boolean("settled", false);
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

struct KernelFacts {
  std::string release;
  std::optional<netlink::IpvsInfo> ipvs;  // nullopt: it is not loaded or cannot be read
  // Whether the kernel has them now; nullopt: it cannot be told.
  std::map<std::string, std::optional<bool>> modules;
  std::vector<std::string_view> schedulers;
  std::vector<std::string_view> unknown_schedulers;  // it cannot be told
  std::optional<bool> ipvs_conntrack;                // nullopt: it cannot be read
  std::optional<netlink::IpvsTimeouts> timeouts;     // nullopt: they cannot be read
  std::vector<std::string> firewall_warnings;
  std::vector<std::string> firewalls_unjudged;  // words about tables
  std::vector<std::string> flow_rules;          // of others, against which ours are there
};

std::optional<netlink::IpvsInfo> read_ipvs() {
  if (!netlink::kernel_has_module("ip_vs").value_or(false)) return std::nullopt;
  const auto reader = netlink::KernelIpvsReader::open();
  const auto info = reader ? (*reader)->info() : reader.error();
  return info ? std::optional(*info) : std::nullopt;
}

void read_firewalls(const cmd::ProgrammedFilter& programmed, KernelFacts& facts) {
  if (auto look = cmd::loaded_firewall_warnings(programmed)) {
    for (auto& warning : look->warnings) facts.firewall_warnings.push_back(std::move(warning.text));
    for (const auto& [table, why] : look->unjudged)
      facts.firewalls_unjudged.push_back(ipset::text_of_unjudged(table, why));
  } else {
    facts.firewalls_unjudged.push_back(to_string(look.error()));
  }
  const auto rules = cmd::loaded_flow_rules(programmed);
  if (!rules) {
    facts.firewalls_unjudged.push_back("rules that add connections to flowtables: " +
                                       to_string(rules.error()));
    return;
  }
  for (const auto& [text, guarded] : *rules)
    (guarded ? facts.flow_rules : facts.firewall_warnings).push_back(text);
}

KernelFacts read_kernel() {
  utsname names{};
  ::uname(&names);
  KernelFacts facts{.release = names.release,
                    .ipvs = read_ipvs(),
                    .modules = {},
                    .schedulers = {},
                    .unknown_schedulers = {},
                    .ipvs_conntrack = {},
                    .timeouts = cmd::loaded_ipvs_timeouts(),
                    .firewall_warnings = {},
                    .firewalls_unjudged = {},
                    .flow_rules = {}};
  if (const auto programmed = cmd::open_programmed_filter())
    read_firewalls(*programmed, facts);
  else
    facts.firewalls_unjudged.push_back(to_string(programmed.error()));
  for (const auto& module : shown_modules())
    if (const auto there = netlink::kernel_has_module(module))
      facts.modules[module] = *there;
    else
      facts.modules[module] = std::nullopt;
  for (const auto scheduler : kKnownSchedulers) {
    const auto there = netlink::kernel_has_module(fmt::format("ip_vs_{}", scheduler));
    if (!there)
      facts.unknown_schedulers.push_back(scheduler);
    else if (*there)
      facts.schedulers.push_back(scheduler);
  }
  if (const auto tracked = netlink::Sysctl().read("net/ipv4/vs/conntrack"))
    facts.ipvs_conntrack = *tracked == "1";
  return facts;
}

std::string kernel_text(const KernelFacts& kernel) {
  const auto& ipvs = kernel.ipvs;
  auto text = line("this kernel", fmt::format("Linux {}, {}", kernel.release,
                                              !ipvs ? "IPVS is not loaded or may not be asked"
                                                    : fmt::format("IPVS {}, {} connection buckets",
                                                                  version_text(*ipvs),
                                                                  ipvs->connection_table_size)));
  std::string loaded;
  std::string absent;
  std::string unknown;
  for (const auto& [name, present] : kernel.modules)
    (!present ? unknown : *present ? loaded : absent) += " " + name;
  text += line("modules", fmt::format("present:{}{}{}", loaded.empty() ? " none" : loaded,
                                      absent.empty() ? "" : "; not loaded:" + absent,
                                      unknown.empty() ? "" : "; cannot be told:" + unknown));
  std::vector<std::string> schedulers;
  if (!kernel.schedulers.empty())
    schedulers.push_back(fmt::format("{}", fmt::join(kernel.schedulers, " ")));
  if (!kernel.unknown_schedulers.empty())
    schedulers.push_back(
        fmt::format("cannot be told: {}", fmt::join(kernel.unknown_schedulers, " ")));
  text += line("schedulers", fmt::format("{}", fmt::join(schedulers, "; ")));
  if (kernel.timeouts)
    text +=
        line("IPVS time-out", fmt::format("TCP connections without a packet for {} s are forgotten "
                                          "(ipvs.tcpTimeout)",
                                          kernel.timeouts->tcp));
  for (const auto& warning : kernel.firewall_warnings) text += line("problem", warning);
  for (const auto& words : kernel.firewalls_unjudged) text += line("not judged", words);
  for (const auto& words : kernel.flow_rules) text += line("flowtable", words);
  return text;
}

void write_kernel(api::DocumentWriter& out, const KernelFacts& kernel) {
  out.object("kernel", [&] {
    out.member("firewallWarnings", kernel.firewall_warnings);
    out.member("firewallsNotJudged", kernel.firewalls_unjudged);
    out.member("flowRules", kernel.flow_rules);
    out.key("ipvs");
    if (kernel.ipvs)
      out.object([&] {
        out.member("connectionBuckets", kernel.ipvs->connection_table_size);
        out.member("version", version_text(*kernel.ipvs));
      });
    else
      out.value(nullptr);
    out.key("ipvsConntrack");
    if (kernel.ipvs_conntrack)
      out.value(*kernel.ipvs_conntrack);
    else
      out.value(nullptr);
    out.key("ipvsTcpTimeoutSeconds");
    if (kernel.timeouts)
      out.value(kernel.timeouts->tcp);
    else
      out.value(nullptr);
    out.object("modules", [&] {
      for (const auto& [name, present] : kernel.modules) {
        out.key(name);
        if (present)
          out.value(*present);
        else
          out.value(nullptr);
      }
    });
    out.member("release", kernel.release);
    out.member("schedulers", kernel.schedulers);
  });
}

// ---- daemon and kernel

// The daemon's members as it sends them, and ours, by name.
std::string status_json(const std::optional<api::JsonValue>& status, const KernelFacts& kernel) {
  api::JsonWriter all;
  all.object([&] {
    if (status)
      for (const auto& [key, value] : status->members()) {
        all.key(key);
        write_value(all, value);
      }
    write_kernel(all, kernel);
    all.member("ipvsctlVersion", IPVS_PROXIER_VERSION);
  });
  api::JsonWriter out(api::JsonWriter::kIndented);
  if (const auto document = JsonDocument::parse(all.take())) write_value(out, document->root());
  return out.take() + "\n";
}

// Reads nothing else, because probes come every few seconds.
int run_probe(const StatusOptions& options, Output& output) {
  const auto health = ControlClient(cmd::probe_socket(options.socket)).ask("/v1/health");
  if (!health) {
    complain(to_string(health.error()));
    return kDaemonUnknown;
  }
  const auto answer = health->root().find(options.probe);
  const bool well = answer && answer->boolean().value_or(false);
  if (!output.write(options.probe + (well ? ": yes\n" : ": no\n"))) return kDaemonUnknown;
  return well ? kDaemonWell : kDaemonNotWell;
}

int show_unknown(const StatusOptions& options, const netlink::Error& error, Output& output) {
  const auto kernel = read_kernel();
  static_cast<void>(
      output.write(options.json ? status_json(std::nullopt, kernel) : kernel_text(kernel)));
  complain(to_string(error));
  return kDaemonUnknown;
}

}  // namespace

int run_status(const StatusOptions& options, Output& output) {
  if (!options.probe.empty()) return run_probe(options, output);
  const auto answer = ControlClient(options.socket).ask("/v1/status");
  if (!answer) return show_unknown(options, answer.error(), output);
  const auto kernel = read_kernel();
  api::Problems problems;
  api::Report report{.origin = "", .problems = problems};
  const Fields status(answer->root(), report);
  const Fields sync(status, "sync");  // none while a sync runs
  const auto written = output.write(options.json ? status_json(answer->root(), kernel)
                                                 : status_text(status, sync) + kernel_text(kernel));
  if (!written) return kDaemonUnknown;
  return is_well(status, sync) ? kDaemonWell : kDaemonNotWell;
}

}  // namespace ipvsproxier::ctl
