#include "proxier/access/credentials.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "proxier/access/access_files.h"
#include "proxier/access/child_process.h"
#include "proxier/access/exec_plugin.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::access {

namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Result;
using Steady = std::chrono::steady_clock::time_point;

constexpr const char* kPluginDeadline = "credentials plugin";
constexpr const char* kAnswerDeadline = "credentials answer";
// A credential is not used just before it expires, because the request takes time to arrive.
constexpr std::chrono::seconds kExpiryLeeway{10};

bool same_identity(const ClusterAccess& one, const ClusterAccess& other) {
  return one.bearer_token == other.bearer_token &&
         one.client_certificate_pem == other.client_certificate_pem &&
         one.client_key_pem == other.client_key_pem;
}

std::vector<std::string> our_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    entries.emplace_back(*entry);
  return entries;
}

}  // namespace

struct Credentials::State {
  struct Failure {
    Error error;
    Steady until;
  };

  loop::MainLoop& loop;
  AccessSource source;
  spdlog::logger& log;
  CredentialsClock clock;

  AccessFiles files;                // last good contents of each file
  std::optional<Steady> looked_at;  // nullopt: the files must be read
  std::vector<std::string> warned;  // problems of these files that were logged

  std::unique_ptr<ChildProcess> child;
  std::optional<ExecCredential> printed;
  std::optional<Failure> failure;

  std::optional<ClusterAccess> latest;  // last value that was returned
  std::map<unsigned long, Then> waiters;
  unsigned long next_waiter = 1;

  std::optional<Error> read_files();
  std::optional<Error> missing_part(const api::Problems& problems) const;
  void warn_once(const api::Problems& problems);
  ClusterAccess merged() const;
  bool expired() const;
  std::optional<Answer> current();
  std::optional<Error> start_plugin();
  ChildCommand plugin_command() const;
  void plugin_ended(Result<ChildOutput> outcome);
  Error plugin_error(Error error) const;
  void answer_soon();
  void answer_waiters();
  void answer_all(const Answer& answer);
};

// While a needed file has never been read, each call reads again.
std::optional<Error> Credentials::State::read_files() {
  const auto now = clock.steady();
  if (looked_at && now - *looked_at < kCredentialFileAge) return std::nullopt;
  auto fresh = read_access_files(source);
  if (fresh.ca_pem) files.ca_pem = std::move(fresh.ca_pem);
  if (fresh.token) files.token = std::move(fresh.token);
  if (fresh.key_pair) files.key_pair = std::move(fresh.key_pair);
  if (auto error = missing_part(fresh.problems)) return error;
  looked_at = now;
  warn_once(fresh.problems);
  return std::nullopt;
}

// An error for a missing part without which no request is possible.
std::optional<Error> Credentials::State::missing_part(const api::Problems& problems) const {
  const bool no_ca = !source.ca_file.empty() && !files.ca_pem;
  const bool no_token =
      !source.token_file.empty() && !files.token && source.fixed.bearer_token.empty();
  const bool wants_pair =
      !source.client_certificate_file.empty() || !source.client_key_file.empty();
  if (!no_ca && !no_token && (!wants_pair || files.key_pair)) return std::nullopt;
  std::string why = source.origin;
  for (const auto& problem : problems) why += ": " + to_string(problem);
  return Error{ErrorKind::missing, 0, std::move(why)};
}

void Credentials::State::warn_once(const api::Problems& problems) {
  std::vector<std::string> lines;
  for (const auto& problem : problems) lines.push_back(to_string(problem));
  if (lines == warned) return;
  for (const auto& line : lines)
    log.warn("{}: {}; what was read before stays in use, looking again in {} s", source.origin,
             line, kCredentialFileAge.count());
  warned = std::move(lines);
}

ClusterAccess Credentials::State::merged() const {
  auto access = source.fixed;
  if (files.ca_pem) access.ca_pem = *files.ca_pem;
  if (files.token) access.bearer_token = *files.token;
  if (files.key_pair) {
    access.client_certificate_pem = files.key_pair->certificate_pem;
    access.client_key_pem = files.key_pair->key_pem;
  }
  if (!printed) return access;
  access.bearer_token = printed->token;
  access.client_certificate_pem = printed->client_certificate_pem;
  access.client_key_pem = printed->client_key_pem;
  return access;
}

bool Credentials::State::expired() const {
  if (!printed->expires) return false;
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
      (clock.wall() + kExpiryLeeway).time_since_epoch());
  return now.count() >= *printed->expires;
}

