#pragma once

// TableForm: a form in which the virtual server table is shown. It gets the table piece by piece
// and appends text, so that a table of any size needs little memory. One thread; it cannot fail.

#include <memory>
#include <string>

#include "netlink/ipvs_readings.h"
#include "proxier/inspect/address_names.h"
#include "proxier/inspect/cluster_names.h"

namespace ipvsproxier::inspect {

class TableForm {
 public:
  virtual ~TableForm() = default;

  // In this order: begin, then for each virtual service begin_service, its servers, end_service;
  // end. `service` is the same for a service's servers.
  virtual void begin(std::string& /*text*/, const netlink::IpvsInfo& /*info*/) {}
  virtual void begin_service(std::string& text, const netlink::ServiceReading& service) = 0;
  virtual void server(std::string& text, const netlink::ServiceReading& service,
                      const netlink::ServerReading& server) = 0;
  virtual void end_service(std::string& /*text*/) {}
  virtual void end(std::string& /*text*/) {}
};

// Which columns `ipvsadm -L` shows: without one of its options, with --stats, --rate, --thresholds,
// --persistent-conn, --tun-info.
enum class Columns : std::uint8_t { plain, stats, rate, thresholds, persistent, tunnels };

struct TextStyle {
  Columns columns = Columns::plain;
  bool exact = false;             // numbers whole, where else 100000K stands for 100 million
  AddressNames* names = nullptr;  // without: numbers
};

// What `ipvsadm -L` (1.31) prints, to the byte; addresses cut where it cuts them.
std::unique_ptr<TableForm> text_form(const TextStyle& style);

// All that the other text forms show but traffic, in columns of fixed width, nothing cut.
std::unique_ptr<TableForm> wide_form(AddressNames* names);

// A text form with what the cluster calls things behind its columns: of a virtual service
// "shop/web:http" and its facet, of a real server its pod, node, zone, and what is not as usual
// with it. Lines of which nothing is known stay as they are. `names` outlives it.
std::unique_ptr<TableForm> named_form(std::unique_ptr<TableForm> form, const ClusterNames& names);

// What `ipvsadm-save -n` (1.31) prints, to the byte. Connection thresholds do not appear, as in
// ipvsadm.
std::unique_ptr<TableForm> save_form();

// One object with everything that the kernel says, addresses as numbers, and what the cluster calls
// it; `names` may be nullptr, and outlives the form.
std::unique_ptr<TableForm> json_form(const ClusterNames* names = nullptr);
std::unique_ptr<TableForm> yaml_form(const ClusterNames* names = nullptr);

}  // namespace ipvsproxier::inspect
