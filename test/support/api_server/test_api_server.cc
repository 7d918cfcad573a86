// test_api_server: the test API server as a program, for the daemon in a guest and for people.

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "test/support/api_server/certificates.h"
#include "test/support/api_server/commands.h"
#include "test/support/api_server/kubeconfig.h"

namespace ipvsproxier::test {
namespace {

struct Given {
  ServerOptions server;
  bool tls = false;
  bool client_certificate = false;
  std::string kubeconfig;
  std::vector<std::string> files;
};

// A CA for both sides; what the client needs of it goes into its kubeconfig.
netlink::Status prepare_tls(Given& given, KubeconfigParts& parts) {
  const auto authority = make_authority("test");
  if (!authority) return authority.error();
  const auto shown = issue(*authority, server_wish());
  if (!shown) return shown.error();
  given.server.tls = ServerTls{.certificate = shown->certificate,
                               .key = shown->key,
                               .client_ca = authority->certificate,
                               .client_ca_required = given.client_certificate};
  parts.authority = authority->certificate;
  if (!given.client_certificate) return {};
  const auto client = issue(*authority, {.name = "system:kube-proxy", .client = true});
  if (!client) return client.error();
  parts.certificate = client->certificate;
  parts.key = client->key;
  return {};
}

int fail(const netlink::Error& error) {
  std::cerr << "test_api_server: " << to_string(error) << "\n";
  return 1;
}

void serve_commands(ApiServer& server) {
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    if (line.empty()) continue;
    const auto done = run_command(server, line);
    if (!done)
      std::cout << "error: " << to_string(done.error()) << std::endl;
    else
      std::cout << (done->empty() ? "ok" : *done) << std::endl;
  }
}

int run(Given given) {
  KubeconfigParts parts{.token = given.server.token};
  if (given.tls || given.client_certificate)
    if (auto prepared = prepare_tls(given, parts); !prepared) return fail(prepared.error());
  auto server = ApiServer::start(given.server);
  if (!server) return fail(server.error());
  for (const auto& file : given.files)
    if (const auto done = run_command(**server, "put " + file); !done) return fail(done.error());

  parts.server = (*server)->url();
  if (!given.kubeconfig.empty()) {
    std::ofstream stream(given.kubeconfig);
    stream << kubeconfig(parts);
    if (!stream.flush()) return fail({netlink::ErrorKind::io, 0, "write " + given.kubeconfig});
  }
  std::cout << "ready " << parts.server << std::endl;
  serve_commands(**server);
  return 0;
}

}  // namespace
}  // namespace ipvsproxier::test

int main(int argc, char** argv) {
  ipvsproxier::test::Given given;
  bool no_streaming = false;
  CLI::App app{
      "Answers as a Kubernetes API server does, on 127.0.0.1. Prints \"ready URL\", then reads "
      "commands from standard input and answers each with a line:\n" +
      std::string(ipvsproxier::test::kCommandHelp)};
  app.add_option("FILE", given.files, "objects to start with: YAML or JSON, also Lists");
  app.add_option("--kubeconfig", given.kubeconfig, "writes a kubeconfig for a client here");
  app.add_option("--token", given.server.token, "asks for this bearer token");
  app.add_option("--seed", given.server.seed, "of what faults choose by chance");
  app.add_flag("--tls", given.tls, "TLS, with certificates made now");
  app.add_flag("--client-certificate", given.client_certificate, "asks for one; with TLS");
  app.add_flag("--http2", given.server.http2, "HTTP/2 too, by nghttpx");
  app.add_flag("--no-streaming-lists", no_streaming, "refuses sendInitialEvents, as older servers");
  CLI11_PARSE(app, argc, argv);
  given.server.streaming_lists = !no_streaming;
  return ipvsproxier::test::run(std::move(given));
}
