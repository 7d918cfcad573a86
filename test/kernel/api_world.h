#pragma once

// ApiWorld: a network namespace with the test API server (in this process), a small cluster in it,
// the daemon as a process that follows it, and a judge of what the kernel holds.
//
// Changes go through the world, which announces to the judge what they make of the kernel: all that
// the cluster was and is since the kernel was last as it should be is right, nothing else. What is
// wrong on the way is told by the next check. The test's thread is inside the namespace as long as
// the world lives. Failures to set something up throw std::runtime_error or end the case.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "netlink/ip_address.h"
#include "test/kernel/daemon.h"
#include "test/kernel/kernel_judge.h"
#include "test/kernel/netns.h"
#include "test/kernel/patience.h"
#include "test/support/api_server/api_server.h"
#include "test/support/api_server/kubeconfig.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::test {

// One port 80, and endpoints of the address's family on port 8080. In namespace "default".
struct ApiService {
  std::string name;
  std::string address;
  std::vector<std::string> endpoints;
  netlink::Protocol protocol = netlink::Protocol::tcp;
};
using ApiCluster = std::map<std::string, ApiService>;

// "web" and "steady" over TCP, "dns" over UDP, "six" of IPv6.
ApiCluster small_cluster();

// What the kernel holds of it.
Facts facts_of(const ApiCluster& cluster);

struct ApiWorldOptions {
  ServerOptions server;            // with TLS of an authority made now if it has none
  KubeconfigParts client;          // but for where the server is, and that authority
  bool plain = false;              // no TLS
  std::vector<std::string> flags;  // more of the daemon's
  std::string sync_period = "30s";
};

class ApiWorld {
 public:
  // A server with the small cluster and Node n1.
  explicit ApiWorld(ApiWorldOptions options = {});

  ApiServer& server() { return *server_; }
  Daemon& daemon() { return daemon_; }
  KernelJudge& judge() { return judge_; }
  const Netns& netns() const { return netns_.netns(); }
  const ApiCluster& cluster() const { return cluster_; }

  // Starts the daemon and waits until it has programmed everything and follows.
  void follow(int timeout_ms = kPatience);
  // The same for a daemon that was started before the server was ready for it.
  void follow_on(int timeout_ms = kPatience);
  // Starts it again after its end; what is asked for and logged counts from here.
  void restart();

  // --- changes
  void put(const ApiService& service);
  // One after the other, told in one piece; the states between them are announced too.
  void put_all(const std::vector<ApiService>& services);
  void remove(const std::string& name);
  // With an annotation that makes the Service so large.
  void put_inflated(const ApiService& service, std::size_t bytes);
  // With this as fieldsV1 of the Service's managedFields, whether or not it is JSON.
  void put_raw(const ApiService& service, const std::string& fields);
  // The store as if it had come from a backup, with everything newer than `version`; while the
  // server is stopped.
  void restore(std::uint64_t version);
  // The same, and these are not in the backup.
  void lose(const std::vector<std::string>& names, std::uint64_t version);
  // Endpoints come and go of all but "steady", a Service comes, the one of last time goes. Never
  // twice the same.
  void disturb();

  // --- checks
  // The kernel is as the cluster is, soon; until then nothing was wrong.
  void check_reached(int timeout_ms = kPatience);
  // The kernel is as it was when the cluster was this one.
  void check_still(const ApiCluster& before);
  // Nothing was wrong so far, and is not in the next looks; the daemon runs and is healthy.
  void check_right();
  // /healthz says 200, soon: after a start the kernel is right a moment before.
  void check_healthy();
  // The daemon says this, at the latest after the time.
  void check_told(const std::string& text, int timeout_ms = kPatience);
  // Also the rules and other sets are as they were, and the daemon ends cleanly.
  void finish();

  // What the daemon asked for of a resource since the server forgot its requests, oldest first:
  // "stream", "page", "next page" or "watch VERSION", with " -> CODE" if that is not 200; a
  // request without an answer counts only if it has got one since. "question" is the one whether
  // the store is the same (reflector.h), left out if it was answered.
  std::vector<std::string> asked(Resource resource) const;
  // The server has been asked for the resource, and has begun to answer, so many times.
  bool was_asked(Resource resource, std::size_t times, int timeout_ms = kPatience) const;
  // Every one of what was asked for is a watch or that question, and there is a watch.
  bool only_watched(Resource resource) const;

 private:
  void announce() { judge_.announce(facts_of(cluster_)); }
  std::vector<std::string> flags();
  std::string client_file();
  std::string config_file();

  ApiWorldOptions options_;
  FreshNetns netns_;
  TempDir dir_;
  ApiCluster cluster_;
  std::unique_ptr<ApiServer> server_;
  KernelJudge judge_;
  Daemon daemon_;
  std::vector<std::string> rules_;
  int rounds_ = 0;
};

}  // namespace ipvsproxier::test
