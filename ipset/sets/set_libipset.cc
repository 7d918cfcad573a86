#include "ipset/sets/set_libipset.h"

#include <libipset/data.h>
#include <libipset/session.h>
#include <libipset/types.h>
#include <linux/netlink.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "ipset/sets/libipset_report.h"
#include "ipset/sets/printable_name.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::Error;
using netlink::ErrorKind;

constexpr int kDatagramsAPart = 2;  // datagrams in a part of a listing, some 600 elements each

// libipset copies this many bytes of a name, however short the name is.
using NameBuffer = std::array<char, IPSET_MAXNAMELEN>;

NameBuffer padded(std::string_view name) {
  NameBuffer buffer{};
  std::memcpy(buffer.data(), name.data(), std::min(name.size(), buffer.size() - 1));
  return buffer;
}

Status check_name(const std::string& name) {
  if (!name.empty() && name.size() < IPSET_MAXNAMELEN && name.find('\0') == std::string::npos)
    return {};
  return Error{ErrorKind::malformed, EINVAL,
               fmt::format("set name \"{}\" is not of 1 to {} bytes", printable_name(name),
                           IPSET_MAXNAMELEN - 1)};
}

std::uint8_t netfilter_family(Family family) {
  return family == Family::ipv4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
}

// libipset's own description of a type: the session needs one to know the possible errors of a set.
// Any revision will do, so the kernel need not be asked.
const ipset_type* library_type(SetKind kind) {
  const std::string_view name = to_string(kind);
  for (const ipset_type* type = ipset_types(); type != nullptr; type = type->next) {
    if (name == type->name) return type;
  }
  return nullptr;
}

int print_nothing(ipset_session* /*session*/, void* /*context*/, const char* /*format*/, ...) {
  return 0;
}

Error error_of(const LibipsetReport& report, std::string_view what) {
  // to_string(Error) describes an errno by itself.
  std::string words = report.sys_errno == 0 ? report.text : std::string();
  return netlink::in_context(Error{report.kind, report.sys_errno, std::move(words)}, what);
}

// Puts the parts of one element into the session's data. False for an element of another kind or
// family than the set's, which the kernel would otherwise misread.
class ElementWriter {
 public:
  ElementWriter(ipset_data* data, const SetSpec& spec) : data_(data), spec_(spec) {}

  bool operator()(const IpElement& element) {
    return spec_.kind == SetKind::hash_ip && put_address(IPSET_OPT_IP, element.ip);
  }
  bool operator()(const IpPortElement& element) {
    return spec_.kind == SetKind::hash_ip_port && put_endpoint(element);
  }
  bool operator()(const IpPortIpElement& element) {
    return spec_.kind == SetKind::hash_ip_port_ip && put_endpoint(element) &&
           put_address(IPSET_OPT_IP2, element.ip2);
  }
  bool operator()(const IpPortNetElement& element) {
    return spec_.kind == SetKind::hash_ip_port_net && put_endpoint(element) &&
           element.net.length <= netlink::address_bits(spec_.family) &&
           put_address(IPSET_OPT_IP2, element.net.address) &&
           put(IPSET_OPT_CIDR2, &element.net.length);
  }
  bool operator()(const PortElement& element) {
    return spec_.kind == SetKind::bitmap_port && put(IPSET_OPT_PORT, &element.port);
  }
  bool operator()(const ServiceElement&) { return false; }
  bool operator()(const DestinationElement&) { return false; }
  bool operator()(const RangesElement&) { return false; }

 private:
  bool put(ipset_opt option, const void* value) {
    return ipset_data_set(data_, option, value) == 0;
  }
  bool put_address(ipset_opt option, const IpAddress& address) {
    return address.family() == spec_.family && put(option, address.bytes().data());
  }
  template <typename E>
  bool put_endpoint(const E& element) {
    const auto protocol = static_cast<std::uint8_t>(element.protocol);
    return put_address(IPSET_OPT_IP, element.ip) && put(IPSET_OPT_PORT, &element.port) &&
           put(IPSET_OPT_PROTO, &protocol);
  }

  ipset_data* data_;
  const SetSpec& spec_;
};

Error listing_error(const std::string& name, Error error) {
  // nfnetlink_rcv_msg() refuses this request with EINVAL only if the module is absent.
  if (error.sys_errno == EINVAL)
    error = Error{ErrorKind::missing, EINVAL, "kernel module ip_set is missing"};
  return netlink::in_context(std::move(error), "list set " + printable_name(name));
}

}  // namespace

