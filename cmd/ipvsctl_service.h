#pragma once

// `ipvsctl service`: everything about one Service, from the daemon and the kernel.

#include <optional>
#include <string>

#include "cmd/output.h"
#include "proxier/api/names.h"
#include "proxier/inspect/list_filter.h"
#include "proxier/inspect/set_listing.h"

namespace ipvsproxier::cmd {

// Either the name of a Service or of a pod, or an address.
struct ServiceOptions {
  std::optional<api::NamespacedName> name;
  std::optional<inspect::Backend> address;
  inspect::SetFormat format = inspect::SetFormat::text;
  std::string socket;
};

// Returns the exit status: 0 shown completely, 1 a part could not be read, 2 the Service does not
// exist or nothing is known of it.
int run_service(const ServiceOptions& options, Output& output);

}  // namespace ipvsproxier::cmd
