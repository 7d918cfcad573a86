#pragma once

// HttpTransfer: one HTTP request with libcurl on the main loop. Transfers with the same Connections
// share these, one connection for all with HTTP/2; they never use others.
//
// A connection must be established within 15 s. A vanished peer is noticed after 20 to 25 s: on an
// idle connection by keep-alive probes, on a busy one by unacknowledged data.

#include <curl/curl.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "netlink/ip_address.h"
#include "netlink/unique_fd.h"
#include "proxier/access/cluster_access.h"
#include "proxier/access/transport.h"
#include "proxier/loop/main_loop.h"

namespace ipvsproxier::access {

// The host of a URL, without brackets; "": it is none.
std::string host_of(const std::string& url);

// Closed when the last owner releases them.
using Connections = std::shared_ptr<void>;
Connections make_connections();  // nullptr: out of memory

// After forget_handler() the handler gets no more calls.
class HttpTransfer final : public loop::Transfer {
 public:
  HttpTransfer(const ClusterAccess& access, Request request, ResponseHandler& handler,
               Connections connections);

  // An error if the transfer cannot start.
  netlink::Status prepared() const;
  void forget_handler() { handler_ = nullptr; }
  // Valid after the response head: whether other transfers can share the connection.
  bool is_multiplexed() const;
  // Valid after the response head: whether it had to open a new connection.
  bool made_connection() const;

  // Valid after the response head: the other end of the connection, the server or a proxy.
  std::optional<netlink::IpAddress> peer() const;

  void* easy() override { return easy_.get(); }
  void on_done(int outcome) override;

 private:
  using Easy = std::unique_ptr<CURL, netlink::HandleDeleter<curl_easy_cleanup>>;
  using List = std::unique_ptr<curl_slist, netlink::HandleDeleter<curl_slist_free_all>>;

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
  void append(List& list, const std::string& line);
  netlink::Status status_of(CURLcode code) const;
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
  // Declared before the handle, because they must outlive it.
  Connections connections_;
  List headers_;
  List connect_to_;
  Easy easy_{curl_easy_init()};
};

}  // namespace ipvsproxier::access
