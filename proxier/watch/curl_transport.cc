#include "proxier/watch/curl_transport.h"

#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "netlink/handle_deleter.h"
#include "proxier/watch/no_proxy.h"

namespace ipvsproxier::watch {

namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Status;

using Easy = std::unique_ptr<CURL, netlink::HandleDeleter<curl_easy_cleanup>>;
using List = std::unique_ptr<curl_slist, netlink::HandleDeleter<curl_slist_free_all>>;
using Url = std::unique_ptr<CURLU, netlink::HandleDeleter<curl_url_cleanup>>;

constexpr long kConnectMs = 15'000;

// Linux drops a connection when its peer was silent for kUserTimeoutMs with a probe or data
// unacknowledged, also before all probes were sent (tcp(7), TCP_USER_TIMEOUT).
constexpr int kKeepIdleSeconds = 10;
constexpr int kKeepIntervalSeconds = 5;
constexpr int kKeepCount = 3;
constexpr int kUserTimeoutMs = 20'000;

bool append(List& list, const std::string& line) {
  curl_slist* const longer = curl_slist_append(list.get(), line.c_str());
  if (longer == nullptr) return false;
  static_cast<void>(list.release());
  list.reset(longer);
  return true;
}

std::string part_of(const Url& url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, flags) != CURLUE_OK) return {};
  std::string copy(text);
  curl_free(text);
  return copy;
}

// As curl reads its variables.
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

// curl gives sockets no count of probes and no user timeout. A socket that refuses them still
// carries requests, so nothing here is an error.
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

// One request on its way. The handler is told nothing any more once it is taken away.
class HttpTransfer final : public loop::Transfer {
 public:
  HttpTransfer(const ClusterAccess& access, Request request, ResponseHandler& handler)
      : server_(access.server), request_(std::move(request)), handler_(&handler) {
    if (easy_) prepare(access);
  }

  // Why it cannot start; fine if it can.
  Status prepared() const {
    if (!easy_) return Error{.kind = ErrorKind::io, .where = server_ + ": no memory for curl"};
    if (refused_ != CURLE_OK)
      return Error{
          .kind = ErrorKind::malformed,
          .where = server_ + ": curl refuses the request: " + curl_easy_strerror(refused_)};
    return {};
  }
  void forget_handler() { handler_ = nullptr; }

  void* easy() override { return easy_.get(); }

  void on_done(int outcome) override {
    auto* const handler = std::exchange(handler_, nullptr);
    if (handler != nullptr) handler->on_end(status_of(static_cast<CURLcode>(outcome)));
  }

 private:
  template <typename T>
  void set(CURLoption option, T value) {
    if (refused_ == CURLE_OK) refused_ = curl_easy_setopt(easy_.get(), option, value);
  }
  void set_blob(CURLoption option, const std::string& text);
  void prepare(const ClusterAccess& access);
  void prepare_url(const ClusterAccess& access);
  void prepare_proxy(const ClusterAccess& access, const std::string& host, const std::string& port);
  void prepare_tls(const ClusterAccess& access);
  void prepare_identity(const ClusterAccess& access);
  void prepare_request();
  void add_header(const std::string& line) {
    if (!append(headers_, line)) refused_ = CURLE_OUT_OF_MEMORY;
  }
  Status status_of(CURLcode code) const;
  std::size_t take_header(std::string_view line);
  std::size_t take_chunk(std::string_view chunk);

  static std::size_t header_function(char* data, std::size_t, std::size_t size,
                                     void* self) noexcept {
    return static_cast<HttpTransfer*>(self)->take_header({data, size});
  }
  static std::size_t write_function(char* data, std::size_t, std::size_t size,
                                    void* self) noexcept {
    return static_cast<HttpTransfer*>(self)->take_chunk({data, size});
  }

  std::string server_;
  Request request_;
  ResponseHandler* handler_;
  bool head_told_ = false;
  CURLcode refused_ = CURLE_OK;
  std::array<char, CURL_ERROR_SIZE> error_{};
  // The lists outlive the handle that reads them.
  List headers_;
  List connect_to_;
  Easy easy_{curl_easy_init()};
};

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
  // Else the destructor waits for a name server that does not answer.
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
  if (request_.fresh) set(CURLOPT_FRESH_CONNECT, 1L);
  add_header("Accept: application/json");
  prepare_url(access);
  prepare_tls(access);
  prepare_identity(access);
  prepare_request();
  set(CURLOPT_HTTPHEADER, headers_.get());
}

