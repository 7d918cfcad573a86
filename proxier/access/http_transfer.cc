#include "proxier/access/http_transfer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "proxier/access/no_proxy.h"

namespace ipvsproxier::access {

namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Status;

using Url = std::unique_ptr<CURLU, netlink::HandleDeleter<curl_url_cleanup>>;

constexpr long kConnectMs = 15'000;

// Linux drops a connection whose peer was silent for kUserTimeoutMs with an unacknowledged probe or
// unacknowledged data, even before all probes were sent (tcp(7), TCP_USER_TIMEOUT).
constexpr int kKeepIdleSeconds = 10;
constexpr int kKeepIntervalSeconds = 5;
constexpr int kKeepCount = 3;
constexpr int kUserTimeoutMs = 20'000;

std::string part_of(const Url& url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, flags) != CURLUE_OK) return {};
  std::string copy(text);
  curl_free(text);
  return copy;
}

// The order in which curl reads its variables.
std::string no_proxy_of_environment() {
  for (const auto* name : {"no_proxy", "NO_PROXY"})
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  return {};
}

ErrorKind kind_of(CURLcode code) {
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return ErrorKind::timeout;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
      return ErrorKind::denied;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_WEIRD_SERVER_REPLY:
      return ErrorKind::malformed;
    default:
      return ErrorKind::io;
  }
}

// "Failed to connect to a port 1 after 3 ms: Connection refused": without the duration, the cause
// reads the same each time.
std::string without_duration(std::string text) {
  constexpr std::string_view kAfter = " after ";
  const auto at = text.find(kAfter);
  if (at == std::string::npos) return text;
  const auto end = text.find_first_not_of("0123456789", at + kAfter.size());
  if (end != std::string::npos && text.compare(end, 3, " ms") == 0) text.erase(at, end + 3 - at);
  return text;
}

// curl repeats an unparsable proxy URL, with its password: cut it off.
std::string without_password(std::string text) {
  if (!text.starts_with("Unsupported proxy")) return text;
  return "the URL of the proxy cannot be used; it is not shown, for a password may be in it";
}

// curl sets neither the number of probes nor a user timeout. A socket that refuses these options
// still carries requests, so failures are ignored.
int set_socket(void* /*user*/, curl_socket_t fd, curlsocktype /*purpose*/) noexcept {
  const auto set = [fd](int level, int option, int value) {
    static_cast<void>(setsockopt(fd, level, option, &value, sizeof value));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepCount);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
  return CURL_SOCKOPT_OK;
}

}  // namespace

std::string host_of(const std::string& url) {
  const Url parsed(curl_url());
  if (!parsed || curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return "";
  auto host = part_of(parsed, CURLUPART_HOST);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

Connections make_connections() {
  CURLSH* const share = curl_share_init();
  if (share != nullptr) curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_CONNECT);
  return {share, [](void* made) {
            if (made != nullptr) curl_share_cleanup(made);
          }};
}

HttpTransfer::HttpTransfer(const ClusterAccess& access, Request request, ResponseHandler& handler,
                           Connections connections)
    : server_(access.server),
      request_(std::move(request)),
      handler_(&handler),
      connections_(std::move(connections)) {
  if (easy_) prepare(access);
}

Status HttpTransfer::prepared() const {
  if (!easy_ || !connections_)
    return Error{.kind = ErrorKind::io, .where = server_ + ": no memory for curl"};
  if (refused_ != CURLE_OK)
    return Error{.kind = ErrorKind::malformed,
                 .where = server_ + ": curl refuses the request: " + curl_easy_strerror(refused_)};
  return {};
}

std::optional<netlink::IpAddress> HttpTransfer::peer() const {
  const char* text = nullptr;
  if (curl_easy_getinfo(easy_.get(), CURLINFO_PRIMARY_IP, &text) != CURLE_OK || text == nullptr)
    return std::nullopt;
  return netlink::IpAddress::parse(text);
}

bool HttpTransfer::made_connection() const {
  long connections = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_NUM_CONNECTS, &connections);
  return connections > 0;
}

