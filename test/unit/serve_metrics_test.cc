#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "netlink/unique_fd.h"
#include "proxier/serve/metrics.h"
#include "proxier/serve/metrics_server.h"
#include "test/support/test_clock.h"

namespace ipvsproxier::serve {
namespace {

using netlink::Family;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::kWall;

// The exposition, by the grammar of Prometheus' text format 0.0.4. Whatever is against it throws.
struct Exposition {
  explicit Exposition(const std::string& text) {
    REQUIRE_FALSE(text.empty());
    REQUIRE(text.back() == '\n');
    std::istringstream lines(text);
    std::string open;  // the family that is being told
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      std::smatch match;
      static const std::regex kHelp(R"(# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+))");
      static const std::regex kType(
          R"(# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram))");
      static const std::regex kSample(
          R"(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\["\\n])*",?)*)\})? )"
          R"(([-+]?(?:[0-9.]+(?:e[-+]?[0-9]+)?|Inf)|NaN))");
      if (std::regex_match(line, match, kHelp)) {
        REQUIRE(help.emplace(match[1], match[2]).second);  // told once, all together
        names.push_back(match[1]);
        open = match[1];
      } else if (std::regex_match(line, match, kType)) {
        REQUIRE(match[1] == open);
        type[open] = match[2];
      } else {
        REQUIRE(std::regex_match(line, match, kSample));
        const std::string name = match[1];
        static const std::regex kSuffix("_(bucket|sum|count)$");
        const bool histogram = type.at(open) == "histogram";
        REQUIRE((histogram ? std::regex_replace(name, kSuffix, "") : name) == open);
        REQUIRE(samples.emplace(name + std::string(match[2]), std::stod(match[4])).second);
      }
    }
  }

  double at(const std::string& sample) const {
    INFO(sample);
    REQUIRE(samples.contains(sample));
    return samples.at(sample);
  }
  bool has(const std::string& sample) const { return samples.contains(sample); }

  std::vector<std::string> names;
  std::map<std::string, std::string> help;
  std::map<std::string, std::string> type;
  std::map<std::string, double> samples;
};

struct MetricsFixture {
  test::TestClock clock;
  Status status{{}, clock.clock()};
  Metrics metrics{{.version = "1.2.3"}};

  Exposition read() { return Exposition(metrics.exposition(status)); }
};

TEST_CASE_METHOD(MetricsFixture, "every metric of kube-proxy's IPVS mode is there with its type") {
  const std::map<std::string, std::string> expected = {
      {"sync_proxy_rules_duration_seconds", "histogram"},
      {"sync_proxy_rules_last_queued_timestamp_seconds", "gauge"},
      {"sync_proxy_rules_last_timestamp_seconds", "gauge"},
      {"network_programming_duration_seconds", "histogram"},
      {"sync_proxy_rules_endpoint_changes_pending", "gauge"},
      {"sync_proxy_rules_endpoint_changes_total", "counter"},
      {"sync_proxy_rules_service_changes_pending", "gauge"},
      {"sync_proxy_rules_service_changes_total", "counter"},
      {"sync_proxy_rules_no_local_endpoints_total", "gauge"},
      {"sync_proxy_rules_iptables_restore_failures_total", "counter"},
      {"conntrack_reconciler_sync_duration_seconds", "histogram"},
      {"conntrack_reconciler_deleted_entries_total", "counter"},
      {"proxy_healthz_total", "counter"},
      {"proxy_livez_total", "counter"}};
  const auto text = read();
  std::map<std::string, std::string> found;
  for (const auto& [name, type] : text.type) {
    if (!name.starts_with("kubeproxy_")) continue;
    found[name.substr(10)] = type;
    CHECK(text.help.at(name).starts_with("[ALPHA] "));
  }
  CHECK(found == expected);
  CHECK(std::is_sorted(text.names.begin(), text.names.end()));
}