void LibipsetTable::SessionDeleter::operator()(ipset_session* session) const {
  ipset_session_fini(session);
}

struct LibipsetTable::Batch {
  const SetSpec& spec;
  std::span<const ElementOp> ops;
  NameBuffer name;
  const ipset_type* type;
  std::vector<Status> outcomes;
  std::size_t counted = 0;  // operations before this index are included in writes_

  std::string words(std::size_t index) const {
    const ElementOp& op = ops[index];
    return fmt::format("{} {} {} set {}", op.add ? "add" : "remove", to_string(op.element),
                       op.add ? "to" : "from", spec.name);
  }

  // Records a refusal: of this operation, or of this and all later ones. Returns the next index to
  // try.
  std::size_t refuse(std::size_t index, const LibipsetReport& report) {
    const std::size_t end = report.scope == ReportScope::set ? ops.size() : index + 1;
    for (std::size_t i = index; i < end; ++i) outcomes[i] = error_of(report, words(i));
    return end;
  }
};

Result<std::unique_ptr<LibipsetTable>> LibipsetTable::open() {
  auto table = std::make_unique<LibipsetTable>(netlink::NlOpening{});
  if (const auto open = table->ready(); !open) return open.error();
  return table;
}

LibipsetTable::LibipsetTable(const netlink::NlOpening& opening)
    : channel_(NETLINK_NETFILTER, {}, opening),
      parts_(NETLINK_NETFILTER, {}, {.before = opening.before}) {
  ipset_load_types();
  session_.reset(ipset_session_init(print_nothing, nullptr));
  if (!session_) throw std::bad_alloc();
  ipset_envopt_set(session_.get(), IPSET_ENV_EXIST);
}

Status LibipsetTable::ready() {
  auto open = channel_.ready();
  if (open) return open;
  auto error = open.error();
  if (error.sys_errno == EPROTONOSUPPORT)
    error = Error{ErrorKind::missing, EPROTONOSUPPORT, "kernel module nfnetlink is missing"};
  return netlink::in_context(std::move(error), "open the IP sets");
}

// Whether a set of this name can be asked for.
Status LibipsetTable::check(const std::string& name) {
  const Status named = check_name(name);
  return named ? ready() : named;
}

Result<std::optional<SetListing>> LibipsetTable::dump(const std::string& name, ListDepth depth) {
  if (Status status = check(name); !status) return status.error();
  SetListing listing;
  const Status dumped =
      channel_.dump(netlink::Operation::set, list_request(name, depth),
                    [&](netlink::ByteView payload) { return listing.add(payload); });
  if (dumped) return std::optional<SetListing>(std::move(listing));
  if (dumped.error().sys_errno == ENOENT) return std::optional<SetListing>{};
  return listing_error(name, dumped.error());
}

Result<std::optional<ListedSet>> LibipsetTable::list(const std::string& name) {
  auto listing = dump(name, ListDepth::elements);
  if (!listing) return listing.error();
  if (!*listing) return std::optional<ListedSet>{};
  auto set = std::move(**listing).take();
  if (!set) return set.error();
  return std::optional<ListedSet>(std::move(*set));
}

Result<std::optional<std::vector<NetMember>>> LibipsetTable::list_nets(const std::string& name) {
  auto listing = dump(name, ListDepth::elements);
  if (!listing) return listing.error();
  if (!*listing) return std::optional<std::vector<NetMember>>();
  auto nets = std::move(**listing).take_nets();
  if (!nets) return nets.error();
  return std::optional(std::move(*nets));
}

Result<std::optional<SetTable::SetPart>> LibipsetTable::begin_list(const std::string& name) {
  if (Status status = check(name); !status) return status.error();
  if (auto begun = parts_.begin_dump(list_request(name, ListDepth::elements)); !begun)
    return listing_error(name, begun.error());
  listed_ = name;
  listing_.emplace();
  auto part = next_list();
  if (part) return std::optional<SetPart>(std::move(*part));
  if (part.error().sys_errno == ENOENT) return std::optional<SetPart>{};
  return part.error();
}

Result<SetTable::SetPart> LibipsetTable::next_list() {
  if (!listing_) return listing_ended();
  auto more = Result<bool>(true);
  for (int i = 0; i < kDatagramsAPart && more && *more; ++i)
    more = parts_.next_of_dump(netlink::Operation::set, [this](netlink::ByteView payload) {
      return listing_->add(payload);
    });
  auto set = more ? listing_->take_part() : listing_error(listed_, more.error());
  if (!set || !*more) listing_.reset();
  if (!set) return set.error();
  return SetPart{.set = std::move(*set), .last = !*more};
}

