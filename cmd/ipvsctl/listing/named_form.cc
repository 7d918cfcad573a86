#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cmd/ipvsctl/listing/table_form.h"
#include "proxier/api/visible_text.h"

namespace ipvsproxier::ctl {

using netlink::ServerReading;
using netlink::ServiceReading;

namespace {

// Names may be longer: they then move the columns after them.
constexpr const char* kServiceColumns = " {:36} {}";
constexpr const char* kServerColumns = " {:36} {:20} {:12} {}";

class NamedForm final : public TableForm {
 public:
  NamedForm(std::unique_ptr<TableForm> form, const ClusterNames& names)
      : form_(std::move(form)), names_(names) {}

  // The head has a line about the kernel, then the titles of services and of servers.
  void begin(std::string& text, const netlink::IpvsInfo& info) override {
    std::string head;
    form_->begin(head, info);
    const auto services = head.find('\n') + 1;
    const auto servers = head.find('\n', services) + 1;
    // A server's last column may be one character wider than its title.
    width_ = std::max(servers - services, head.size() - servers);
    text.append(head, 0, services);
    auto start = text.size();
    text.append(head, services, servers - services);
    end_line(text, start, fmt::format(kServiceColumns, "Service", "Facet"));
    start = text.size();
    text.append(head, servers);
    end_line(text, start, fmt::format(kServerColumns, "Pod", "Node", "Zone", "Condition"));
  }

  void begin_service(std::string& text, const ServiceReading& service) override {
    const auto start = text.size();
    form_->begin_service(text, service);
    if (const auto name = names_.of(service.service.key))
      end_line(text, start,
               fmt::format(kServiceColumns, api::visible(to_string(*name)),
                           ipset::to_string(name->facet)));
    else if (names_.is_foreign(service.service.key))
      end_line(text, start, fmt::format(kServiceColumns, "foreign", ""));
  }

  void server(std::string& text, const ServiceReading& service,
              const ServerReading& server) override {
    const auto start = text.size();
    form_->server(text, service, server);
    if (const auto name = names_.of(service.service.key, server.listed.server.key))
      end_line(text, start,
               fmt::format(kServerColumns, api::visible(name->pod), api::visible(name->node),
                           api::visible(name->zone), condition_text(*name)));
  }

  void end_service(std::string& text) override { form_->end_service(text); }
  void end(std::string& text) override { form_->end(text); }

 private:
  // Appends columns to the last line, which begins at `start`.
  void end_line(std::string& text, std::size_t start, std::string_view columns) const {
    text.pop_back();
    const auto used = text.size() - start;
    text.append(used < width_ ? width_ - used : 0, ' ');
    text.append(columns.substr(0, columns.find_last_not_of(' ') + 1)).append(1, '\n');
  }

  std::unique_ptr<TableForm> form_;
  const ClusterNames& names_;
  std::size_t width_ = 0;  // width of the columns before the names
};

}  // namespace

std::unique_ptr<TableForm> named_form(std::unique_ptr<TableForm> form, const ClusterNames& names) {
  return std::make_unique<NamedForm>(std::move(form), names);
}

}  // namespace ipvsproxier::ctl
