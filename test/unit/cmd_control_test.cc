// What the daemon answers on its control socket and beside it, while its sync thread does not.

#include "cmd/ipvs_proxier/control.h"

#include <atomic>
#include <filesystem>
#include <memory>
#include <thread>

#include <spdlog/sinks/null_sink.h>
#include <catch2/catch.hpp>

#include "cmd/command_line.h"
#include "cmd/ipvsctl/control_client.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::cmd {
namespace {

TEST_CASE("probes are answered while a question waits for the sync thread") {
  const test::TempDir dir;
  Options options;
  options.control_socket = (dir.path() / "control.sock").string();
  SyncMail nobody_reads;
  const serve::Status status;
  spdlog::logger logger("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  std::atomic<bool> answered = false;
  std::jthread caller;
  {
    Control control(options, {}, nobody_reads, status, logger);
    caller = std::jthread([&] {
      ctl::ControlClient client(options.control_socket);
      static_cast<void>(client.get("/v1/objects?kind=Service"));
      answered = true;
    });
    while (!nobody_reads.urgent()) std::this_thread::yield();
    ctl::ControlClient probe(probe_socket(options.control_socket));
    const auto health = probe.get("/v1/health");
    REQUIRE(health.has_value());
    CHECK(health->find("\"healthz\":false") != std::string::npos);
    CHECK_FALSE(answered);
  }
  CHECK_FALSE(std::filesystem::exists(probe_socket(options.control_socket)));
}

}  // namespace
}  // namespace ipvsproxier::cmd