// Another name for TLS: curl takes it from the URL, so the URL has that name, the connection goes
// to the server all the same, and the Host header is the server's.
void HttpTransfer::prepare_url(const ClusterAccess& access) {
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  const std::string url = access.server + request_.target;
  const Url parsed(curl_url());
  if (!parsed || curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) {
    refused_ = CURLE_URL_MALFORMAT;
    return;
  }
  // Rather a stream of the connection that is being made than one of its own. Without TLS there is
  // no HTTP/2, and the others would wait until the first exchange ends.
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
  // Empty names and ports of CONNECT_TO stand for all.
  if (!append(connect_to_, "::" + host + ":" + part_of(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT)))
    refused_ = CURLE_OUT_OF_MEMORY;
  set(CURLOPT_CONNECT_TO, connect_to_.get());
  set(CURLOPT_URL, part_of(parsed, CURLUPART_URL).c_str());
  add_header("Host: " + host + (port.empty() ? "" : ":" + port));
}

// Which proxy the environment names is curl's to find out. Whether it is for this server is not:
// curl would compare the name in the URL.
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
    // The folder of the system's authorities would be trusted beside it.
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
    add_header("Authorization: Bearer " + access.bearer_token);
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
  set(CURLOPT_POSTFIELDS, request_.body.data());  // not copied: as long-lived as the handle
  add_header("Content-Type: " + request_.content_type);
}

Status HttpTransfer::status_of(CURLcode code) const {
  if (code == CURLE_OK && head_told_) return {};
  if (code == CURLE_OK)
    return Error{.kind = ErrorKind::malformed, .where = server_ + ": no HTTP answer"};
  std::string text = error_[0] != '\0' ? error_.data() : curl_easy_strerror(code);
  // Of an authority that has the right name and another key, OpenSSL says "asn1 encoding routines".
  if (code == CURLE_SSL_CONNECT_ERROR)
    text += "; does it speak TLS, with a certificate of the configured authority?";
  Error error{.kind = kind_of(code), .where = server_ + ": " + text};
  long os_errno = 0;
  if (code == CURLE_COULDNT_CONNECT &&
      curl_easy_getinfo(easy_.get(), CURLINFO_OS_ERRNO, &os_errno) == CURLE_OK)
    error.sys_errno = static_cast<int>(os_errno);
  return error;
}

// Of each head (also of an interim response, and of trailers) the last line is empty.
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

// Less than was given ends the transfer.
std::size_t HttpTransfer::take_chunk(std::string_view chunk) {
  if (handler_ != nullptr && !chunk.empty()) handler_->on_chunk(chunk);
  return handler_ != nullptr ? chunk.size() : 0;
}

// Waits for credentials, then for the transfer.
class CurlExchange final : public Exchange {
 public:
  CurlExchange(loop::MainLoop& loop, Credentials& credentials, std::string name, Request request,
               ResponseHandler& handler)
      : loop_(loop),
        credentials_(credentials),
        name_(std::move(name)),
        request_(std::move(request)),
        handler_(handler) {
    if (const auto access = credentials_.current())
      start(*access);
    else
      wait_ = credentials_.when_known([this](const auto& known) { start(known); });
  }
  CurlExchange(const CurlExchange&) = delete;
  CurlExchange& operator=(const CurlExchange&) = delete;
  ~CurlExchange() override {
    loop_.cancel(name_);
    if (transfer_ == nullptr) return;
    transfer_->forget_handler();
    loop_.drop(*transfer_);
  }

  std::optional<std::chrono::steady_clock::time_point> sent() const override { return sent_; }
  std::string server() const override { return access_.server; }
  void refuse_credentials() override { credentials_.reread(access_); }

 private:
  void start(const Credentials::Answer& access) {
    sent_ = loop_.now();
    if (!access) {
      fail(access.error());
      return;
    }
    access_ = *access;
    auto transfer = std::make_unique<HttpTransfer>(access_, std::move(request_), handler_);
    if (auto ready = transfer->prepared(); !ready) {
      fail(std::move(ready.error()));
      return;
    }
    transfer_ = transfer.get();
    loop_.start(std::move(transfer));
  }

  // Not at once: open() has not returned yet.
  void fail(Error error) {
    loop_.at(name_, loop_.now(),
             [this, status = Status(std::move(error))] { handler_.on_end(status); });
  }

  loop::MainLoop& loop_;
  Credentials& credentials_;
  std::string name_;
  Request request_;
  ResponseHandler& handler_;
  ClusterAccess access_;
  Credentials::Wait wait_;
  std::optional<std::chrono::steady_clock::time_point> sent_;
  HttpTransfer* transfer_ = nullptr;  // the loop's
};

}  // namespace

std::unique_ptr<Exchange> CurlTransport::open(Request request, ResponseHandler& handler) {
  return std::make_unique<CurlExchange>(loop_, credentials_, "exchange " + std::to_string(count_++),
                                        std::move(request), handler);
}

}  // namespace ipvsproxier::watch
