#include "cmd/ipvsctl/diff/plan_input.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "cmd/api_client.h"
#include "cmd/log.h"
#include "cmd/node_check.h"
#include "proxier/access/access_choice.h"
#include "proxier/access/transport.h"
#include "proxier/api/decode.h"
#include "proxier/api/fields.h"
#include "proxier/api/json_value.h"
#include "proxier/loop/main_loop.h"
#include "proxier/manifests/manifest_source.h"
#include "proxier/watch/api_source.h"

namespace ipvsproxier::ctl {

namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Result;
using netlink::Status;

constexpr std::chrono::seconds kPatience{30};

Error malformed(std::string what) {
  return Error{ErrorKind::malformed, 0, std::move(what)};
}

Result<cmd::Options> options_of(const std::vector<std::string>& arguments,
                                const std::string& machine,
                                const std::optional<std::string>& config_text = std::nullopt) {
  std::vector<const char*> argv = {"ipvs-proxier"};
  for (const auto& argument : arguments) argv.push_back(argument.c_str());
  auto parsed =
      cmd::parse_options(static_cast<int>(argv.size()), argv.data(), machine, config_text);
  if (const auto* exit = std::get_if<cmd::Exit>(&parsed)) return malformed(exit->text);
  return std::get<cmd::Options>(std::move(parsed));
}

// Parses the daemon's flags again, with its effective configuration.
Result<cmd::Options> daemon_options(const api::JsonValue& settings) {
  api::Problems problems;
  api::Report report{.origin = "", .problems = problems};
  const api::Fields fields(settings, report);
  auto arguments = fields.texts("flags").value_or(std::vector<std::string>());
  const auto node = fields.text("node");
  arguments.push_back("--hostname-override=" + node);
  // Of a packet filter it chooses once.
  if (const auto filter = fields.text("packetFilter"); !filter.empty())
    arguments.push_back("--packet-filter=" + filter);
  const auto config = fields.find("config");
  if (report.refused) return malformed("the daemon's settings: " + to_string(problems.front()));
  return options_of(arguments, node, config ? to_json_text(*config) : "{}");
}

Status read_pages(ControlClient& daemon, api::ObjectKind kind, model::Changes& objects) {
  const auto target = fmt::format("/v1/objects?kind={}", api::to_string(kind));
  std::string next;
  do {
    const auto page =
        daemon.get(next.empty() ? target : target + "&after=" + access::encode_query(next));
    if (!page) return page.error();
    const auto document = api::JsonDocument::parse(*page);
    if (!document) return daemon.stranger();
    const auto items = document->root().find("items");
    if (!items) return malformed("the daemon's answer has no items");
    for (const auto& item : items->elements()) {
      api::Problems problems;
      auto object = api::decode_object(item, "", problems);
      if (!object)
        return malformed("an object of the daemon's: " +
                         (problems.empty() ? "unknown kind" : api::to_string(problems.front())));
      objects.put(*std::move(object));
    }
    const auto metadata = document->root().find("metadata");
    const auto more = metadata ? metadata->find("continue") : std::nullopt;
    next = more ? more->text().value_or("") : "";
  } while (!next.empty());
  return {};
}

Status list_from_server(const cmd::Options& options, const access::AccessSource& access,
                        model::Changes& objects, spdlog::logger& logger) {
  loop::MainLoop loop;
  cmd::ApiClient client(access, loop, logger);
  bool complete = false;
  watch::ApiSource source(options.node_name, client.transport, loop, client.random, std::nullopt,
                          logger, [&](model::Changes changes) {
                            complete = changes.complete.has_value();
                            // A Node that is deleted stays in force, as in the daemon.
                            if (changes.node && !*changes.node) changes.node.reset();
                            objects.merge(std::move(changes));
                            if (complete) loop.quit();
                          });
  source.start();
  loop.at("patience", loop.now() + kPatience, [&] { loop.quit(); });
  loop.run();
  if (!complete)
    return Error{ErrorKind::timeout, 0,
                 fmt::format("the API server's lists were not complete after {} s; what it said is "
                             "above",
                             kPatience.count())};
  return {};
}

Status read_objects(const cmd::Options& options, model::Changes& objects, spdlog::logger& logger) {
  if (!options.manifests.empty()) {
    auto manifests = manifests::load_manifests(options.manifests, options.node_name);
    objects = manifests::changes_of(manifests);
    cmd::log_problems(manifests.problems, logger);
    if (!manifests.complete)
      return malformed("not all manifests of " + options.manifests + " can be read");
    return {};
  }
  const auto choice = access::choose_access(options.config.client_connection.kubeconfig,
                                            options.master, access::PodPlace::from_environment());
  cmd::log_problems(choice.problems, logger);
  if (!choice.source) return malformed("no API server to ask: use --kubeconfig or --manifests");
  return list_from_server(options, *choice.source, objects, logger);
}

}  // namespace

Result<cmd::Options> options_of_daemon(ControlClient& daemon) {
  const auto text = daemon.get("/v1/settings");
  if (!text) return text.error();
  const auto settings = api::JsonDocument::parse(*text);
  if (!settings || !settings->root().is_object()) return daemon.stranger();
  return daemon_options(settings->root());
}

Result<cmd::Options> options_of_flags(const std::vector<std::string>& arguments) {
  return options_of(arguments, cmd::host_name());
}

Result<std::optional<api::Node>> node_of_daemon(ControlClient& daemon) {
  model::Changes objects;
  if (auto read = read_pages(daemon, api::ObjectKind::node, objects); !read) return read.error();
  return objects.node.value_or(std::nullopt);
}

Result<PlanInput> input_of_daemon(ControlClient& daemon) {
  auto options = options_of_daemon(daemon);
  if (!options) return options.error();
  PlanInput input{.options = *std::move(options), .objects = {}};
  // The Node first: the other objects must not be older than the Node that they are planned with.
  using enum api::ObjectKind;
  for (const auto kind : {node, service, endpoint_slice})
    if (auto read = read_pages(daemon, kind, input.objects); !read) return read.error();
  input.objects.complete = true;
  return input;
}

Result<PlanInput> input_of_flags(const std::vector<std::string>& arguments,
                                 const std::string& kubeconfig, spdlog::logger& logger) {
  auto options = options_of_flags(arguments);
  if (!options) return options.error();
  PlanInput input{.options = *std::move(options), .objects = {}};
  if (!kubeconfig.empty()) input.options.config.client_connection.kubeconfig = kubeconfig;
  cmd::log_problems(input.options.warnings, logger);
  if (auto read = read_objects(input.options, input.objects, logger); !read) return read.error();
  return input;
}

}  // namespace ipvsproxier::ctl
