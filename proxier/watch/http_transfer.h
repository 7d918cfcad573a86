#pragma once

// HttpTransfer: one request of libcurl's for the main loop. Transfers that were given the same
// Connections share those, one for all where HTTP/2 allows it; none goes over another's.
//
// A connection must be there 15 s after it was asked for. A peer that has vanished is noticed on an
// idle connection by keep-alive probes and on a busy one by what it does not acknowledge, both
// after 20 to 25 s.

#include <curl/curl.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "netlink/handle_deleter.h"
#include "proxier/loop/main_loop.h"
#include "proxier/watch/cluster_access.h"
#include "proxier/watch/transport.h"

namespace ipvsproxier::watch {

// They are closed when the last owner has gone.
using Connections = std::shared_ptr<void>;
Connections make_connections();  // nullptr: no memory

// The handler is told nothing any more once it is taken away.
class HttpTransfer final : public loop::Transfer {
 public:
  HttpTransfer(const ClusterAccess& access, Request request, ResponseHandler& handler,
               Connections connections);

  // Why it cannot start; fine if it can.
  netlink::Status prepared() const;
  void forget_handler() { handler_ = nullptr; }
  // From the head on: others may share its connection while it lasts.
  bool is_multiplexed() const;
  // From the head on: no connection that was there could take it.
  bool made_connection() const;

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
  // These outlive the handle that uses them.
  Connections connections_;
  List headers_;
  List connect_to_;
  Easy easy_{curl_easy_init()};
};

}  // namespace ipvsproxier::watch
