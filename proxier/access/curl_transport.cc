#include "proxier/access/curl_transport.h"

#include <functional>
#include <string>
#include <utility>

#include "proxier/access/http_transfer.h"

namespace ipvsproxier::access {

namespace {

using netlink::Error;
using netlink::Status;

// An exchange that waits for credentials, then for its transfer.
class CurlExchange final : public Exchange, private ResponseHandler, private Channel::Member {
 public:
  using ChannelFor = std::function<std::shared_ptr<Channel>(const ClusterAccess&)>;

  // `on_answer` must outlive it.
  CurlExchange(loop::MainLoop& loop, Credentials& credentials, ChannelFor channel_for,
               const CurlTransport::OnAnswer& on_answer, std::string name, Request request,
               ResponseHandler& handler)
      : loop_(loop),
        credentials_(credentials),
        channel_for_(std::move(channel_for)),
        on_answer_(on_answer),
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
    drop_transfer();
  }

  std::optional<std::chrono::steady_clock::time_point> sent() const override { return sent_; }
  std::string server() const override { return access_.server; }
  void refuse_credentials() override { credentials_.reread(access_); }
  void distrust_connection() override {
    if (channel_ != nullptr) channel_->retire();
  }

 private:
  void start(const Credentials::Answer& access) {
    sent_ = loop_.now();
    if (!access) {
      fail(access.error());
      return;
    }
    access_ = *access;
    channel_ = channel_for_(access_);
    ResponseHandler& handler = *this;
    auto transfer = std::make_unique<HttpTransfer>(access_, std::move(request_), handler,
                                                   channel_->connections());
    if (auto ready = transfer->prepared(); !ready) {
      fail(std::move(ready.error()));
      return;
    }
    transfer_ = transfer.get();
    loop_.start(std::move(transfer));
    channel_->join(*this, access_);
  }

  // The handler may destroy this.
  void on_head(const ResponseHead& head) override {
    channel_->heard(transfer_->is_multiplexed());
    if (on_answer_)
      if (const auto peer = transfer_->peer()) on_answer_(access_.server, *peer);
    handler_.on_head(head);
  }
  void on_chunk(std::string_view chunk) override {
    channel_->heard(false);
    handler_.on_chunk(chunk);
  }
  void on_end(const Status& outcome) override {
    channel_->leave(*this);
    handler_.on_end(outcome);
  }
  void on_dead_path(const Error& error) override {
    drop_transfer();
    fail(error);
  }

  void drop_transfer() {
    if (transfer_ == nullptr) return;
    channel_->leave(*this);
    transfer_->forget_handler();
    loop_.drop(*std::exchange(transfer_, nullptr));
  }

  // Deferred: open() has not returned yet, or other members are being told.
  void fail(Error error) {
    loop_.at(name_, loop_.now(),
             [this, status = Status(std::move(error))] { handler_.on_end(status); });
  }

  loop::MainLoop& loop_;
  Credentials& credentials_;
  ChannelFor channel_for_;
  const CurlTransport::OnAnswer& on_answer_;
  std::string name_;
  Request request_;
  ResponseHandler& handler_;
  ClusterAccess access_;
  Credentials::Wait wait_;
  std::optional<std::chrono::steady_clock::time_point> sent_;
  std::shared_ptr<Channel> channel_;
  HttpTransfer* transfer_ = nullptr;  // owned by the loop
};

}  // namespace

std::unique_ptr<Exchange> CurlTransport::open(Request request, ResponseHandler& handler) {
  return std::make_unique<CurlExchange>(
      loop_, credentials_, [this](const auto& access) { return channel_for(access); }, on_answer_,
      "exchange " + std::to_string(exchanges_++), std::move(request), handler);
}

std::shared_ptr<Channel> CurlTransport::channel_for(const ClusterAccess& access) {
  if (channel_ == nullptr || !channel_->is_for(access))
    channel_ =
        std::make_shared<Channel>(loop_, "channel " + std::to_string(channels_++), access, check_);
  return channel_;
}

}  // namespace ipvsproxier::access