// While a set is being listed the kernel neither swaps nor destroys it (ref_netlink,
// ip_set_core.c).
void LibipsetTable::end_listing(const std::string& name) {
  if (!listing_ || listed_ != name) return;
  parts_.end_dump();
  listing_.reset();
}

Status LibipsetTable::ensure(const SetSpec& spec) {
  auto listing = dump(spec.name, ListDepth::header);
  if (!listing) return listing.error();
  if (!*listing) return create(spec);
  const auto& header = (*listing)->header();
  if (!header) return netlink::malformed("set " + spec.name + " has no header");
  const std::string reason = difference(*header, spec);
  if (reason.empty()) return {};
  const std::string what = fmt::format("set {} exists with {}", spec.name, reason);
  if (!may_swap(*header, spec)) return Error{ErrorKind::already, 0, what};
  const Status replaced = replace(spec);
  return replaced ? replaced : netlink::in_context(replaced.error(), what + "; replace it");
}

Status LibipsetTable::replace(const SetSpec& spec) {
  SetSpec copy = spec;
  copy.name = kCopyName;
  if (Status status = destroy(copy.name); !status) return status;
  auto listed = list(spec.name);
  if (!listed) return listed.error();
  if (!*listed) return create(spec);  // another program removed it meanwhile
  if (Status status = create(copy); !status) return status;
  std::vector<ElementOp> ops;
  ops.reserve((*listed)->elements.size());
  for (const auto& element : (*listed)->elements) ops.push_back(ElementOp{true, element});
  Status status;
  for (Status& one : apply(copy, ops))
    if (status && !one) status = std::move(one);
  if (status) status = swap(copy.name, spec.name);
  // kCopyName is now the old set, or a copy that failed. If it cannot be destroyed, the next
  // replacement removes it first.
  const Status destroyed = destroy(copy.name);
  return status ? destroyed : status;
}

Status LibipsetTable::swap(const std::string& one, const std::string& other) {
  end_listing(other);
  const NameBuffer first = padded(one);
  const NameBuffer second = padded(other);
  ipset_data* data = ipset_session_data(session_.get());
  ipset_session_report_reset(session_.get());
  ipset_data_reset(data);
  ipset_data_set(data, IPSET_SETNAME, first.data());
  ipset_data_set(data, IPSET_OPT_SETNAME2, second.data());
  ++writes_;
  if (ipset_cmd(session_.get(), IPSET_CMD_SWAP, 0) == 0) return {};
  return error_of(take_report(), fmt::format("swap sets {} and {}", one, other));
}

Status LibipsetTable::create(const SetSpec& spec) {
  const NameBuffer name = padded(spec.name);
  const NameBuffer type = padded(to_string(spec.kind));
  const std::string what = fmt::format("create set {} ({})", spec.name, to_string(spec.kind));
  ipset_data* data = ipset_session_data(session_.get());
  ipset_session_report_reset(session_.get());
  ipset_data_reset(data);
  ipset_data_set(data, IPSET_SETNAME, name.data());
  ipset_data_set(data, IPSET_OPT_TYPENAME, type.data());
  const std::uint8_t family = netfilter_family(spec.family);
  const std::uint16_t first_port = 0;
  const std::uint16_t last_port = 65535;
  const bool is_bitmap = spec.kind == SetKind::bitmap_port;
  if (!is_bitmap) ipset_data_set(data, IPSET_OPT_FAMILY, &family);
  // Asks the kernel for its revisions of this type, which loads the type's module.
  bool done = ipset_type_get(session_.get(), IPSET_CMD_CREATE) != nullptr;
  if (done) {
    if (is_bitmap) {
      ipset_data_set(data, IPSET_OPT_PORT, &first_port);
      ipset_data_set(data, IPSET_OPT_PORT_TO, &last_port);
    } else {
      ipset_data_set(data, IPSET_OPT_HASHSIZE, &spec.hash_size);
      ipset_data_set(data, IPSET_OPT_MAXELEM, &spec.max_elements);
    }
    ++writes_;
    done = ipset_cmd(session_.get(), IPSET_CMD_CREATE, 0) == 0;
  }
  if (done) return {};
  const LibipsetReport report = take_report();
  Error error = error_of(report, what);
  if (report.type_missing)
    error.where = fmt::format("{}: kernel module {} is missing", what, module_of(spec.kind));
  return error;
}

