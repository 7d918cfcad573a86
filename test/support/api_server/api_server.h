#pragma once

// ApiServer: the API server of the tests. It answers lists and watches of Services, EndpointSlices
// and Nodes from a scripted store in the form in which kube-apiserver 1.36 does, keeps Events
// (events.h) that are posted and patched, and misbehaves as told (faults.h).
//
//   auto server = ApiServer::start({});
//   (*server)->put(make_service("shop", "web", "10.96.0.10"));       // objects.h
//   (*server)->wait_for_watches(Resource::services, 1);
//   (*server)->set_faults(Resource::services, {.tear = 7});
//
// Listens on 127.0.0.1 of the network namespace of the thread that starts it, on a port that the
// kernel chooses and that stays the same over stop() and resume(). Every method may be called from
// any thread. A connection is a thread of libmicrohttpd's. No method waits for a client unless it
// is called wait_*; those answer false after ten seconds.
//
// GET /livez is answered with "ok", a request for something else than the three resources and
// Events as a real server answers kube-proxy's user: 403 for what the core group has, 404
// otherwise.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/result.h"
#include "test/support/api_server/faults.h"
#include "test/support/api_server/resources.h"

namespace ipvsproxier::test {

// How a server shows who it is, and whom it lets in. Files are PEM.
struct ServerTls {
  std::string certificate;
  std::string key;
  std::string client_ca;            // a certificate of this CA is a credential; empty: none is
  bool client_ca_required = false;  // without one: 401, whatever the token
};

struct ServerOptions {
  std::optional<ServerTls> tls;
  // HTTP/2 and HTTP/1.1 by ALPN (by prior knowledge without TLS), by nghttpx before this server.
  bool http2 = false;
  std::string token;            // a bearer token that is asked for; empty: everybody is let in
  bool streaming_lists = true;  // false: answers sendInitialEvents with 422, as servers before it
  int streaming_refusal = 422;  // or with this
  int bookmark_seconds = 60;    // between bookmarks of a watch that has nothing to tell
  int future_wait_milliseconds =
      100;                 // before 504 for a version of the future (kube-apiserver: 3000)
  std::uint32_t seed = 1;  // of what is random
};

struct LoggedRequest {
  std::string method;
  std::string path;
  std::map<std::string, std::string> query;    // decoded
  std::map<std::string, std::string> headers;  // names in lower case
  std::string credential;                      // "token T", "certificate CN", "anonymous"
  std::string body;
  int status = 0;  // of the answer; 0: none was sent (a silent server)
};

class ApiServer {
 public:
  static netlink::Result<std::unique_ptr<ApiServer>> start(ServerOptions options);
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;
  ~ApiServer();  // ends every connection

  std::string url() const;     // "http://127.0.0.1:PORT", https with TLS
  std::uint16_t port() const;  // what clients connect to
  ServerOptions options() const;

  // --- the store (store.h says what the server adds to an object) --------------------------------
  // Adds or replaces; a JSON text with kind, or a List of such. An error names what is missing.
  netlink::Status put(std::string_view json);
  netlink::Status put_raw(std::string_view json, std::string_view raw);  // store.h
  // Several at once: a watch sees them in one piece.
  netlink::Status put_all(const std::vector<std::string>& objects);
  bool remove(Resource resource, std::string_view name, std::string_view name_space = "");
  // Replaces everything of a resource without history, as a server restored from a backup.
  void clear(Resource resource);
  std::uint64_t version() const;
  // Jumps: what was seen before is of a past that this server no longer knows after compact().
  void set_version(std::uint64_t version);
  // Forgets history: a list or watch from before is answered with 410 or an ERROR event.
  void compact();
  std::size_t count(Resource resource) const;
  std::string object(Resource resource, std::string_view name,
                     std::string_view name_space = "") const;

  // --- misbehaviour
  // --------------------------------------------------------------------------------
  void set_faults(Resource resource, Faults faults);
  void set_faults(Faults faults);  // of every resource and of Events
  void clear_faults();
  void end_watches(Resource resource);     // as at their timeout, at once
  void end_watches();                      // of every resource
  void expire_watches(Resource resource);  // an ERROR event with 410, then the end
  void expire_watches();
  void send_bookmark(Resource resource);
  void send_raw(Resource resource, std::string text);  // into every running watch, as it is
  void reset_connections();                            // RST to every client
  // Packets of clients are dropped and not acknowledged, and nothing is sent, as when the network
  // between is cut; connections last. Works by socket filters: needs no privilege, shows on
  // loopback. What it cannot show: ICMP errors, and loss in one direction only.
  void vanish();
  void reappear();
  void set_token(std::string token);
  netlink::Status set_tls(std::optional<ServerTls> tls);  // restarts, on the same port
  void set_streaming_lists(bool on);
  void stop();  // connections are refused
  netlink::Status resume();

  // --- what clients did
  // ----------------------------------------------------------------------------
  std::vector<LoggedRequest> requests() const;
  void clear_requests();
  // JSON of the Events that were accepted, as they are now, in the order of their first post.
  std::vector<std::string> events() const;
  std::size_t connections() const;               // open now
  std::size_t watches(Resource resource) const;  // running now
  bool wait_for_watches(Resource resource, std::size_t count) const;
  bool wait_for_requests(std::size_t count) const;
  bool wait_for(const std::function<bool(const ApiServer&)>& condition) const;  // polled

 private:
  struct Impl;
  explicit ApiServer(ServerOptions options);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ipvsproxier::test
