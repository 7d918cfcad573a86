#include "cmd/ipvsctl/control_client.h"

#include <cerrno>
#include <utility>

#include <curl/curl.h>

#include "proxier/api/json_value.h"

namespace ipvsproxier::ctl {

namespace {

using netlink::Error;
using netlink::ErrorKind;

// Longer than the daemon's own limit of a wait.
constexpr long kPatienceSeconds = 15;

std::size_t append(const char* bytes, std::size_t one, std::size_t count, void* text) {
  static_cast<std::string*>(text)->append(bytes, one * count);
  return one * count;
}

}  // namespace

struct ControlClient::Handle {
  CURL* curl = curl_easy_init();
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { curl_easy_cleanup(curl); }
};

ControlClient::ControlClient(std::string path)
    : path_(std::move(path)), handle_(std::make_unique<Handle>()) {}

ControlClient::~ControlClient() = default;

netlink::Result<std::string> ControlClient::get(const std::string& target) {
  auto* const curl = handle_->curl;
  if (curl == nullptr) return Error{ErrorKind::io, ENOMEM, "ask the daemon"};
  std::string body;
  curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, path_.c_str());
  curl_easy_setopt(curl, CURLOPT_URL, ("http://localhost" + target).c_str());
  curl_easy_setopt(curl, CURLOPT_PROXY, "");  // overrides the environment's proxy
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, kPatienceSeconds);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &append);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body);
  const auto code = curl_easy_perform(curl);
  if (code == CURLE_COULDNT_CONNECT) {
    long error = 0;
    curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &error);
    if (error == EACCES || error == EPERM)
      return Error{ErrorKind::denied, static_cast<int>(error),
                   "ask the daemon on " + path_ + ": only root may"};
    return Error{ErrorKind::missing, static_cast<int>(error),
                 "no ipvs-proxier answers on " + path_};
  }
  if (code != CURLE_OK)
    return Error{code == CURLE_OPERATION_TIMEDOUT ? ErrorKind::timeout : ErrorKind::io, 0,
                 "ask the daemon on " + path_ + ": " + curl_easy_strerror(code)};
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  if (status == 200) return body;
  const auto json = api::JsonDocument::parse(body);
  const auto error = json ? json->root().find("error") : std::nullopt;
  if (!error) return stranger();
  return Error{status == 503 ? ErrorKind::timeout : ErrorKind::malformed, 0,
               path_ + ": " + to_json_text(*error)};
}

netlink::Result<api::JsonDocument> ControlClient::ask(const std::string& target) {
  const auto text = get(target);
  if (!text) return text.error();
  auto document = api::JsonDocument::parse(*text);
  if (!document || !document->root().is_object()) return stranger();
  return *std::move(document);
}

Error ControlClient::stranger() const {
  return {ErrorKind::malformed, 0, path_ + ": what answers there is no ipvs-proxier"};
}

}  // namespace ipvsproxier::ctl
