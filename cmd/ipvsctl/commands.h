#pragma once

// The commands of ipvsctl: the options of each and the function that runs it. ipvsctl_options.h
// makes the options from the command line, main.cc calls the functions. All of them only read, in
// the network namespace of the calling thread, and may block. Functions that return a Status return
// the error of the kernel, of the daemon or of the sink.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cmd/ipvsctl/explain/packet_walk.h"
#include "cmd/ipvsctl/explain/walk_text.h"
#include "cmd/ipvsctl/listing/connection_listing.h"
#include "cmd/ipvsctl/listing/list_filter.h"
#include "cmd/ipvsctl/listing/listing.h"
#include "cmd/ipvsctl/listing/set_listing.h"
#include "cmd/ipvsctl/listing/table_form.h"
#include "cmd/ipvsctl/output.h"
#include "cmd/ipvsctl/rules/rule_listing.h"
#include "cmd/ipvsctl/top/top_view.h"
#include "netlink/result.h"
#include "proxier/api/names.h"
#include "proxier/inspect/service_query.h"

namespace ipvsproxier::ctl {

// --- list: the IPVS table, connections and timeouts, in the words of ipvsadm

enum class ListSubject : std::uint8_t { table, connections, timeouts, daemons };
enum class ListFormat : std::uint8_t { text, wide, json, yaml, save };

struct ListOptions {
  ListSubject subject = ListSubject::table;
  ListFormat format = ListFormat::text;
  Columns columns = Columns::plain;
  bool persistence = false;  // for connections: show the persistence engine's data
  bool exact = false;
  bool resolve = false;  // print addresses and ports by this host's names
  // Show the cluster's names, asking the daemon on `socket`.
  bool names = true;
  std::string socket;
  // Only the virtual services of these Services, which only the daemon knows.
  inspect::ServiceQuery services;
  bool sorted = true;
  ListFilter filter;
};

netlink::Status run_list(const ListOptions& options, const TextSink& sink);

// --- service: everything about one Service, from the daemon and the kernel

// Either the name of a Service or of a pod, or an address.
struct ServiceOptions {
  std::optional<api::NamespacedName> name;
  std::optional<Backend> address;
  SetFormat format = SetFormat::text;
  std::string socket;
};

// Returns the exit status: 0 shown completely, 1 a part could not be read, 2 the Service does not
// exist or nothing is known of it.
int run_service(const ServiceOptions& options, Output& output);

// --- explain: the way of a packet, computed from the kernel's current state

struct ExplainOptions {
  Flow flow;
  bool live = false;  // also show existing connections of the flow
  bool json = false;
  std::string socket;  // the daemon's, for the cluster's names
};

// Sends no packet. True if the packet reaches a server or socket, or leaves the node. `malformed`:
// an impossible flow.
netlink::Result<bool> run_explain(const ExplainOptions& options, const WalkNames& names,
                                  const TextSink& sink);

// --- top: current traffic of virtual services and real servers

struct TopOptions {
  TopView view;
  std::string socket;  // of the daemon, for names; "": without names
  // Number of tables to print without a screen; 0: a screen, or endless tables.
  std::size_t count = 0;
};

// On a terminal an interactive screen, otherwise one table after another; until the view ends, the
// tables are printed or a failure.
netlink::Status run_top(const TopOptions& options, const TextSink& sink);

// --- connections: IPVS connections with the cluster's names

struct ConnectionsOptions {
  ConnectionStyle style;
  bool names = true;
  std::string socket;
  // Only connections through these Services' virtual services, which only the daemon knows.
  inspect::ServiceQuery services;
};

netlink::Status run_connections(const ConnectionsOptions& options, const TextSink& sink);

// --- sets: the IP sets that the rules use

struct SetsOptions {
  std::string name;  // "": all of our sets
  SetFormat format = SetFormat::text;
  bool names = true;  // show the owners of elements, asking the daemon on `socket`
  std::string socket;
};

// `missing`: there is no set of this name.
netlink::Status run_sets(const SetsOptions& options, const TextSink& sink);

// --- rules: our chains of the packet filter

// Loads no module and creates no table. Without a daemon rules are listed and not marked, which is
// told on standard error. `missing`: the named chain does not exist; `unsupported`: RuleForm::save
// of rules in nf_tables.
netlink::Status run_rules(const RuleStyle& style, const TextSink& sink);

// --- addresses: where the addresses of Services are bound

struct AddressesOptions {
  SetFormat format = SetFormat::text;
  bool names = true;  // show the cluster's names, asking the daemon on `socket`
  std::string socket;
};

netlink::Status run_addresses(const AddressesOptions& options, const TextSink& sink);

// --- status: the daemon's state, and the kernel features and modules that it needs

struct StatusOptions {
  std::string socket;  // the daemon's
  bool json = false;
  std::string probe;  // "livez" or "healthz": only that check; "": everything
};

// Loads no module. Exit status 0: well; 1: not well; 2: unknown, and only the kernel is shown.
int run_status(const StatusOptions& options, Output& output);

// --- diff and plan: what a daemon would change. Exit status 0: nothing; 1: something; 2: failed.

struct DiffOptions {
  std::string socket;  // the daemon's
  bool json = false;
};

struct PlanOptions {
  std::vector<std::string> arguments;  // of ipvs-proxier
  std::string kubeconfig;              // overrides the configuration's; "": none
  bool json = false;
};

// Compares a daemon's desired state with the kernel. A working daemon differs for moments: only
// differences seen twice are printed.
int run_diff(const DiffOptions& options, Output& output);

// Prints what a daemon with these flags would change here.
int run_plan(const PlanOptions& options, Output& output);

// --- check: whether an ipvs-proxier can do its work on this node (cmd/check_node.h)

struct CheckOptions {
  std::vector<std::string> arguments;  // of ipvs-proxier; without any, those of the running one
  std::string socket;                  // the daemon's
  bool json = false;
};

// Exit status: 0 fine, 1 with limits, 2 it cannot, or the flags are wrong.
int run_check(const CheckOptions& options, Output& output);

}  // namespace ipvsproxier::ctl
