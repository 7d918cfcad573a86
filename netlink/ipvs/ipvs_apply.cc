#include "netlink/ipvs/ipvs_apply.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "netlink/ipvs/ipvs_codec.h"
#include "netlink/nl_channel.h"

namespace ipvsproxier::netlink {

namespace {

// What a new virtual service asks for goes after the answer about it; then come two rounds of
// recovery, with a wait of the same kind.
constexpr int kRounds = 4;

// Whether the operation adds a virtual service that must not exist yet.
bool adds_new(const IpvsOp& op) {
  const auto* add = std::get_if<AddService>(&op);
  return add != nullptr && !add->adopts;
}

std::optional<RealServerKey> server_of(const IpvsOp& op) {
  if (const auto* add = std::get_if<AddServer>(&op)) return add->server.key;
  if (const auto* edit = std::get_if<EditServer>(&op)) return edit->server.key;
  if (const auto* remove = std::get_if<DeleteServer>(&op)) return remove->server;
  return std::nullopt;
}

const VirtualService* written_service(const IpvsOp& op) {
  if (const auto* add = std::get_if<AddService>(&op)) return &add->service;
  if (const auto* edit = std::get_if<EditService>(&op)) return &edit->service;
  return nullptr;
}

Operation operation_of(const IpvsOp& op) {
  return server_of(op) ? Operation::ipvs_server : Operation::ipvs_service;
}

// The number of leading operations whose keys strictly ascend and none of which deletes a service:
// all these differ. A first sync is such a sequence.
std::size_t ascending_prefix(std::span<const IpvsOp> ops) {
  const auto key_of = [](const IpvsOp& op) {
    return std::pair<const VirtualServiceKey&, std::optional<RealServerKey>>(service_of(op),
                                                                             server_of(op));
  };
  std::size_t count = 0;
  while (count < ops.size() && !std::holds_alternative<DeleteService>(ops[count]) &&
         (count == 0 || key_of(ops[count - 1]) < key_of(ops[count])))
    ++count;
  return count;
}

// The number of leading operations that concern different entries, so that the order of a window's
// second round does not matter: at most one operation for each service and each server, and no
// deletion of a service together with another operation on that service.
std::size_t independent_prefix(std::span<const IpvsOp> ops) {
  std::set<VirtualServiceKey> named;
  std::set<VirtualServiceKey> deleted;
  std::set<std::pair<VirtualServiceKey, std::optional<RealServerKey>>> written;
  ops = ops.first(std::min(ops.size(), NlChannel::kWindow));
  if (ascending_prefix(ops) == ops.size()) return ops.size();
  std::size_t count = 0;
  for (const auto& op : ops) {
    const auto& service = service_of(op);
    const bool deletes = std::holds_alternative<DeleteService>(op);
    if (deleted.contains(service) || (deletes && named.contains(service))) break;
    if (!written.emplace(service, server_of(op)).second) break;
    named.insert(service);
    if (deletes) deleted.insert(service);
    ++count;
  }
  return count;
}

// The operation that reaches the same result from the kernel's real state, if there is one.
std::optional<IpvsOp> turned(const IpvsOp& op, const Error& error) {
  // ip_vs_ctl.c: EEXIST for an existing entry, ESRCH for an absent service, ENOENT for an absent
  // server, but also for an unknown scheduler or persistence engine of a service.
  if (error.sys_errno == EEXIST) {
    if (const auto* add = std::get_if<AddService>(&op); add && add->adopts)
      return EditService{add->service};
    if (const auto* add = std::get_if<AddServer>(&op)) return EditServer{add->service, add->server};
  }
  if (error.sys_errno == ESRCH)
    if (const auto* edit = std::get_if<EditService>(&op)) return AddService{edit->service};
  if (error.sys_errno == ENOENT)
    if (const auto* edit = std::get_if<EditServer>(&op))
      return AddServer{edit->service, edit->server};
  return std::nullopt;
}

// True for a deletion, or an edit to weight 0, of a missing entry: it is already gone.
bool is_removal_of_nothing(const IpvsOp& op, const Error& error) {
  if (error.kind != ErrorKind::missing) return false;
  const auto* edit = std::get_if<EditServer>(&op);
  return std::holds_alternative<DeleteService>(op) || std::holds_alternative<DeleteServer>(op) ||
         (edit && edit->server.weight == 0 && error.sys_errno == ENOENT);
}

Error explain(const IpvsOp& op, Error error) {
  const auto* service = written_service(op);
  if (service && error.sys_errno == ENOENT) {
    const auto scheduler = service->scheduler.view();
    error.where = service->persistence_engine.empty()
                      ? fmt::format("the kernel has no scheduler \"{}\" (module ip_vs_{})",
                                    scheduler, scheduler)
                      : fmt::format(
                            "the kernel has no scheduler \"{}\" or no persistence engine "
                            "\"{}\"",
                            scheduler, service->persistence_engine.view());
  } else if (server_of(op) && error.sys_errno == ESRCH) {
    error.where = "there is no such virtual service";
  }
  return in_context(std::move(error), to_string(op));
}

// Operations that may be sent together, and their outcomes. `taken` collects the virtual services
// that exist and were not to be adopted, or may be such: nothing more is sent about them.
class Window {
 public:
  Window(std::span<const IpvsOp> ops, std::map<VirtualServiceKey, Error>& taken)
      : ops_(ops), taken_(taken), outcomes_(ops.size()) {
    for (std::size_t i = 0; i < ops.size(); ++i) pending_.push_back(i);
  }