Status LibipsetTable::destroy(const std::string& name) {
  // Without a name the kernel would destroy all sets.
  if (Status status = check(name); !status) return status;
  end_listing(name);
  const NameBuffer buffer = padded(name);
  ipset_data* data = ipset_session_data(session_.get());
  ipset_session_report_reset(session_.get());
  ipset_data_reset(data);
  ipset_data_set(data, IPSET_SETNAME, buffer.data());
  ++writes_;
  if (ipset_cmd(session_.get(), IPSET_CMD_DESTROY, 0) == 0) return {};
  const LibipsetReport report = take_report();
  if (report.kind == ErrorKind::missing && !report.type_missing) return {};
  return error_of(report, "destroy set " + name);
}

std::uint64_t LibipsetTable::requests() const {
  return writes_ + channel_.counters().requests() + parts_.counters().requests();
}

LibipsetReport LibipsetTable::take_report() {
  LibipsetReport report = parse_libipset_report(ipset_session_report_msg(session_.get()));
  ipset_session_report_reset(session_.get());
  return report;
}

// Passes one operation to libipset. With a line number the operation only joins the message under
// construction (libipset sends the previous message if it is full or of another command); with line
// 0 it is sent at once. False if the kernel refused something, or if the element does not fit its
// set.
bool LibipsetTable::queue(Batch& batch, std::size_t index, std::uint32_t line) {
  const SetSpec& spec = batch.spec;
  const ElementOp& op = batch.ops[index];
  ipset_data* data = ipset_session_data(session_.get());
  const std::uint8_t family = netfilter_family(spec.family);
  ipset_data_set(data, IPSET_SETNAME, batch.name.data());
  ipset_data_set(data, IPSET_OPT_TYPE, batch.type);
  if (spec.kind != SetKind::bitmap_port) ipset_data_set(data, IPSET_OPT_FAMILY, &family);
  if (!std::visit(ElementWriter(data, spec), op.element)) {
    ipset_data_reset(data);
    batch.outcomes[index] =
        Error{ErrorKind::malformed, 0,
              fmt::format("{}: not an element of {} {}", batch.words(index),
                          netlink::to_string(spec.family), to_string(spec.kind))};
    return true;
  }
  if (index >= batch.counted) {
    ++writes_;
    batch.counted = index + 1;
  }
  return ipset_cmd(session_.get(), op.add ? IPSET_CMD_ADD : IPSET_CMD_DEL, line) == 0;
}

// Sends many elements in each message until the kernel refuses one; returns the next index to try.
std::size_t LibipsetTable::run_aggregated(Batch& batch, std::size_t first) {
  std::size_t index = first;
  bool accepted = true;
  while (accepted && index < batch.ops.size()) {
    accepted = queue(batch, index, static_cast<std::uint32_t>(index) + 1);
    ++index;
  }
  if (accepted && ipset_commit(session_.get()) == 0) return index;
  const LibipsetReport report = take_report();
  const std::size_t bad = report.line ? std::size_t{*report.line} - 1 : index;
  if (report.scope != ReportScope::unknown && bad >= first && bad < index)
    return batch.refuse(bad, report);
  // Not a verdict on one element (a lost answer, for instance). Operations are idempotent, so each
  // is sent again by itself.
  while (first < index) first = run_single(batch, first);
  return first;
}

// Sends one operation; returns the next index to try.
std::size_t LibipsetTable::run_single(Batch& batch, std::size_t index) {
  if (queue(batch, index, 0)) return index + 1;
  return batch.refuse(index, take_report());
}

std::vector<Status> LibipsetTable::apply(const SetSpec& spec, std::span<const ElementOp> ops) {
  Batch batch{.spec = spec,
              .ops = ops,
              .name = padded(spec.name),
              .type = library_type(spec.kind),
              .outcomes = std::vector<Status>(ops.size())};
  if (Status status = check(spec.name); !status) {
    batch.outcomes.assign(ops.size(), status);
    return std::move(batch.outcomes);
  }
  ipset_session_report_reset(session_.get());
  ipset_data_reset(ipset_session_data(session_.get()));
  std::size_t next = 0;
  while (next < ops.size()) {
    next = run_aggregated(batch, next);
    // A full set refuses many elements in a row: try them one by one instead of in messages of
    // hundreds.
    bool refused = next > 0 && !batch.outcomes[next - 1];
    while (refused && next < ops.size()) {
      const std::size_t index = next;
      next = run_single(batch, index);
      refused = !batch.outcomes[index];
    }
  }
  return std::move(batch.outcomes);
}

}  // namespace ipvsproxier::ipset