TEST_CASE_METHOD(MetricsFixture, "the buckets are kube-proxy's") {
  const auto text = metrics.exposition(status);
  const auto bounds = [&](const std::string& name) {
    const auto start = "kubeproxy_" + name + "_bucket{ip_family=\"IPv6\",le=\"";
    std::string result;
    for (auto at = text.find(start); at != std::string::npos; at = text.find(start, at + 1))
      result +=
          text.substr(at + start.size(), text.find('"', at + start.size()) - at - start.size()) +
          " ";
    return result;
  };
  const std::string sync =
      "0.001 0.002 0.004 0.008 0.016 0.032 0.064 0.128 0.256 0.512 1.024 2.048 4.096 8.192 16.384 "
      "+Inf ";
  CHECK(bounds("sync_proxy_rules_duration_seconds") == sync);
  CHECK(bounds("conntrack_reconciler_sync_duration_seconds") == sync);
  std::string programming = "0.25 0.5 ";
  for (int i = 1; i <= 59; ++i) programming += std::to_string(i) + " ";
  programming += "60 65 70 75 80 85 90 95 100 105 110 115 120 150 180 210 240 270 300 +Inf ";
  CHECK(bounds("network_programming_duration_seconds") == programming);
}

TEST_CASE_METHOD(MetricsFixture, "what the sync thread tells is counted for its family") {
  metrics.sync_took(Family::ipv4, milliseconds(1));
  metrics.sync_took(Family::ipv4, milliseconds(1500));
  metrics.sync_succeeded(Family::ipv4, kWall);
  metrics.network_programmed(Family::ipv6, milliseconds(700));
  metrics.no_local_endpoints(Family::ipv4, 3, 4);
  metrics.rules_failed(Family::ipv6);
  metrics.flows_purged(Family::ipv4, milliseconds(3), 7);
  const auto text = read();
  const std::string sync = "kubeproxy_sync_proxy_rules_duration_seconds_";
  CHECK(text.at(sync + "bucket{ip_family=\"IPv4\",le=\"0.001\"}") == 1);  // "le" includes
  CHECK(text.at(sync + "bucket{ip_family=\"IPv4\",le=\"1.024\"}") == 1);
  CHECK(text.at(sync + "bucket{ip_family=\"IPv4\",le=\"2.048\"}") == 2);
  CHECK(text.at(sync + "count{ip_family=\"IPv4\"}") == 2);
  CHECK(text.at(sync + "sum{ip_family=\"IPv4\"}") == Approx(1.501));
  CHECK(text.at(sync + "count{ip_family=\"IPv6\"}") == 0);
  const std::string rules = "kubeproxy_sync_proxy_rules_";
  CHECK(text.at(rules + "last_timestamp_seconds{ip_family=\"IPv4\"}") == 1'767'323'045);
  CHECK(text.at(rules + "last_timestamp_seconds{ip_family=\"IPv6\"}") == 0);
  CHECK(text.at(rules + "iptables_restore_failures_total{ip_family=\"IPv6\"}") == 1);
  const std::string no_local = rules + "no_local_endpoints_total{ip_family=\"IPv4\",";
  CHECK(text.at(no_local + "traffic_policy=\"internal\"}") == 3);
  CHECK(text.at(no_local + "traffic_policy=\"external\"}") == 4);
  const std::string programming = "kubeproxy_network_programming_duration_seconds_";
  CHECK(text.at(programming + "bucket{ip_family=\"IPv6\",le=\"0.5\"}") == 0);
  CHECK(text.at(programming + "bucket{ip_family=\"IPv6\",le=\"1\"}") == 1);
  const std::string conntrack = "kubeproxy_conntrack_reconciler_";
  CHECK(text.at(conntrack + "sync_duration_seconds_count{ip_family=\"IPv4\"}") == 1);
  CHECK(text.at(conntrack + "deleted_entries_total{ip_family=\"IPv4\"}") == 7);
}

TEST_CASE_METHOD(MetricsFixture,
                 "changes are pending until a sync takes them up, and counted for ever") {
  metrics.sync_queued(Family::ipv6, kWall);
  metrics.services_changed(2);
  metrics.services_changed(1);
  metrics.endpoint_slices_changed(5);
  const std::string rules = "kubeproxy_sync_proxy_rules_";
  auto text = read();
  CHECK(text.at(rules + "last_queued_timestamp_seconds{ip_family=\"IPv6\"}") == 1'767'323'045);
  CHECK(text.at(rules + "service_changes_pending") == 3);
  CHECK(text.at(rules + "endpoint_changes_pending") == 5);
  metrics.changes_taken();
  text = read();
  CHECK(text.at(rules + "service_changes_pending") == 0);
  CHECK(text.at(rules + "service_changes_total") == 3);
  CHECK(text.at(rules + "endpoint_changes_pending") == 0);
  CHECK(text.at(rules + "endpoint_changes_total") == 5);
}

TEST_CASE_METHOD(MetricsFixture, "our own metrics") {
  metrics.netlink_sent(NetlinkKind::ipvs, 100, 1);
  metrics.netlink_sent(NetlinkKind::conntrack, 3, 0);
  metrics.watch_restarted(Resource::services);
  metrics.relisted(Resource::endpoint_slices);
  metrics.objects_held(Resource::endpoint_slices, 1234);
  metrics.objects_unreadable(Resource::services, 2);
  metrics.removal_held(Resource::services, 30);
  metrics.kernel_removal_held(40);
  metrics.repaired(6);
  metrics.servers_draining(17);
  CHECK(read().at("ipvsproxier_udp_flows_unreadable") == 0);
  metrics.flows_unreadable(true);
  metrics.firewall_drops(3);
  metrics.kernel_agreed(kWall);
  status.watch_heard(Resource::nodes);
  clock.advance(milliseconds(2500));
  const auto text = read();
  CHECK(text.at("ipvsproxier_udp_flows_unreadable") == 1);
  CHECK(text.at("ipvsproxier_firewall_drops") == 3);
  CHECK(text.at("ipvsproxier_netlink_messages_total{kind=\"ipvs\"}") == 100);
  CHECK(text.at("ipvsproxier_netlink_errors_total{kind=\"ipvs\"}") == 1);
  CHECK(text.at("ipvsproxier_netlink_messages_total{kind=\"conntrack\"}") == 3);
  for (const auto* kind : {"link", "set", "rule"})
    CHECK(text.at("ipvsproxier_netlink_messages_total{kind=\"" + std::string(kind) + "\"}") == 0);
  CHECK(text.at("ipvsproxier_watch_restarts_total{resource=\"services\"}") == 1);
  CHECK(text.at("ipvsproxier_watch_restarts_total{resource=\"nodes\"}") == 0);
  CHECK(text.at("ipvsproxier_relists_total{resource=\"endpointslices\"}") == 1);
  CHECK(text.at("ipvsproxier_objects{resource=\"endpointslices\"}") == 1234);
  CHECK(text.at("ipvsproxier_objects_unreadable{resource=\"services\"}") == 2);
  CHECK(text.at("ipvsproxier_objects_unreadable{resource=\"nodes\"}") == 0);
  CHECK(text.at("ipvsproxier_mass_removal_held{resource=\"services\"}") == 30);
  CHECK(text.at("ipvsproxier_mass_removal_held{resource=\"endpointslices\"}") == 0);
  CHECK(text.at("ipvsproxier_mass_removal_held{resource=\"kernel\"}") == 40);
  CHECK(text.at("ipvsproxier_repairs_total") == 6);
  CHECK(text.at("ipvsproxier_real_servers_draining") == 17);
  CHECK(text.at("ipvsproxier_last_full_agreement_timestamp_seconds") == 1'767'323'045);
  CHECK(text.at("ipvsproxier_watch_age_seconds{resource=\"nodes\"}") == 2.5);
  CHECK_FALSE(text.has("ipvsproxier_watch_age_seconds{resource=\"services\"}"));
}

TEST_CASE_METHOD(MetricsFixture, "the version and the feature gates") {
  metrics.packet_filter("nftables", "--packet-filter");
  CHECK_FALSE(read().has("ipvsproxier_node_known"));
  metrics.node_known(false);
  CHECK(read().at("ipvsproxier_node_known") == 0);
  metrics.node_known(true);
  CHECK(read().at("ipvsproxier_node_known") == 1);
  metrics.feature("WatchList", "BETA", true);
  metrics.feature("Settled", "", true);
  metrics.feature("Other", "ALPHA", false);
  const auto text = read();
  CHECK(text.at("ipvsproxier_packet_filter_info{filter=\"nftables\",reason=\"--packet-filter\"}") ==
        1);
  CHECK(text.at("kubernetes_feature_enabled{name=\"WatchList\",stage=\"BETA\"}") == 1);
  CHECK(text.at("kubernetes_feature_enabled{name=\"Settled\",stage=\"\"}") == 1);
  CHECK(text.at("kubernetes_feature_enabled{name=\"Other\",stage=\"ALPHA\"}") == 0);
  const auto build = std::find_if(text.samples.begin(), text.samples.end(), [](const auto& sample) {
    return sample.first.starts_with("kubernetes_build_info{");
  });
  REQUIRE(build != text.samples.end());
  CHECK(build->second == 1);
  for (const auto* label :
       {"major=\"1\"", "minor=\"2\"", "git_version=\"v1.2.3\"", "compiler=\"", "platform=\"linux"})
    CHECK(build->first.find(label) != std::string::npos);
}

TEST_CASE("a single-stack node tells nothing of the other family") {
  Status status;
  Metrics metrics({.families = {Family::ipv4}, .version = "1.2.3"});
  metrics.sync_took(Family::ipv6, seconds(1));
  const auto text = metrics.exposition(status);
  CHECK(text.find("IPv4") != std::string::npos);
  CHECK(text.find("IPv6") == std::string::npos);
}

TEST_CASE_METHOD(MetricsFixture, "the process is described as it is") {
  const auto before = read();
  std::vector<netlink::UniqueFd> more;
  for (int i = 0; i < 5; ++i) more.emplace_back(::dup(0));
  // CPU time that surely passes.
  while (read().at("process_cpu_seconds_total") <= before.at("process_cpu_seconds_total")) {
  }
  const auto after = read();
  CHECK(after.type.at("process_cpu_seconds_total") == "counter");
  CHECK(after.at("process_open_fds") == before.at("process_open_fds") + 5);
  CHECK(after.at("process_max_fds") >= after.at("process_open_fds"));
  CHECK(after.at("process_resident_memory_bytes") > 100'000);
  CHECK(after.at("process_virtual_memory_bytes") >= after.at("process_resident_memory_bytes"));
  CHECK(after.at("process_virtual_memory_max_bytes") > 0);
  const auto now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch());
  CHECK(after.at("process_start_time_seconds") <= now.count() + 1);
  CHECK(after.at("process_start_time_seconds") > now.count() - 3600);
}

TEST_CASE_METHOD(MetricsFixture, "threads count while another reads") {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) {
        metrics.netlink_sent(NetlinkKind::set, 2, 1);
        metrics.sync_took(Family::ipv4, milliseconds(n));
        metrics.services_changed(1);
      }
    });
  read();
  threads.clear();
  const auto text = read();
  CHECK(text.at("ipvsproxier_netlink_messages_total{kind=\"set\"}") == 6000);
  CHECK(text.at("kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"}") == 3000);
  CHECK(text.at("kubeproxy_sync_proxy_rules_service_changes_total") == 3000);
}

TEST_CASE_METHOD(MetricsFixture, "the metrics server's paths") {
  const std::string configz = R"({"kubeproxy.config.k8s.io":{"mode":"ipvs"}})";
  const auto handler = metrics_routes(metrics, status, configz);
  const auto get = [&](const char* path, std::map<std::string, std::string> query = {}) {
    return handler({.method = "GET", .path = path, .query = std::move(query)});
  };
  CHECK(get("/proxyMode") == plain_text(200, "ipvs"));
  CHECK(get("/proxyMode").content_type == "text/plain; charset=utf-8");
  CHECK(get("/healthz") == plain_text(200, "ok"));
  CHECK(get("/healthz", {{"verbose", ""}}) ==
        plain_text(200, "[+]ping ok\nhealthz check passed\n"));
  CHECK(get("/healthz/ping") == plain_text(200, "ok"));
  CHECK(get("/configz") == json_text(200, configz));
  CHECK(get("/metrics").status == 200);
  CHECK(get("/metrics").content_type == "text/plain; version=0.0.4; charset=utf-8");
  CHECK(Exposition(get("/metrics").body).has("ipvsproxier_repairs_total"));
  for (const auto* path : {"/", "/metrics/slis", "/flagz", "/statusz", "/debug/pprof/", "/livez"})
    CHECK(get(path) == plain_text(404, "404 page not found\n"));
}

}  // namespace
}  // namespace ipvsproxier::serve
