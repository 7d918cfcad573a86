#include "cmd/ipvs_proxier/daemon.h"

#include <malloc.h>

#include <csignal>
#include <cstring>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cmd/api_client.h"
#include "cmd/ipvs_proxier/cluster_feed.h"
#include "cmd/ipvs_proxier/config_watch.h"
#include "cmd/ipvs_proxier/control.h"
#include "cmd/ipvs_proxier/kernel_feed.h"
#include "cmd/ipvs_proxier/object_feed.h"
#include "cmd/ipvs_proxier/process.h"
#include "cmd/ipvs_proxier/servers.h"
#include "cmd/ipvs_proxier/service_manager.h"
#include "cmd/kernel_tables.h"
#include "cmd/log.h"
#include "cmd/settings.h"
#include "ipset/rules/packet_filter_choice.h"
#include "proxier/access/access_choice.h"
#include "proxier/loop/mailbox.h"
#include "proxier/loop/main_loop.h"
#include "proxier/serve/service_figures.h"
#include "proxier/sync/sync_thread.h"

namespace ipvsproxier::cmd {

namespace {

// How to reach the API server; logs problems.
std::optional<access::AccessSource> api_access(const Options& options, spdlog::logger& logger) {
  auto choice = access::choose_access(options.config.client_connection.kubeconfig, options.master,
                                      access::PodPlace::from_environment());
  log_problems(choice.problems, logger);
  return std::move(choice.source);
}

// Sends the last Events, which say why the process ends; waits only shortly.
void deliver_events(loop::MainLoop& loop, watch::EventRecorder& events) {
  constexpr std::chrono::seconds kLongest{3};
  if (events.idle()) return;
  events.on_idle([&loop] { loop.quit(); });
  loop.at("last Events", loop.now() + kLongest, [&loop] { loop.quit(); });
  loop.run();
}

// Has the sync thread read traffic figures.
std::function<void()> figures_asker(SyncMail& mail) {
  return [&mail] {
    sync::SyncInput input;
    input.figures = true;
    mail.put(std::move(input));
  };
}

}  // namespace

int run_daemon(const Options& options, spdlog::logger& logger) {
  std::optional<access::AccessSource> access;
  if (options.manifests.empty() && !(access = api_access(options, logger))) return 1;
  if (const auto raised = raise_descriptor_limit(); !raised)
    logger.warn("{}; going on with what there is", netlink::to_string(raised.error()));
  // One malloc arena for all threads: the sync thread can reuse memory that the main thread frees
  // after a list. A second arena would also grow by a system call (mprotect) for every page.
  ::mallopt(M_ARENA_MAX, 1);
  loop::MainLoop loop;
  // Before other threads start, which inherit the blocked signals.
  loop.on_signals({SIGTERM, SIGINT}, [&](int number) {
    logger.info("{}: ending; the kernel stays as it is", strsignal(number));
    loop.quit();
  });
  std::optional<ApiClient> client;
  if (access) client.emplace(*std::move(access), loop, logger);
  auto* const events = client ? &client->events : nullptr;
  const auto opened = open_kernel_tables(options, logger);
  if (!opened) return 1;
  const auto& tables = *opened;
  auto settings = host_reconciler_settings(options, tables, logger);
  const auto& families = settings.options.families;
  // After the modules are loaded, and before other threads start.
  confine_process(options.config, logger);
  SyncMail mail;
  serve::FiguresDesk figures(figures_asker(mail));
  settings.publish_figures = [&figures](serve::FiguresPart part) { figures.put(std::move(part)); };
  const bool counts = options.service_metrics != model::ServiceMetrics::off;
  Servers servers(options, families, loop, counts ? &figures : nullptr, events, logger);
  servers.metrics().packet_filter(to_string(tables.chosen.filter), tables.chosen.reason);
  if (!servers.start()) {
    if (events != nullptr) deliver_events(loop, *events);
    return 1;
  }
  ObjectFeed* feed = nullptr;  // for the main thread; set before other threads start
  if (client && options.mass_removal_brake)
    settings.doubt_first_lists = [&] { loop.post([&feed] { feed->doubt_first_lists(); }); };
  settings.input_waits = [&mail] { return mail.waiting(); };
  settings.progress = [&servers] { servers.status().sync_heartbeat().beat(); };
  sync::Reconciler reconciler(tables.kernel(), settings, logger);
  int status = 0;
  ClusterFeed cluster(options, families, loop, mail, servers, logger, [&] {
    status = 1;
    loop.quit();
  });
  const auto objects = client ? follow_api(options, *client, loop, cluster, servers, logger)
                              : follow_manifests(options, loop, cluster, servers, logger);
  feed = objects.get();
  const KernelFeed kernel(loop, mail, tables, options.bind_by_routes, logger);
  // A changed configuration takes effect by a restart.
  const ConfigWatch config(options, loop, logger, [&loop] { loop.quit(); });
  objects->start();
  sync::Publisher publisher(servers.status(), servers.metrics(), families);
  const ServiceManager manager(loop, servers.status());
  const Control control(options, tables.chosen, mail, servers.status(), logger);
  const sync::SyncThread thread(reconciler, mail, options.config.ipvs.min_sync_period, publisher);
  loop.run();
  return status;
}

}  // namespace ipvsproxier::cmd
