#include "cmd/api_client.h"

#include <memory>
#include <random>
#include <utility>

#include "cmd/options.h"

namespace ipvsproxier::cmd {

namespace {

std::function<double()> dice() {
  // Copies of the function share one generator.
  return [random = std::make_shared<std::mt19937>(std::random_device()())] {
    return std::generate_canonical<double, 32>(*random);
  };
}

}  // namespace

ApiClient::ApiClient(access::AccessSource access, loop::MainLoop& loop, spdlog::logger& logger)
    : random(dice()),
      credentials(loop, std::move(access), logger),
      transport(loop, credentials),
      events(host_name(), transport, loop, random, logger) {}

}  // namespace ipvsproxier::cmd
