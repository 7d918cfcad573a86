#include "test/support/api_server/front.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "netlink/unique_fd.h"
#include "test/support/api_server/answers.h"
#include "test/support/api_server/body.h"
#include "test/support/api_server/socket_faults.h"

namespace ipvsproxier::test {
namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::make_error;
using netlink::Operation;
using netlink::Result;

// Go's HTTP server writes a body of up to 2 KB in one piece with its length, larger ones in chunks.
constexpr std::size_t kOnePiece = 2048;

// One request while it comes in.
struct Exchange {
  LoggedRequest request;
  bool answered = false;
};

Result<netlink::UniqueFd> listen_on(std::uint16_t port) {
  netlink::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return make_error(Operation::generic, errno, "open a socket for the test API server");
  const int yes = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(fd.get(), 128) != 0)
    return make_error(Operation::generic, errno, fmt::format("listen on 127.0.0.1 {}", port));
  return fd;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
  });
  return text;
}

MHD_Result add_header(void* headers, MHD_ValueKind, const char* key, const char* value) {
  (*static_cast<std::map<std::string, std::string>*>(headers))[lower(key)] = value ? value : "";
  return MHD_YES;
}

MHD_Result add_argument(void* query, MHD_ValueKind, const char* key, const char* value) {
  (*static_cast<std::map<std::string, std::string>*>(query))[key] = value ? value : "";
  return MHD_YES;
}

int socket_of(MHD_Connection* connection) {
  const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info == nullptr ? -1 : info->connect_fd;
}

// The common name of a client certificate that the CA vouches for.
std::optional<std::string> certificate_name(MHD_Connection* connection) {
  const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
  if (info == nullptr || info->tls_session == nullptr) return std::nullopt;
  auto* session = static_cast<gnutls_session_t>(info->tls_session);
  unsigned wrong = 0;
  unsigned count = 0;
  const auto* certificates = gnutls_certificate_get_peers(session, &count);
  if (certificates == nullptr || count == 0) return std::nullopt;
  if (gnutls_certificate_verify_peers2(session, &wrong) != 0 || wrong != 0) return std::nullopt;
  gnutls_x509_crt_t certificate = nullptr;
  if (gnutls_x509_crt_init(&certificate) != 0) return std::nullopt;
  std::array<char, 256> name{};
  std::size_t size = name.size();
  const bool read = gnutls_x509_crt_import(certificate, certificates, GNUTLS_X509_FMT_DER) == 0 &&
                    gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0,
                                                  name.data(), &size) == 0;
  gnutls_x509_crt_deinit(certificate);
  if (!read) return std::nullopt;
  return std::string(name.data(), size);
}

void add_common_headers(MHD_Response* response, const Answer& answer, std::uint32_t number) {
  const auto add = [&](const char* name, const std::string& value) {
    MHD_add_response_header(response, name, value.c_str());
  };
  add("Audit-Id", fmt::format("{:08x}-7c1d-4a52-8e0b-a0d1f00d0000", number));
  add("Cache-Control", "no-cache, private");
  if (std::ranges::none_of(answer.headers,
                           [](const auto& own) { return own.first == "Content-Type"; }))
    add("Content-Type", "application/json");
  for (const auto& [name, value] : answer.headers) add(name.c_str(), value);
  if (answer.code == 401) return;  // nobody, hence of no flow
  add("X-Kubernetes-Pf-Flowschema-Uid", "bf6ac0ee-0000-4000-a000-000000000001");
  add("X-Kubernetes-Pf-Prioritylevel-Uid", "d82144a6-0000-4000-a000-000000000002");
}

ssize_t read_body(void* body, std::uint64_t, char* out, std::size_t size) {
  const auto bytes = static_cast<Body*>(body)->read(out, size);
  if (bytes == Body::kEnd) return MHD_CONTENT_READER_END_OF_STREAM;
  return bytes == Body::kBroken ? MHD_CONTENT_READER_END_WITH_ERROR : bytes;
}

void free_body(void* body) {
  delete static_cast<Body*>(body);
}

MHD_Result respond(ServerState& state, MHD_Connection* connection, Exchange& exchange) {
  auto& request = exchange.request;
  request.credential = credential_of(request, certificate_name(connection));
  std::size_t number = 0;
  {
    const loop::MutexLock lock(state.mutex);
    state.log.push_back(request);
    number = state.log_cleared + state.log.size() - 1;
    state.changed.notify_all();
  }
  const auto resource = target_of(request.path).resource;
  const int socket = socket_of(connection);
  if (!wait_while_silent(state, resource, socket)) return MHD_NO;

  auto given = answer(state, request);
  {
    const loop::MutexLock lock(state.mutex);
    if (number >= state.log_cleared) state.log[number - state.log_cleared].status = given.code;
    state.changed.notify_all();
  }
  const auto size = given.watch || given.body.size() > kOnePiece
                        ? MHD_SIZE_UNKNOWN
                        : static_cast<std::uint64_t>(given.body.size());
  const auto code = static_cast<unsigned>(given.code);
  auto body = std::make_unique<Body>(state, resource, socket, given);
  MHD_Response* response =
      MHD_create_response_from_callback(size, 64 * 1024, read_body, body.get(), free_body);
  if (response == nullptr) return MHD_NO;
  static_cast<void>(body.release());  // the response's now
  add_common_headers(response, given, static_cast<std::uint32_t>(number));
  const auto queued = MHD_queue_response(connection, code, response);
  MHD_destroy_response(response);
  return queued;
}

