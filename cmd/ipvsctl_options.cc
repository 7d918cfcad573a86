#include "cmd/ipvsctl_options.h"

#include <ostream>
#include <string>

#include <CLI/CLI.hpp>

namespace ipvsproxier::cmd {

CtlCommandLine parse_ctl_options(int argc, const char* const* argv, std::ostream& out,
                                 std::ostream& err) {
  CLI::App app("Shows what the kernel's virtual server table holds.", "ipvsctl");
  app.set_version_flag("--version", "ipvsctl " IPVS_PROXIER_VERSION);
  app.require_subcommand(1);
  auto* list = app.add_subcommand("list", "List virtual services and their real servers");
  std::string format;
  list->add_option("-o,--output", format, "Form: save, as ipvsadm-save -n prints")
      ->required()
      ->check(CLI::IsMember({"save"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return {std::nullopt, app.exit(error, out, err) == 0 ? 0 : 2};
  }
  return {CtlOptions{ListFormat::save}, 0};
}

}  // namespace ipvsproxier::cmd
