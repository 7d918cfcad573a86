#pragma once

// What to install or change, by kind of system, where a public page says so. Pure; any thread.

#include <string>
#include <vector>

#include "proxier/check/facts.h"
#include "proxier/check/findings.h"

namespace ipvsproxier::check {

// For a module that is missing or must not be loaded.
std::vector<Advice> module_advice(const std::string& module, const ModuleFact& fact,
                                  const std::string& release);

// For a sysctl that this process cannot set: "net/ipv4/ip_forward".
std::vector<Advice> sysctl_advice(const plan::Sysctl& row);

// Whether the advice is for the system whose facts these are; true if that is not known.
bool is_meant(const Advice& advice, const NodeFacts& facts);

}  // namespace ipvsproxier::check