bool HttpTransfer::is_multiplexed() const {
  long version = 0;
  return curl_easy_getinfo(easy_.get(), CURLINFO_HTTP_VERSION, &version) == CURLE_OK &&
         version >= CURL_HTTP_VERSION_2_0;
}

void HttpTransfer::on_done(int outcome) {
  auto* const handler = std::exchange(handler_, nullptr);
  if (handler != nullptr) handler->on_end(status_of(static_cast<CURLcode>(outcome)));
}

void HttpTransfer::append(List& list, const std::string& line) {
  curl_slist* const longer = curl_slist_append(list.get(), line.c_str());
  if (longer == nullptr) {
    refused_ = CURLE_OUT_OF_MEMORY;
    return;
  }
  static_cast<void>(list.release());
  list.reset(longer);
}

void HttpTransfer::set_blob(CURLoption option, const std::string& text) {
  curl_blob blob{};
  blob.data = const_cast<char*>(text.data());  // curl copies it
  blob.len = text.size();
  blob.flags = CURL_BLOB_COPY;
  set(option, &blob);
}

void HttpTransfer::prepare(const ClusterAccess& access) {
  set(CURLOPT_ERRORBUFFER, error_.data());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_SHARE, connections_.get());
  // Without this the destructor waits for a name server that does not answer.
  set(CURLOPT_QUICK_EXIT, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
  set(CURLOPT_SOCKOPTFUNCTION, &set_socket);
  set(CURLOPT_HEADERFUNCTION, &header_function);
  set(CURLOPT_HEADERDATA, this);
  set(CURLOPT_WRITEFUNCTION, &write_function);
  set(CURLOPT_WRITEDATA, this);
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  set(CURLOPT_ACCEPT_ENCODING, "gzip");
  if (!access.user_agent.empty()) set(CURLOPT_USERAGENT, access.user_agent.c_str());
  append(headers_, "Accept: application/json");
  prepare_url(access);
  prepare_tls(access);
  prepare_identity(access);
  prepare_request();
  set(CURLOPT_HTTPHEADER, headers_.get());
}

// curl takes the TLS name from the URL. For another TLS name the URL gets that name, while the
// connection goes to the server, and the Host header names the server.
void HttpTransfer::prepare_url(const ClusterAccess& access) {
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  const std::string url = access.server + request_.target;
  const Url parsed(curl_url());
  if (!parsed || curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) {
    refused_ = CURLE_URL_MALFORMAT;
    return;
  }
  // Prefer a stream of a connection in progress to a new connection. Without TLS there is no
  // HTTP/2, and the others would wait until the first exchange ends.
  if (part_of(parsed, CURLUPART_SCHEME) == "https") set(CURLOPT_PIPEWAIT, 1L);
  const auto host = part_of(parsed, CURLUPART_HOST);
  const auto port = part_of(parsed, CURLUPART_PORT);
  prepare_proxy(access, host, part_of(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT));
  if (access.tls_server_name.empty()) {
    set(CURLOPT_URL, url.c_str());
    return;
  }
  if (curl_url_set(parsed.get(), CURLUPART_HOST, access.tls_server_name.c_str(), 0) != CURLUE_OK) {
    refused_ = CURLE_URL_MALFORMAT;
    return;
  }
  // An empty name and port in CONNECT_TO match all.
  append(connect_to_, "::" + host + ":" + part_of(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT));
  set(CURLOPT_CONNECT_TO, connect_to_.get());
  set(CURLOPT_URL, part_of(parsed, CURLUPART_URL).c_str());
  append(headers_, "Host: " + host + (port.empty() ? "" : ":" + port));
}

