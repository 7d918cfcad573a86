#pragma once

// `ipvsctl service`: everything about one Service, from the daemon and the kernel.

#include <optional>
#include <string>

#include "cmd/output.h"
#include "proxier/api/names.h"
#include "proxier/inspect/list_filter.h"
#include "proxier/inspect/set_listing.h"

namespace ipvsproxier::cmd {

// Either a name, of a Service or of a pod, or an address.
struct ServiceOptions {
  std::optional<api::NamespacedName> name;
  std::optional<inspect::Backend> address;
  inspect::SetFormat format = inspect::SetFormat::text;
  std::string socket;
};

// Answers the exit status: 0 it was shown, 1 something of it could not be read, 2 there is no such
// Service, or nobody knows.
int run_service(const ServiceOptions& options, Output& output);

}  // namespace ipvsproxier::cmd
