#include "proxier/check/api_probe.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "proxier/api/wire.h"

namespace ipvsproxier::check {

namespace {

// More than any object; a server that sends more sends no list of one. A sample may be larger: then
// it is not read.
constexpr std::size_t kMostBody = std::size_t{16} << 20U;
constexpr int kOk = 200;
constexpr int kUnauthorized = 401;

std::string refusal(int status, std::string_view body) {
  const auto said = api::decode_status(body);
  return said.message.empty() ? fmt::format("HTTP {}", status)
                              : fmt::format("HTTP {}: {}", status, said.message);
}

}  // namespace

// The questions about one resource.
class ApiProbe::Asking final : public access::ResponseHandler {
 public:
  Asking(ApiResource resource, access::Transport& transport, loop::Timers& timers,
         std::function<void()> on_done)
      : resource_(std::move(resource)),
        transport_(transport),
        timers_(timers),
        on_done_(std::move(on_done)) {}
  ~Asking() override { timers_.cancel(deadline()); }

  void start() {
    ask("list",
        fmt::format("{}{}limit={}", resource_.target,
                    resource_.target.find('?') == std::string::npos ? '?' : '&', resource_.most));
  }
  bool is_sample() const { return static_cast<bool>(resource_.on_sample); }
  const std::vector<ApiFact>& facts() const { return facts_; }

  void on_head(const access::ResponseHead& head) override {
    status_ = head.status;
    if (watching_ && status_ == kOk) end("");
  }
  void on_chunk(std::string_view chunk) override {
    if (body_.size() + chunk.size() > kMostBody)
      end(fmt::format("the answer is larger than {} MiB", kMostBody >> 20U));
    else
      body_ += chunk;
  }
  void on_end(const netlink::Status& outcome) override {
    if (!outcome) return end(outcome.error().where);
    if (status_ == kUnauthorized) exchange_->refuse_credentials();
    if (status_ != kOk) return end(refusal(status_, body_));
    const auto list = api::decode_list_envelope(body_, resource_.kind);
    if (!list) return end(list.error().where);
    if (is_sample()) {
      resource_.on_sample(body_);
      return end("");
    }
    tell("", list->is_empty && resource_.kind == api::ObjectKind::node);
    watching_ = true;
    ask("watch",
        fmt::format("{}&watch=1&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
                    resource_.target, access::encode_query(list->resource_version),
                    kPatience.count()));
  }

 private:
  std::string deadline() const { return "check " + resource_.name; }

  void ask(const std::string& verb, std::string target) {
    question_ = verb + " " + resource_.name;
    status_ = 0;
    body_.clear();
    timers_.at(deadline(), timers_.now() + kPatience, [this] {
      end(fmt::format(
          "no answer from {} in {} s",
          exchange_ && !exchange_->server().empty() ? exchange_->server() : "the API server",
          kPatience.count()));
    });
    access::Request request;
    request.target = std::move(target);
    exchange_ = transport_.open(std::move(request), *this);
  }

  void tell(std::string error, bool has_none = false) {
    facts_.push_back({.question = question_, .error = std::move(error), .has_none = has_none});
  }

  void end(std::string error) {
    tell(std::move(error));
    timers_.cancel(deadline());
    exchange_.reset();
    on_done_();
  }

  const ApiResource resource_;
  access::Transport& transport_;
  loop::Timers& timers_;
  std::function<void()> on_done_;
  std::vector<ApiFact> facts_;
  std::string question_;
  bool watching_ = false;
  int status_ = 0;
  std::string body_;
  std::unique_ptr<access::Exchange> exchange_;
};

ApiProbe::ApiProbe(std::vector<ApiResource> resources, access::Transport& transport,
                   loop::Timers& timers, std::function<void()> on_done)
    : on_done_(std::move(on_done)) {
  std::stable_partition(resources.begin(), resources.end(),
                        [](const ApiResource& resource) { return !resource.on_sample; });
  for (auto& resource : resources)
    askings_.push_back(std::make_unique<Asking>(std::move(resource), transport, timers, [this] {
      if (--running_ == 0) start_sample();
    }));
}

ApiProbe::~ApiProbe() = default;

void ApiProbe::start() {
  running_ = static_cast<std::size_t>(
      std::ranges::count_if(askings_, [](const auto& asking) { return !asking->is_sample(); }));
  started_ = running_;
  if (running_ == 0) return start_sample();
  for (std::size_t i = 0; i < started_; ++i) askings_[i]->start();
}

void ApiProbe::start_sample() {
  if (started_ == askings_.size()) return on_done_();
  running_ = 1;
  askings_[started_++]->start();
}

std::vector<ApiFact> ApiProbe::facts() const {
  std::vector<ApiFact> all;
  for (const auto& asking : askings_)
    all.insert(all.end(), asking->facts().begin(), asking->facts().end());
  return all;
}

}  // namespace ipvsproxier::check
