#pragma once

// TableForm: a format of the virtual server table. It receives the table entry by entry and appends
// text, so that a table of any size needs little memory. One thread; cannot fail.

#include <memory>
#include <span>
#include <string>

#include "cmd/ipvsctl/names/address_names.h"
#include "cmd/ipvsctl/names/cluster_names.h"
#include "netlink/ipvs/ipvs_readings.h"
#include "proxier/api/document_writer.h"

namespace ipvsproxier::ctl {

class TableForm {
 public:
  virtual ~TableForm() = default;

  // Calls come in this order: begin; for each virtual service begin_service, its servers,
  // end_service; end. `service` is the same object during a service's calls.
  virtual void begin(std::string& /*text*/, const netlink::IpvsInfo& /*info*/) {}
  virtual void begin_service(std::string& text, const netlink::ServiceReading& service) = 0;
  virtual void server(std::string& text, const netlink::ServiceReading& service,
                      const netlink::ServerReading& server) = 0;
  virtual void end_service(std::string& /*text*/) {}
  virtual void end(std::string& /*text*/) {}
};

// The columns of `ipvsadm -L` without options, or with --stats, --rate, --thresholds,
// --persistent-conn, --tun-info.
enum class Columns : std::uint8_t { plain, stats, rate, thresholds, persistent, tunnels };

struct TextStyle {
  Columns columns = Columns::plain;
  bool exact = false;             // whole numbers instead of 100000K for 100 million
  AddressNames* names = nullptr;  // nullptr: numbers
};

// The exact output of `ipvsadm -L` (1.31), with addresses cut as there.
std::unique_ptr<TableForm> text_form(const TextStyle& style);

// All values of the other text forms except traffic, in columns of fixed width, without cutting.
std::unique_ptr<TableForm> wide_form(AddressNames* names);

// Adds the cluster's names after the columns of a text form: for a virtual service "shop/web:http"
// and its facet, or "foreign" for that of another program, for a real server its pod, node, zone
// and unusual conditions. Lines without names stay unchanged. `names` must outlive the form.
std::unique_ptr<TableForm> named_form(std::unique_ptr<TableForm> form, const ClusterNames& names);

// The exact output of `ipvsadm-save -n` (1.31). As in ipvsadm, connection thresholds are left out.
std::unique_ptr<TableForm> save_form();

// One object with all values of the kernel, numeric addresses, and the cluster's names. `names` may
// be nullptr, and must outlive the form.
std::unique_ptr<TableForm> json_form(const ClusterNames* names = nullptr);
std::unique_ptr<TableForm> yaml_form(const ClusterNames* names = nullptr);
// One virtual service as an object of those forms.
void write_virtual_service(api::DocumentWriter& out, const netlink::ServiceReading& service,
                           std::span<const netlink::ServerReading> servers,
                           const ClusterNames* names);

}  // namespace ipvsproxier::ctl
