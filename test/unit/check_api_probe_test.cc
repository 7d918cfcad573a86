#include "proxier/check/api_probe.h"

#include <optional>

#include <catch2/catch.hpp>

#include "test/fakes/manual_timers.h"
#include "test/fakes/scripted_transport.h"

namespace ipvsproxier::check {
namespace {

using namespace std::chrono_literals;

constexpr const char* kList =
    R"({"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]})";

struct ProbeRig {
  test::ScriptedTransport transport;
  test::ManualTimers timers;
  int done = 0;
  std::optional<ApiProbe> probe;

  explicit ProbeRig(std::vector<std::string> names = {"services"}) {
    std::vector<ApiResource> resources;
    for (auto& name : names)
      resources.push_back({name, api::ObjectKind::service, "/api/v1/" + name + "?a=b"});
    probe.emplace(std::move(resources), transport, timers, [this] { ++done; });
    probe->start();
  }
  std::vector<ApiFact> facts() const { return probe->facts(); }
};

TEST_CASE("one object is listed, then a watch is proven by its head") {
  ProbeRig rig;
  CHECK(rig.transport.take_targets() == std::vector<std::string>{"/api/v1/services?a=b&limit=1"});
  rig.transport.last().answer(200, kList);
  CHECK(rig.done == 0);
  const auto targets = rig.transport.take_targets();
  REQUIRE(targets.size() == 1);
  CHECK(targets[0].find("?a=b&watch=1&allowWatchBookmarks=true&resourceVersion=7&") !=
        std::string::npos);
  rig.transport.last().head(200);
  CHECK(rig.done == 1);
  CHECK(rig.transport.open_calls() == 0);
  CHECK(rig.timers.count() == 0);
  CHECK(rig.facts() == std::vector<ApiFact>{{"list services", ""}, {"watch services", ""}});
}

TEST_CASE("a list of Nodes without this node's is told") {
  test::ScriptedTransport transport;
  test::ManualTimers timers;
  ApiProbe probe({{"nodes", api::ObjectKind::node, "/api/v1/nodes?a=b"}}, transport, timers, [] {});
  probe.start();
  const auto items = GENERATE(as<std::string>(), "[]", "null", R"([{"metadata":{"name":"n1"}}])");
  transport.last().answer(
      200, R"({"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":)" +
               items + "}");
  REQUIRE(probe.facts().size() == 1);
  CHECK(probe.facts().at(0).error.empty());
  CHECK(probe.facts().at(0).has_none == (items.size() < 10));
}

TEST_CASE("what no daemon asks for is listed and not watched; the list is shown") {
  test::ScriptedTransport transport;
  test::ManualTimers timers;
  int done = 0;
  std::string shown;
  ApiProbe probe({{"all", api::ObjectKind::service, "/api/v1/services", 7,
                   [&](const std::string& list) { shown = list; }}},
                 transport, timers, [&] { ++done; });
  probe.start();
  CHECK(transport.take_targets() == std::vector<std::string>{"/api/v1/services?limit=7"});
  transport.last().answer(200, kList);
  CHECK(done == 1);
  CHECK(shown == kList);
  CHECK(transport.open_calls() == 0);
  CHECK(probe.facts() == std::vector<ApiFact>{{"list all", ""}});
}

TEST_CASE("samples are asked for after everything else, one by one") {
  test::ScriptedTransport transport;
  test::ManualTimers timers;
  int done = 0;
  const auto ignore = [](const std::string& /*list*/) {};
  ApiProbe probe({{"sample", api::ObjectKind::service, "/a", 7, ignore},
                  {"needed", api::ObjectKind::service, "/b?c=d"},
                  {"other", api::ObjectKind::service, "/e", 7, ignore}},
                 transport, timers, [&] { ++done; });
  probe.start();
  CHECK(transport.take_targets() == std::vector<std::string>{"/b?c=d&limit=1"});
  transport.last().answer(403, "");
  CHECK(transport.take_targets() == std::vector<std::string>{"/a?limit=7"});
  timers.advance(ApiProbe::kPatience + 1s);
  CHECK(transport.take_targets() == std::vector<std::string>{"/e?limit=7"});
  CHECK(done == 0);
  transport.last().answer(200, kList);
  CHECK(done == 1);
  REQUIRE(probe.facts().size() == 3);
  CHECK(probe.facts().at(0).question == "list needed");
  CHECK(probe.facts().at(1).question == "list sample");
  CHECK_FALSE(probe.facts().at(1).error.empty());
  CHECK(probe.facts().at(2) == ApiFact{"list other", ""});
}

TEST_CASE("a refusal is told in the server's words, and not asked further") {
  ProbeRig rig;
  rig.transport.last().answer(403, R"({"kind":"Status","apiVersion":"v1","status":"Failure",
      "message":"services is forbidden","reason":"Forbidden","code":403})");
  CHECK(rig.done == 1);
  CHECK(rig.facts() == std::vector<ApiFact>{{"list services", "HTTP 403: services is forbidden"}});

  ProbeRig second;
  second.transport.last().answer(200, kList);
  second.transport.last().answer(401, "");
  CHECK(second.done == 1);
  CHECK(second.facts().back() == ApiFact{"watch services", "HTTP 401"});
  CHECK(second.transport.refused_credentials == 1);
}

TEST_CASE("what is no list, no answer, and an answer without end") {
  ProbeRig nonsense;
  nonsense.transport.last().answer(200, "<html>");
  CHECK_FALSE(nonsense.facts().at(0).error.empty());

  ProbeRig broken;
  broken.transport.last().fail("connection refused");
  CHECK(broken.facts().at(0).error.find("connection refused") != std::string::npos);

  ProbeRig silent;
  silent.timers.advance(ApiProbe::kPatience - 1s);
  CHECK(silent.done == 0);
  silent.timers.advance(1s);
  CHECK(silent.done == 1);
  CHECK(silent.facts().at(0).error.find("in 5 s") != std::string::npos);
  CHECK(silent.transport.open_calls() == 0);

  ProbeRig endless;
  endless.transport.last().head(200);
  const std::string much(std::size_t{1} << 20U, ' ');
  for (int i = 0; i < 100 && endless.transport.is_waited_for(); ++i)
    endless.transport.last().send(much);
  CHECK(endless.done == 1);
  CHECK(endless.facts().at(0).error == "the answer is larger than 16 MiB");
}

TEST_CASE("all resources are asked at once; the end comes behind the last") {
  ProbeRig rig({"services", "slices"});
  CHECK(rig.transport.open_calls() == 2);
  rig.transport.call(1).fail("gone");
  CHECK(rig.done == 0);
  rig.transport.call(0).answer(200, kList);
  rig.transport.last().head(200);
  CHECK(rig.done == 1);
  CHECK(rig.facts().size() == 3);
}

TEST_CASE("a probe can be given up") {
  ProbeRig rig;
  rig.probe.reset();
  CHECK(rig.transport.open_calls() == 0);
  CHECK(rig.timers.count() == 0);
}

}  // namespace
}  // namespace ipvsproxier::check
