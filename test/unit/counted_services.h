#pragma once

// Services whose traffic figures are read, for tests of FiguresReader.

#include <cstdint>
#include <string>

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::test {

inline netlink::IpvsTraffic traffic(std::uint64_t connections, std::uint64_t each = 10) {
  return {.connections = connections,
          .packets_in = connections * each,
          .packets_out = connections * each,
          .bytes_in = connections * each * 100,
          .bytes_out = connections * each * 1000};
}

inline api::Service service_at(const std::string& name, const std::string& address) {
  auto service = web_service();
  service.name.name = name;
  service.cluster_ips = {ip(address)};
  return service;
}

inline FakeDaemon counting(model::ServiceMetrics which = model::ServiceMetrics::all) {
  return FakeDaemon({.service_metrics = which});
}

inline serve::ServiceFigures scraped(FakeDaemon& daemon) {
  const auto figures = daemon.scrape();
  REQUIRE(figures);
  REQUIRE(figures->size() == 1);
  return figures->front();
}

}  // namespace ipvsproxier::test
