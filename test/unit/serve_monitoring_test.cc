// Alerts and board (manifests/monitoring) ask for metrics that are served, by labels that they
// have.

#include <regex>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "proxier/serve/metrics.h"
#include "proxier/serve/service_figures.h"
#include "test/support/files.h"
#include "test/support/paths.h"
#include "test/support/test_clock.h"

namespace ipvsproxier::serve {
namespace {

// What Prometheus or the PodMonitor adds to each sample.
const std::set<std::string> kAddedLabels = {"node", "job", "le"};

struct Served {
  std::set<std::string> names;  // of samples, so with _bucket, _sum, _count
  std::set<std::string> labels;
};

Served served() {
  test::TestClock clock;
  Status status({}, clock.clock());
  status.watch_heard(Resource::services);
  Metrics metrics({.version = "1.2.3"});
  metrics.node_known(true);  // absent before the first lists
  const auto text = metrics.exposition(
      status, figures_text({{.service = {"default", "web"}, .port = "http", .kind = "ClusterIP"}}));
  Served result{.labels = kAddedLabels};
  static const std::regex kSample(R"((?:^|\n)([a-z_]+)(\{[^\n]*\})? )");
  static const std::regex kLabel(R"(([a-z_]+)=")");
  for (std::sregex_iterator at(text.begin(), text.end(), kSample), end; at != end; ++at) {
    result.names.insert((*at)[1]);
    const std::string labels = (*at)[2];
    for (std::sregex_iterator label(labels.begin(), labels.end(), kLabel); label != end; ++label)
      result.labels.insert((*label)[1]);
  }
  return result;
}

std::set<std::string> found_in(const std::string& text, const std::string& pattern) {
  std::set<std::string> found;
  const std::regex expression(pattern);
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at)
    found.insert((*at)[1]);
  return found;
}

// The words of "by (le, node)".
std::set<std::string> grouped_by(const std::string& text) {
  std::set<std::string> labels;
  for (const auto& list : found_in(text, R"(\bby \(([^)]*)\))"))
    labels.merge(found_in(list, "([a-z_]+)"));
  return labels;
}

void check(const std::string& file, std::size_t least) {
  const auto text = test::read_file(test::data_path("../manifests/monitoring/") + file);
  const auto known = served();
  const auto asked = found_in(text, R"(\b((?:kubeproxy|ipvsproxier|process|kubernetes)_[a-z_]+))");
  CHECK(asked.size() >= least);
  for (const auto& name : asked) {
    INFO(name);
    CHECK(known.names.contains(name));
  }
  auto labels = grouped_by(text);
  labels.merge(found_in(text, R"(\$labels\.([a-z_]+))"));
  labels.merge(found_in(text, R"(\{\{([a-z_]+)\}\})"));
  labels.merge(found_in(text, R"([{,] *([a-z_]+)(?:=~|=)\\?")"));
  CHECK(labels.size() >= 3);
  for (const auto& label : labels) {
    INFO(label);
    CHECK(known.labels.contains(label));
  }
}

TEST_CASE("alerts ask for what is served") {
  check("alerts.yaml", 6);
}

TEST_CASE("the board asks for what is served") {
  check("ipvs-proxier.json", 22);
}

}  // namespace
}  // namespace ipvsproxier::serve
