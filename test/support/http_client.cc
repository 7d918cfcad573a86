#include "test/support/http_client.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace ipvsproxier::test {
namespace {

struct Transfer {
  HttpResponse response;
  std::function<void(std::string_view)> on_piece;
  std::atomic<int>* socket_copy = nullptr;
  int user_timeout = 0;
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
};

std::size_t on_body(char* data, std::size_t, std::size_t size, void* given) {
  auto& transfer = *static_cast<Transfer*>(given);
  transfer.response.body.append(data, size);
  transfer.response.pieces.push_back(size);
  if (transfer.on_piece) transfer.on_piece({data, size});
  return size;
}

std::size_t on_header(char* data, std::size_t, std::size_t size, void* given) {
  std::string line(data, size);
  const auto colon = line.find(": ");
  if (colon == std::string::npos) return size;
  auto name = line.substr(0, colon);
  std::ranges::transform(name, name.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  auto value = line.substr(colon + 2);
  value.erase(value.find_last_not_of("\r\n") + 1);
  static_cast<Transfer*>(given)->response.headers[name] = value;
  return size;
}

// "  12 ms text", and the sizes of what goes to and fro.
int on_trace(CURL*, curl_infotype type, char* data, std::size_t size, void* given) {
  auto& transfer = *static_cast<Transfer*>(given);
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - transfer.began);
  auto& trace = transfer.response.trace;
  trace += fmt::format("{:6} ms ", passed.count());
  if (type == CURLINFO_TEXT)
    trace.append(data, size);
  else
    trace += fmt::format("{} bytes of type {}\n", size, static_cast<int>(type));
  return 0;
}

int on_socket(void* given, curl_socket_t socket, curlsocktype) {
  const auto& transfer = *static_cast<Transfer*>(given);
  if (transfer.socket_copy != nullptr) *transfer.socket_copy = fcntl(socket, F_DUPFD_CLOEXEC, 0);
  const int milliseconds = transfer.user_timeout;
  if (milliseconds == 0) return CURL_SOCKOPT_OK;
  const int one = 1;
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof one);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof one);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
  return CURL_SOCKOPT_OK;
}

void set_up(CURL* curl, const HttpRequest& request, Transfer& transfer) {
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (!request.body.empty()) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.c_str());
  }
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, static_cast<long>(request.timeout_seconds));
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, static_cast<long>(request.timeout_seconds));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_SOCKOPTFUNCTION, on_socket);
  curl_easy_setopt(curl, CURLOPT_SOCKOPTDATA, &transfer);
  // libcurl 7.88.1 reads 32 KB of cleartext HTTP/2 at once. With a smaller buffer it pauses in the
  // middle, and where a round of reading ends there and the server has said all, it never looks at
  // the end of the stream that it already has.
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 65'536L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  if (request.traced) {
    curl_easy_setopt(curl, CURLOPT_VERBOSE, 1L);
    curl_easy_setopt(curl, CURLOPT_DEBUGFUNCTION, on_trace);
    curl_easy_setopt(curl, CURLOPT_DEBUGDATA, &transfer);
  }
  long version = CURL_HTTP_VERSION_1_1;
  if (request.http2)
    version = request.url.starts_with("http://") ? CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE
                                                 : CURL_HTTP_VERSION_2TLS;
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, version);
  if (!request.ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, request.ca_file.c_str());
  if (!request.certificate_file.empty()) {
    curl_easy_setopt(curl, CURLOPT_SSLCERT, request.certificate_file.c_str());
    curl_easy_setopt(curl, CURLOPT_SSLKEY, request.key_file.c_str());
  }
}

HttpResponse perform(const HttpRequest& request, Transfer transfer) {
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(),
                                                                 curl_easy_cleanup);
  transfer.user_timeout = request.user_timeout_milliseconds;
  set_up(curl.get(), request, transfer);
  curl_slist* list = nullptr;
  for (const auto& header : request.headers) list = curl_slist_append(list, header.c_str());
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list,
                                                                            curl_slist_free_all);
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  const auto result = curl_easy_perform(curl.get());
  auto& response = transfer.response;
  if (result != CURLE_OK) response.error = curl_easy_strerror(result);
  long code = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &code);
  response.code = static_cast<int>(code);
  long version = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_HTTP_VERSION, &version);
  response.version = version == CURL_HTTP_VERSION_2_0 ? 2 : 1;
  return std::move(response);
}

}  // namespace

HttpResponse fetch(const HttpRequest& request) {
  return perform(request, {});
}

HttpStream::HttpStream(HttpRequest request)
    : thread_([this, request = std::move(request)] {
        Transfer transfer;
        transfer.socket_copy = &socket_copy_;
        transfer.on_piece = [this](std::string_view piece) {
          const loop::MutexLock lock(mutex_);
          body_ += piece;
        };
        auto response = perform(request, std::move(transfer));
        const loop::MutexLock lock(mutex_);
        response_ = std::move(response);
        ended_ = true;
      }) {}

HttpStream::~HttpStream() {
  // libcurl may close its descriptor at any time; the copy is ours.
  while (socket_copy_ < 0 && !ended_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (socket_copy_ < 0) return;
  ::shutdown(socket_copy_, SHUT_RDWR);
  thread_.join();
  ::close(socket_copy_);
}

std::string HttpStream::body() const {
  const loop::MutexLock lock(mutex_);
  return body_;
}

HttpResponse HttpStream::response() const {
  while (!ended_) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const loop::MutexLock lock(mutex_);
  return response_;
}

std::vector<std::string> HttpStream::lines(std::size_t count) const {
  std::vector<std::string> lines;
  for (int waited = 0; waited < 5000; ++waited) {
    lines.clear();
    const auto text = body();
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos;
         at = end + 1)
      lines.push_back(text.substr(at, end - at));
    if (lines.size() >= count) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return lines;
}

}  // namespace ipvsproxier::test