  // False after a timeout: the remaining operations are then not sent.
  bool run_round(std::uint16_t family, const Transact& transact) {
    std::vector<std::size_t> again;
    const auto sent = sent_now(again);
    std::vector<Bytes> requests;
    requests.reserve(sent.size());
    for (const auto i : sent) requests.push_back(encode_ipvs_op(family, op_at(i)));
    auto answers = requests.empty() ? std::vector<Status>() : transact(requests);
    const bool answered = !timed_out(answers);

    std::set<VirtualServiceKey> recovering;
    for (std::size_t n = 0; n < answers.size(); ++n) {
      const auto i = sent[n];
      outcomes_[i] = std::move(answers[n]);
      if (outcomes_[i]) continue;
      const auto& error = outcomes_[i].error();
      if (is_removal_of_nothing(op_at(i), error))
        outcomes_[i] = Status{};
      else if (error.sys_errno == EEXIST && adds_new(op_at(i)))
        taken_.insert_or_assign(
            service_of(op_at(i)),
            Error{ErrorKind::already, EEXIST, "the virtual service is that of another program"});
      else if (turn(i, recovering))
        again.push_back(i);
      else if (error.kind == ErrorKind::overrun && adds_new(op_at(i)))
        taken_.insert_or_assign(service_of(op_at(i)), error);
    }
    if (!answered)
      for (const auto i : again) outcomes_[i] = not_sent();
    std::ranges::sort(again);
    pending_ = std::move(again);
    return answered;
  }
  bool pending() const { return !pending_.empty(); }

  std::vector<Status> take_outcomes() {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (outcomes_[i]) continue;
      auto& error = outcomes_[i].error();
      if (error.kind == ErrorKind::timeout) continue;
      if (error.kind != ErrorKind::overrun)
        error.kind = kind_of(operation_of(ops_[i]), error.sys_errno);
      outcomes_[i] = explain(ops_[i], std::move(error));
    }
    return std::move(outcomes_);
  }

 private:
  // The pending operations to send now. Those about a virtual service whose addition has no answer
  // yet go to `later`; those about a taken one fail.
  std::vector<std::size_t> sent_now(std::vector<std::size_t>& later) {
    std::set<VirtualServiceKey> unanswered;
    for (const auto i : pending_)
      if (adds_new(op_at(i))) unanswered.insert(service_of(op_at(i)));
    std::vector<std::size_t> now;
    now.reserve(pending_.size());
    for (const auto i : pending_) {
      const auto& service = service_of(op_at(i));
      if (const auto taken = taken_.find(service); taken != taken_.end())
        outcomes_[i] = taken->second;
      else if (!adds_new(op_at(i)) && unanswered.contains(service))
        later.push_back(i);
      else
        now.push_back(i);
    }
    return now;
  }

  const IpvsOp& op_at(std::size_t i) const {
    const auto it = turned_.find(i);
    return it == turned_.end() ? ops_[i] : it->second;
  }

  // Whether another round may help operation `i`. `recovering`: services that the next round
  // restores.
  bool turn(std::size_t i, std::set<VirtualServiceKey>& recovering) {
    const auto& error = outcomes_[i].error();
    auto other = turned(op_at(i), error);
    if (!other) return error.sys_errno == ESRCH && recovering.contains(service_of(op_at(i)));
    if (written_service(op_at(i))) recovering.insert(service_of(op_at(i)));
    turned_.insert_or_assign(i, *other);
    return true;
  }

  std::span<const IpvsOp> ops_;
  std::map<VirtualServiceKey, Error>& taken_;
  std::vector<Status> outcomes_;
  std::vector<std::size_t> pending_;
  std::map<std::size_t, IpvsOp> turned_;
};

}  // namespace

std::vector<Status> apply_ipvs_ops(std::uint16_t family, std::span<const IpvsOp> ops,
                                   const Transact& transact) {
  std::vector<Status> outcomes;
  outcomes.reserve(ops.size());
  std::map<VirtualServiceKey, Error> taken;
  for (bool answered = true; answered && !ops.empty();) {
    const auto count = independent_prefix(ops);
    Window window(ops.first(count), taken);
    for (int round = 0; round < kRounds && answered && window.pending(); ++round)
      answered = window.run_round(family, transact);
    std::ranges::move(window.take_outcomes(), std::back_inserter(outcomes));
    ops = ops.subspan(count);
  }
  outcomes.resize(outcomes.size() + ops.size(), not_sent());
  return outcomes;
}

}  // namespace ipvsproxier::netlink