std::optional<Credentials::Answer> Credentials::State::current() {
  if (auto error = read_files()) return Answer(std::move(*error));
  if (source.exec && (!printed || expired())) {
    if (child) return std::nullopt;
    if (failure && clock.steady() < failure->until) return Answer(failure->error);
    if (auto error = start_plugin()) return Answer(std::move(*error));
    return std::nullopt;
  }
  latest = merged();
  return Answer(*latest);
}

ChildCommand Credentials::State::plugin_command() const {
  const auto& plugin = *source.exec;
  ChildCommand command{.program = plugin.command,
                       .arguments = plugin.arguments,
                       .environment = our_environment(),
                       .time_limit = plugin.time_limit};
  command.environment.insert(command.environment.end(), plugin.environment.begin(),
                             plugin.environment.end());
  const auto access = merged();
  const ExecCluster cluster{.server = access.server,
                            .tls_server_name = access.tls_server_name,
                            .insecure_skip_tls_verify = access.insecure_skip_tls_verify,
                            .ca_pem = access.ca_pem,
                            .proxy_url = access.proxy_url,
                            .config_json = plugin.cluster_config_json};
  command.environment.push_back(
      "KUBERNETES_EXEC_INFO=" +
      exec_info(plugin.api_version, plugin.provide_cluster_info ? &cluster : nullptr));
  return command;
}

std::optional<Error> Credentials::State::start_plugin() {
  log.debug("{}: asking {} for credentials", source.origin, source.exec->command);
  auto started = ChildProcess::start(
      loop, kPluginDeadline, plugin_command(),
      [this](Result<ChildOutput> outcome) { plugin_ended(std::move(outcome)); });
  if (started) {
    child = std::move(*started);
    return std::nullopt;
  }
  auto error = started.error();
  const auto& hint = source.exec->install_hint;
  if (error.kind == ErrorKind::missing && !hint.empty())
    error =
        Error{error.kind, 0, fmt::format("{}: there is no such program; {}", error.where, hint)};
  failure = Failure{.error = plugin_error(std::move(error)), .until = clock.steady() + kPluginRest};
  return failure->error;
}

void Credentials::State::plugin_ended(Result<ChildOutput> outcome) {
  child.reset();
  auto credential = !outcome ? Result<ExecCredential>(outcome.error())
                             : read_exec_credential(outcome->output, source.exec->api_version);
  if (!credential) {
    auto error = credential.error();
    if (outcome) error.where = fmt::format("{} {}", source.exec->command, error.where);
    failure =
        Failure{.error = plugin_error(std::move(error)), .until = clock.steady() + kPluginRest};
    answer_all(failure->error);
    return;
  }
  if (!outcome->errors.empty())
    log.debug("{}: {} gave credentials and said something on its standard error", source.origin,
              source.exec->command);
  failure.reset();
  printed = std::move(*credential);
  latest = merged();
  answer_all(Answer(*latest));
}

Error Credentials::State::plugin_error(Error error) const {
  error.where = fmt::format("{}: {}", source.origin, error.where);
  return error;
}

void Credentials::State::answer_soon() {
  if (child == nullptr)
    loop.at(kAnswerDeadline, loop::MainLoop::Clock::now(), [this] { answer_waiters(); });
}

void Credentials::State::answer_waiters() {
  if (waiters.empty()) return;
  if (const auto answer = current()) answer_all(*answer);
}

// A waiter may end another waiter's wait, or wait again.
void Credentials::State::answer_all(const Answer& answer) {
  const auto end = next_waiter;
  while (!waiters.empty() && waiters.begin()->first < end)
    waiters.extract(waiters.begin()).mapped()(answer);
}

Credentials::Wait::Wait(Wait&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)), id_(other.id_) {}

Credentials::Wait& Credentials::Wait::operator=(Wait&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(id_, other.id_);
  return *this;
}

Credentials::Wait::~Wait() {
  if (owner_ != nullptr) owner_->state_->waiters.erase(id_);
}

Credentials::Credentials(loop::MainLoop& loop, AccessSource source, spdlog::logger& log,
                         CredentialsClock clock)
    : state_(new State{
          .loop = loop, .source = std::move(source), .log = log, .clock = std::move(clock)}) {}

Credentials::~Credentials() {
  state_->loop.cancel(kAnswerDeadline);
}

std::optional<Credentials::Answer> Credentials::current() {
  return state_->current();
}

Credentials::Wait Credentials::when_known(Then then) {
  const auto id = state_->next_waiter++;
  state_->waiters.emplace(id, std::move(then));
  state_->answer_soon();
  return {*this, id};
}

void Credentials::reread(const ClusterAccess& refused) {
  if (state_->latest && !same_identity(*state_->latest, refused)) return;
  state_->looked_at.reset();
  state_->printed.reset();
}

}  // namespace ipvsproxier::access
