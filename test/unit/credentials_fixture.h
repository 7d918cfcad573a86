#pragma once

// Credentials on a loop of their own, with files in a folder of their own and clocks that stand
// still; and what they log.

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <catch2/catch.hpp>

#include "proxier/access/credentials.h"
#include "test/support/files.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::test {

struct CredentialsFixture {
  TempDir folder;
  loop::MainLoop loop;
  std::ostringstream logged;
  spdlog::logger log{"test", std::make_shared<spdlog::sinks::ostream_sink_mt>(logged)};
  std::chrono::steady_clock::time_point steady = std::chrono::steady_clock::now();
  std::chrono::system_clock::time_point wall{std::chrono::seconds(1'800'000'000)};
  access::AccessSource source{.origin = "proxy.conf: user u",
                              .fixed = {.server = "https://10.0.0.1:6443"}};
  std::optional<access::Credentials> credentials;

  CredentialsFixture() { log.set_pattern("%l: %v"); }

  std::string path(const std::string& name) const { return (folder.path() / name).native(); }
  void write(const std::string& name, const std::string& text) const {
    write_file(folder.path() / name, text);
  }

  // What there is in `source` by now.
  access::Credentials& start() {
    credentials.emplace(loop, source, log,
                        access::CredentialsClock{.steady = [this] { return steady; },
                                                 .wall = [this] { return wall; }});
    return *credentials;
  }

  std::string take_log() {
    auto text = logged.str();
    logged.str("");
    return text;
  }

  // What a request uses now, be it that it must wait for it.
  access::Credentials::Answer answer() {
    if (auto now = credentials->current()) return std::move(*now);
    std::optional<access::Credentials::Answer> later;
    const auto wait = credentials->when_known([&](const auto& access) {
      later = access;
      loop.quit();
    });
    REQUIRE(!later);
    loop.run();
    REQUIRE(later);
    return std::move(*later);
  }
  access::ClusterAccess access() {
    auto answered = answer();
    INFO((answered ? "" : to_string(answered.error())));
    REQUIRE(answered);
    return std::move(*answered);
  }
  std::string token() { return access().bearer_token; }
  std::string error() {
    const auto answered = answer();
    REQUIRE(!answered);
    return to_string(answered.error());
  }
};

}  // namespace ipvsproxier::test