// curl finds the environment's proxy by itself. But NO_PROXY is checked here, because curl would
// compare the name in the URL.
void HttpTransfer::prepare_proxy(const ClusterAccess& access, const std::string& host,
                                 const std::string& port) {
  const bool is_named = !access.proxy_url.empty();
  if (is_named) set(CURLOPT_PROXY, access.proxy_url.c_str());
  const bool is_direct = !is_named && is_in_no_proxy(no_proxy_of_environment(), host, port);
  set(CURLOPT_NOPROXY, is_direct ? "*" : "");
}

void HttpTransfer::prepare_tls(const ClusterAccess& access) {
  set(CURLOPT_SSL_VERIFYPEER, access.insecure_skip_tls_verify ? 0L : 1L);
  set(CURLOPT_SSL_VERIFYHOST, access.insecure_skip_tls_verify ? 0L : 2L);
  if (!access.ca_pem.empty()) {
    set_blob(CURLOPT_CAINFO_BLOB, access.ca_pem);
    // Otherwise the folder of the system's authorities would be trusted as well.
    set(CURLOPT_CAPATH, static_cast<char*>(nullptr));
  }
  if (!access.client_certificate_pem.empty()) {
    set_blob(CURLOPT_SSLCERT_BLOB, access.client_certificate_pem);
    set(CURLOPT_SSLCERTTYPE, "PEM");
    set_blob(CURLOPT_SSLKEY_BLOB, access.client_key_pem);
    set(CURLOPT_SSLKEYTYPE, "PEM");
  }
}

void HttpTransfer::prepare_identity(const ClusterAccess& access) {
  if (!access.bearer_token.empty()) {
    append(headers_, "Authorization: Bearer " + access.bearer_token);
  } else if (!access.username.empty()) {
    set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BASIC));
    set(CURLOPT_USERNAME, access.username.c_str());
    set(CURLOPT_PASSWORD, access.password.c_str());
  }
}

void HttpTransfer::prepare_request() {
  if (request_.method == Method::get) return;
  set(CURLOPT_POST, 1L);
  if (request_.method == Method::patch) set(CURLOPT_CUSTOMREQUEST, "PATCH");
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
  set(CURLOPT_POSTFIELDS, request_.body.data());  // not copied: must live as long as the handle
  append(headers_, "Content-Type: " + request_.content_type);
}

Status HttpTransfer::status_of(CURLcode code) const {
  if (code == CURLE_OK && head_told_) return {};
  if (code == CURLE_OK)
    return Error{.kind = ErrorKind::malformed, .where = server_ + ": no HTTP answer"};
  std::string text = error_[0] != '\0' ? without_password(without_duration(error_.data()))
                                       : curl_easy_strerror(code);
  // For an authority with the right name and another key, OpenSSL says "asn1 encoding routines".
  if (code == CURLE_SSL_CONNECT_ERROR)
    text += "; does it speak TLS, with a certificate of the configured authority?";
  Error error{.kind = kind_of(code), .where = server_ + ": " + text};
  long os_errno = 0;
  if (code == CURLE_COULDNT_CONNECT &&
      curl_easy_getinfo(easy_.get(), CURLINFO_OS_ERRNO, &os_errno) == CURLE_OK)
    error.sys_errno = static_cast<int>(os_errno);
  return error;
}

// An empty line ends each head (also of an interim response) and the trailers.
std::size_t HttpTransfer::take_header(std::string_view line) {
  if (handler_ == nullptr) return 0;
  if (head_told_ || line.find_first_not_of("\r\n") != std::string_view::npos) return line.size();
  long status = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status < 200) return line.size();
  head_told_ = true;
  curl_off_t seconds = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_RETRY_AFTER, &seconds);
  ResponseHead head{.status = static_cast<int>(status)};
  if (seconds > 0) head.retry_after = std::chrono::seconds(seconds);
  handler_->on_head(head);
  return line.size();
}

// Returning less than `size` ends the transfer.
std::size_t HttpTransfer::take_chunk(std::string_view chunk) {
  if (handler_ != nullptr && !chunk.empty()) handler_->on_chunk(chunk);
  return handler_ != nullptr ? chunk.size() : 0;
}

}  // namespace ipvsproxier::access