MHD_Result handle(void* state, MHD_Connection* connection, const char* url, const char* method,
                  const char*, const char* upload, std::size_t* upload_size, void** context) {
  if (*context == nullptr) {
    auto exchange = std::make_unique<Exchange>();
    exchange->request.method = method;
    exchange->request.path = url;
    MHD_get_connection_values(connection, MHD_HEADER_KIND, add_header, &exchange->request.headers);
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add_argument,
                              &exchange->request.query);
    *context = exchange.release();
    return MHD_YES;
  }
  auto& exchange = *static_cast<Exchange*>(*context);
  if (*upload_size > 0) {
    exchange.request.body.append(upload, *upload_size);
    *upload_size = 0;
    return MHD_YES;
  }
  if (std::exchange(exchange.answered, true)) return MHD_YES;
  return respond(*static_cast<ServerState*>(state), connection, exchange);
}

void completed(void*, MHD_Connection*, void** context, MHD_RequestTerminationCode) {
  delete static_cast<Exchange*>(*context);
  *context = nullptr;
}

void connection_changed(void* given, MHD_Connection* connection, void**,
                        MHD_ConnectionNotificationCode what) {
  auto& state = *static_cast<ServerState*>(given);
  const int socket = socket_of(connection);
  const loop::MutexLock lock(state.mutex);
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    state.sockets.insert(socket);
    if (state.vanished && !state.options.http2) drop_packets(socket, true);
  } else {
    state.sockets.erase(socket);
  }
  state.changed.notify_all();
}

std::vector<MHD_OptionItem> options_of(const std::optional<ServerTls>& tls, int listener) {
  std::vector<MHD_OptionItem> options{
      {MHD_OPTION_LISTEN_SOCKET, listener, nullptr},
      {MHD_OPTION_CONNECTION_MEMORY_LIMIT, 256 * 1024, nullptr},
  };
  const auto text = [&](MHD_OPTION option, const std::string& pem) {
    if (!pem.empty()) options.push_back({option, 0, const_cast<char*>(pem.c_str())});
  };
  if (tls) {
    text(MHD_OPTION_HTTPS_MEM_CERT, tls->certificate);
    text(MHD_OPTION_HTTPS_MEM_KEY, tls->key);
    text(MHD_OPTION_HTTPS_MEM_TRUST, tls->client_ca);
  }
  options.push_back({MHD_OPTION_END, 0, nullptr});
  return options;
}

}  // namespace

struct Front::Daemon {
  std::optional<ServerTls> tls;
  netlink::UniqueFd listener;  // libmicrohttpd has a copy
  MHD_Daemon* daemon = nullptr;
};

Front::Front(ServerState& state) : state_(state), daemon_(std::make_unique<Daemon>()) {}

int Front::listener() const {
  return daemon_->listener.get();
}

Result<std::unique_ptr<Front>> Front::start(ServerState& state, std::uint16_t port, bool tls) {
  auto listener = listen_on(port);
  if (!listener) return listener.error();
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (getsockname(listener->get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return make_error(Operation::generic, errno, "read the test API server's port");

  std::unique_ptr<Front> front(new Front(state));
  front->port_ = ntohs(address.sin_port);
  if (tls) {
    const loop::MutexLock lock(state.mutex);
    front->daemon_->tls = state.options.tls;
  }
  const int copy = fcntl(listener->get(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return make_error(Operation::generic, errno, "copy a descriptor");
  auto options = options_of(front->daemon_->tls, copy);
  const unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
                         MHD_USE_POLL | (front->daemon_->tls ? MHD_USE_TLS : MHD_NO_FLAG);
  front->daemon_->daemon =
      MHD_start_daemon(flags, 0, nullptr, nullptr, handle, &state, MHD_OPTION_NOTIFY_COMPLETED,
                       completed, nullptr, MHD_OPTION_NOTIFY_CONNECTION, connection_changed, &state,
                       MHD_OPTION_ARRAY, options.data(), MHD_OPTION_END);
  if (front->daemon_->daemon == nullptr) {
    ::close(copy);
    return Error{ErrorKind::io, 0, "start libmicrohttpd: certificate or key are refused"};
  }
  front->daemon_->listener = *std::move(listener);
  return front;
}

Front::~Front() {
  if (daemon_->daemon == nullptr) return;
  {
    const loop::MutexLock lock(state_.mutex);
    state_.stopping = true;
    state_.changed.notify_all();
  }
  MHD_stop_daemon(daemon_->daemon);
  const loop::MutexLock lock(state_.mutex);
  state_.stopping = false;
  state_.sockets.clear();
}

}  // namespace ipvsproxier::test
