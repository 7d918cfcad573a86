// Whatever a manifest file holds, reading it ends with objects that proxying may trust and with
// problems that a person can read.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "proxier/manifests/manifest_source.h"

namespace ipvsproxier::manifests {
namespace {

constexpr std::string_view kNode = "n1";

void require(bool condition) {
  if (!condition) std::abort();
}

struct Check {
  void operator()(const api::Service& service) const {
    require(!service.name.ns.empty() && !service.name.name.empty());
    require(!service.headless && service.cluster_ips.size() <= 2);
    require(service.cluster_ips.empty() || service.type == api::ServiceType::external_name ||
            !service.ports.empty());
    for (const auto& port : service.ports) require(port.port != 0);
  }
  void operator()(const api::EndpointSlice& slice) const {
    require(!slice.name.ns.empty() && !slice.name.name.empty());
    for (const auto& port : slice.ports) require(port.port != 0);
    for (const auto& endpoint : slice.endpoints) require(endpoint.address.family() == slice.family);
  }
  void operator()(const api::Node& node) const { require(node.name == kNode); }
};

}  // namespace
}  // namespace ipvsproxier::manifests

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ipvsproxier;
  using namespace ipvsproxier::manifests;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::array files = {read_manifest_text(text, "f", kNode)};
  const manifests::ManifestFile& file = files[0];
  require(file.has_documents || (file.objects.empty() && file.problems.empty()));
  for (const auto& problem : file.problems)
    require(problem.origin[0] == 'f' && !problem.message.empty());
  for (const auto& object : file.objects) {
    require(!api::describe(object).empty());
    std::visit(Check{}, object);
  }
  // Each object is taken or complained of.
  const auto merged = merge_manifests(files);
  require(merged.objects.size() + merged.problems.size() ==
          file.objects.size() + file.problems.size());
  return 0;
}
