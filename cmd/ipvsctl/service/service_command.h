#pragma once

// `ipvsctl service`: everything about one Service, from the daemon and the kernel.

#include <optional>
#include <string>

#include "cmd/ipvsctl/listing/list_filter.h"
#include "cmd/ipvsctl/listing/set_listing.h"
#include "cmd/ipvsctl/output.h"
#include "proxier/api/names.h"

namespace ipvsproxier::ctl {

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

}  // namespace ipvsproxier::ctl
