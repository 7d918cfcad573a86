#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/access/access_choice.h"
#include "proxier/access/kubeconfig.h"
#include "proxier/access/pem.h"
#include "test/support/temp_dir.h"
#include "test/unit/certificates.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::access {
namespace {

using test::kCertificateOne;
using test::kCertificateTwo;
using test::kKeyOne;
using test::kKeyOneWithPassword;
using test::kKeyTwo;
using test::lines_of;
using Lines = std::vector<std::string>;

constexpr const char* kServer = "server: 'https://10.0.0.1:6443'";

// A kubeconfig with one context, of YAML flow members of its cluster and its user.
std::string config(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
         "contexts: [{name: other, context: {cluster: gone, user: nobody}},\n"
         "           {name: c, context: {cluster: k, user: u}}]\n"
         "clusters: [{name: k, cluster: {" +
         cluster + "}}]\nusers: [{name: u, user: {" + user + "}}]\n";
}

AccessChoice read(const std::string& text, const std::string& master = "") {
  return read_kubeconfig_text(text, "/etc/k/proxy.conf", master);
}

AccessSource good(const std::string& text, const std::string& master = "") {
  auto choice = read(text, master);
  INFO(Catch::StringMaker<Lines>::convert(lines_of(choice.problems)));
  REQUIRE(choice.source);
  CHECK(choice.problems.empty());
  return *choice.source;
}

// All that is wrong; there is no source then.
Lines wrong(const std::string& text, const std::string& master = "") {
  const auto choice = read(text, master);
  CHECK(!choice.source);
  return lines_of(choice.problems);
}

Lines wrong_user(const std::string& user) {
  return wrong(config(kServer, user));
}
Lines wrong_cluster(const std::string& cluster) {
  return wrong(config(cluster, ""));
}

Lines one(const std::string& line) {
  return {"error: /etc/k/proxy.conf: " + line};
}

std::string quoted(const std::string& base64) {
  return "'" + base64 + "'";
}

TEST_CASE("the kubeconfig that kubeadm mounts for kube-proxy: files, relative to its folder") {
  const auto source = good(
      "apiVersion: v1\nkind: Config\nclusters:\n- cluster:\n    certificate-authority: ../ca.crt\n"
      "    server: https://10.0.0.1:6443/\n  name: default\ncontexts:\n- context:\n"
      "    cluster: default\n    namespace: default\n    user: default\n  name: default\n"
      "current-context: default\nusers:\n- name: default\n  user:\n    tokenFile: token\n");
  CHECK(source == AccessSource{.origin = "/etc/k/proxy.conf: user default",
                               .fixed = {.server = "https://10.0.0.1:6443"},
                               .ca_file = "/etc/ca.crt",
                               .token_file = "/etc/k/token"});
}

TEST_CASE("a kubeconfig in JSON with everything as data") {
  const auto source = good(
      R"({"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
          "clusters": [{"name": "k", "cluster": {"server": "https://[fd00::1]:6443/clusters/a",
          "tls-server-name": "api.example", "proxy-url": "socks5://proxy:1080",
          "certificate-authority-data": ")" +
      base64_encode(kCertificateTwo) +
      R"("}}], "users": [{"name": "u", "user": {"token": "abc.def", "client-certificate-data": ")" +
      base64_encode(kCertificateOne) + R"(", "client-key-data": ")" + base64_encode(kKeyOne) +
      R"("}}]})");
  CHECK(source.fixed == ClusterAccess{.server = "https://[fd00::1]:6443/clusters/a",
                                      .proxy_url = "socks5h://proxy:1080",
                                      .ca_pem = kCertificateTwo,
                                      .tls_server_name = "api.example",
                                      .client_certificate_pem = kCertificateOne,
                                      .client_key_pem = kKeyOne,
                                      .bearer_token = "abc.def"});
  CHECK(source.ca_file.empty());
}

TEST_CASE("verification is off only where it is asked for") {
  CHECK(good(config(std::string(kServer) + ", insecure-skip-tls-verify: true", ""))
            .fixed.insecure_skip_tls_verify);
  CHECK(!good(config(kServer, "")).fixed.insecure_skip_tls_verify);
  const auto text = "error: /etc/k/proxy.conf: clusters[0].cluster.insecure-skip-tls-verify: ";
  CHECK(wrong_cluster("insecure-skip-tls-verify: true, certificate-authority: ca, " +
                      std::string(kServer)) ==
        Lines{text + std::string("is true beside a certificate authority, which would not be "
                                 "asked: remove one of them")});
  CHECK(wrong_cluster("insecure-skip-tls-verify: 'true', " + std::string(kServer)) ==
        Lines{text + std::string("must be true or false, not text")});
}

TEST_CASE("--master replaces the server and drops the other's TLS name") {
  const auto text =
      config(std::string(kServer) + ", tls-server-name: a, certificate-authority: ca", "token: t");
  const auto source = good(text, "https://vip:6443/");
  CHECK(source.fixed.server == "https://vip:6443");
  CHECK(source.fixed.tls_server_name.empty());
  CHECK(source.ca_file == "/etc/k/ca");
  CHECK(good(text).fixed.tls_server_name == "a");
  CHECK(good(config("", ""), "https://vip").fixed.server == "https://vip");
  CHECK(wrong(text, "vip:6443") ==
        one("clusters[0].cluster.server: is replaced by --master, which must start with https:// "
            "(http:// where there is no TLS)"));
}

TEST_CASE("what the current context does not lead to is named with what there is") {
  const auto text = config(kServer, "");
  auto replaced = [&text](const std::string& old, const std::string& fresh) {
    auto changed = text;
    changed.replace(changed.find(old), old.size(), fresh);
    return changed;
  };
  CHECK(wrong(replaced("current-context: c", "preferences: {}")) ==
        one("current-context: is empty: name one of the contexts (other, c)"));
  CHECK(wrong(replaced("current-context: c", "current-context: d")) ==
        one("current-context: names \"d\", which is not among the contexts (other, c)"));
  CHECK(wrong(replaced("current-context: c", "current-context: other")) ==
        Lines{"error: /etc/k/proxy.conf: contexts[0].context.cluster: names \"gone\", which is not "
              "among the clusters (k)",
              "error: /etc/k/proxy.conf: contexts[0].context.user: names \"nobody\", which is not "
              "among the users (u)"});
  CHECK(wrong("current-context: c") ==
        one("current-context: names \"c\", which is not among the contexts (none)"));
  CHECK(wrong(replaced("kind: Config", "kind: Pod")) ==
        one("kind: is not Config: this is no kubeconfig"));
}

TEST_CASE("a context without a user has no credentials") {
  const auto source = good(
      "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n"
      "clusters: [{name: k, cluster: {server: 'http://10.0.0.1:8080'}}]\n");
  CHECK(source ==
        AccessSource{.origin = "/etc/k/proxy.conf", .fixed = {.server = "http://10.0.0.1:8080"}});
}

TEST_CASE("of two of a name the first counts, with a warning") {
  const auto choice = read(
      "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n"
      "clusters: [{name: k, cluster: {server: 'https://a'}},\n"
      "           {name: k, cluster: {server: 'https://b'}}]\n");
  REQUIRE(choice.source);
  CHECK(choice.source->fixed.server == "https://a");
  CHECK(lines_of(choice.problems) ==
        Lines{"warning: /etc/k/proxy.conf: clusters[1].name: there is another \"k\" before it, "
              "which counts"});
}

TEST_CASE("text that is no kubeconfig") {
  CHECK(wrong("") == one("holds 0 documents; a kubeconfig is one"));
  CHECK(wrong("a: 1\n---\nb: 2\n") == one("holds 2 documents; a kubeconfig is one"));
  CHECK(wrong("[]") == one("must be an object, not a list"));
  CHECK(wrong("contexts: {}\ncurrent-context: c") ==
        Lines{"error: /etc/k/proxy.conf: contexts: must be a list, not an object",
              "error: /etc/k/proxy.conf: current-context: names \"c\", which is not among the "
              "contexts (none)"});
  // A broken one never shows what may be a secret.
  const auto broken = wrong(R"({"users": [{"user": {"token": "s3cret")");
  REQUIRE(broken.size() == 1);
  CHECK(broken[0].find("s3cret") == std::string::npos);
}

TEST_CASE("servers that are none") {
  const auto fault = [](const std::string& server) {
    return wrong_cluster("server: " + quoted(server));
  };
  CHECK(wrong_cluster("") ==
        one("clusters[0].cluster.server: is missing: name the API server (https://HOST:PORT)"));
  CHECK(fault("10.0.0.1:6443") == one("clusters[0].cluster.server: must start with https:// "
                                      "(http:// where there is no TLS)"));
  CHECK(server_fault("ftp://a") == "must start with https:// (http:// where there is no TLS)");
  CHECK(server_fault("https://") == "names no host");
  CHECK(server_fault("https:///path") == "names no host");
  CHECK(server_fault("https://:6443") == "names no host");
  CHECK(server_fault("https://a b") == "holds characters that no URL has");
  CHECK(server_fault("https://a\r\nX: y") == "holds characters that no URL has");
  CHECK(server_fault("https://u:p@a") == "must be no more than https://HOST[:PORT][/PATH]");
  CHECK(server_fault("https://a?b") == "must be no more than https://HOST[:PORT][/PATH]");
  CHECK(server_fault("https://fd00::1") == "must have an IPv6 address in brackets");
  CHECK(server_fault("https://[]:1") == "holds a broken IPv6 address");
  CHECK(server_fault("https://[fd00::1") == "holds a broken IPv6 address");
  for (const auto* port : {"", "0", "65536", "1x", "-1"})
    CHECK(server_fault("https://a:" + std::string(port)) == "has a port that is none");
  CHECK(server_fault("https://[fd00::1]x") == "has a port that is none");
  for (const auto* url : {"https://a", "http://a:80", "https://[fd00::1]:6443/x/y", "https://a:1/"})
    CHECK(server_fault(url).empty());
}

TEST_CASE("certificates and keys that are of no use") {
  const auto one_data = quoted(base64_encode(kCertificateOne));
  const auto key_data = quoted(base64_encode(kKeyOne));
  const std::string authority = std::string(kServer) + ", certificate-authority-data: ";
  CHECK(wrong_cluster(authority + "'AAA'") ==
        one("clusters[0].cluster.certificate-authority-data: is not base64 (one of the standard "
            "alphabet, with padding)"));
  CHECK(wrong_cluster(authority + quoted(base64_encode("nothing"))) ==
        one("clusters[0].cluster.certificate-authority-data: holds no certificate (PEM, "
            "-----BEGIN CERTIFICATE-----)"));
  CHECK(wrong_cluster(authority + one_data + ", certificate-authority: ca") ==
        one("clusters[0].cluster.certificate-authority-data: is there beside "
            "certificate-authority: remove one of them"));
  CHECK(wrong_user("client-certificate: a.crt") ==
        one("users[0].user.client-key: is missing beside client-certificate (client-key-data "
            "would do)"));
  CHECK(wrong_user("client-key-data: " + key_data) ==
        one("users[0].user.client-certificate: is missing beside client-key "
            "(client-certificate-data would do)"));
  CHECK(wrong_user("client-certificate-data: " + one_data +
                   ", client-key-data: " + quoted(base64_encode(kKeyTwo))) ==
        one("users[0].user.client-certificate-data: the client key is not that of the client "
            "certificate"));
  const auto mixed =
      good(config(kServer, "client-certificate: a.crt, client-key-data: " + key_data));
  CHECK(mixed.client_certificate_file == "/etc/k/a.crt");
  CHECK(mixed.fixed.client_key_pem == kKeyOne);
}

TEST_CASE("users of which it is not clear who they are") {
  CHECK(wrong_user("token: t, username: me, password: p") ==
        one("users[0].user.username: is there beside a token: remove one of them"));
  CHECK(wrong_user("token: t, exec: {command: c, interactiveMode: Never, "
                   "apiVersion: client.authentication.k8s.io/v1}") ==
        one("users[0].user.exec: is there beside other credentials: remove one of them"));
  CHECK(wrong_user("auth-provider: {name: gcp}") ==
        one("users[0].user.auth-provider: is no longer part of Kubernetes (since 1.26): use an "
            "exec plugin, a token or a client certificate"));
  CHECK(wrong_user("as: admin") ==
        one("users[0].user.as: impersonation is not supported, the daemon is who it is: remove it "
            "and give it credentials of that user's own"));
  CHECK(wrong_user("token: \"a\\nb\"") ==
        one("users[0].user.token: holds blanks or characters that no token has"));
  // A number is not shown, it may be the secret.
  CHECK(wrong_user("token: 12345") ==
        one("users[0].user.token: must be text (in quotes), not a number"));
  const auto basic = good(config(kServer, "username: me, password: p")).fixed;
  CHECK(basic.username == "me");
  CHECK(basic.password == "p");
}

TEST_CASE("nothing secret goes to a server without TLS") {
  const std::string in_the_clear =
      ": would be of no use or sent in the clear to http://a:8080: use https";
  for (const auto* user : {"token: t", "tokenFile: t", "username: u"}) {
    const std::string key(user, std::string_view(user).find(':'));
    CHECK(wrong(config("server: 'http://a:8080'", user)) ==
          one("users[0].user." + key + in_the_clear));
  }
  CHECK(wrong(config(kServer, "token: t"), "http://a:8080") ==
        one("users[0].user.token" + in_the_clear));
  const auto choice = read(config("server: 'http://a:8080', certificate-authority: ca", ""));
  CHECK(choice.source);
  CHECK(lines_of(choice.problems) ==
        Lines{"warning: /etc/k/proxy.conf: clusters[0].cluster.server: has no TLS, so nothing is "
              "verified with it"});
}

TEST_CASE("proxies") {
  const auto proxy = [](const std::string& url) {
    return std::string(kServer) + ", proxy-url: " + quoted(url);
  };
  CHECK(good(config(proxy("http://p:3128"), "")).fixed.proxy_url == "http://p:3128");
  CHECK(wrong_cluster(proxy("p:3128")) ==
        one("clusters[0].cluster.proxy-url: must be http://, https:// or socks5:// and a host"));
  CHECK(wrong_cluster(proxy("http://")) == one("clusters[0].cluster.proxy-url: names no host"));
}

TEST_CASE("exec plugins") {
  const std::string v1 = "apiVersion: client.authentication.k8s.io/v1, ";
  const auto exec = [](const std::string& members) { return "exec: {" + members + "}"; };
  const auto cluster = std::string(kServer) +
                       ", extensions: [{name: client.authentication.k8s.io/exec, "
                       "extension: {audience: x, list: [1, true]}}]";
  const auto source = good(config(
      cluster, exec(v1 + "command: bin/login, args: [-a, b], env: [{name: A, value: 'b=c'}], "
                         "provideClusterInfo: true, interactiveMode: IfAvailable, "
                         "installHint: get it")));
  REQUIRE(source.exec);
  CHECK(*source.exec == ExecPlugin{.command = "/etc/k/bin/login",
                                   .arguments = {"-a", "b"},
                                   .environment = {"A=b=c"},
                                   .api_version = "client.authentication.k8s.io/v1",
                                   .provide_cluster_info = true,
                                   .cluster_config_json = R"({"audience":"x","list":[1,true]})",
                                   .install_hint = "get it"});
  const auto plain = good(
      config(kServer, exec("command: login, apiVersion: client.authentication.k8s.io/v1beta1")));
  CHECK(plain.exec->command == "login");

  const auto refused = [&](const std::string& members) { return wrong_user(exec(members)); };
  CHECK(refused(v1 + "command: c") ==
        one("users[0].user.exec.interactiveMode: must be Never or IfAvailable"));
  CHECK(refused(v1 + "command: c, interactiveMode: Always") ==
        one("users[0].user.exec.interactiveMode: is Always, but nobody sits in front of a daemon: "
            "use a plugin that needs no answers (Never or IfAvailable)"));
  CHECK(refused(v1 + "interactiveMode: Never") == one("users[0].user.exec.command: is missing"));
  CHECK(refused("command: c, apiVersion: client.authentication.k8s.io/v1alpha1, "
                "interactiveMode: Never") ==
        one("users[0].user.exec.apiVersion: must be client.authentication.k8s.io/v1 or "
            "client.authentication.k8s.io/v1beta1"));
  CHECK(refused(v1 + "command: c, interactiveMode: Never, env: [{value: a}]") ==
        one("users[0].user.exec.env[0].name: must be the name of an environment variable"));
  CHECK(refused(v1 + "command: c, interactiveMode: Never, args: [1]") ==
        one("users[0].user.exec.args: must be a list of texts; a number is among them"));
}

TEST_CASE("base64 as Kubernetes writes it, and nothing like it") {
  for (const std::string bytes : {"", "a", "ab", "abc", "\xff\x80\n"})
    CHECK(base64_decode(base64_encode(bytes)) == bytes);
  const std::string zeros(3, '\0');
  CHECK(base64_encode(zeros) == "AAAA");
  CHECK(base64_decode("AAAA") == zeros);
  CHECK(base64_decode("YW\nJj\r\n") == "abc");
  CHECK(base64_decode("YWI=") == "ab");
  for (const auto* text : {"YWI", "YW=I", "Y===", "====", "YWI=YWI=", "YW J", "YWI-", "YWI_", "a"})
    CHECK(base64_decode(text) == std::nullopt);
}

TEST_CASE("certificates and keys are judged") {
  CHECK(certificate_fault(kCertificateOne + kCertificateTwo).empty());
  CHECK(certificate_fault("a comment\n" + kCertificateOne).empty());
  CHECK(certificate_fault("") == "holds no certificate (PEM, -----BEGIN CERTIFICATE-----)");
  CHECK(certificate_fault(kKeyOne) == certificate_fault(""));
  auto broken = kCertificateTwo;
  broken[60] = '*';
  CHECK(certificate_fault(kCertificateOne + broken) ==
        "holds a certificate that cannot be read (PEM, -----BEGIN CERTIFICATE-----)");
  CHECK(key_pair_fault(kCertificateOne, kKeyOne).empty());
  // Both in one file, in either order.
  CHECK(key_pair_fault(kKeyOne + kCertificateOne, kCertificateOne + kKeyOne).empty());
  CHECK(key_pair_fault(kCertificateOne, kKeyTwo) ==
        "the client key is not that of the client certificate");
  CHECK(key_pair_fault("", kKeyOne) == "the client certificate holds no certificate (PEM)");
  // Without a question on the terminal.
  CHECK(key_pair_fault(kCertificateOne, kKeyOneWithPassword).find("password") != std::string::npos);
}

// A folder with the files of a pod's service account.
struct Pod {
  test::TempDir folder;
  PodPlace place{.host = "10.96.0.1", .port = "443", .folder = folder.path().native()};

  Pod() {
    write("ca.crt", kCertificateOne);
    write("token", "abc\n");
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder.path() / name) << text;
  }
  std::string path(const std::string& name) const { return (folder.path() / name).native(); }
};

TEST_CASE("in a pod: the environment and the service account") {
  Pod pod;
  auto choice = choose_access("", "", pod.place);
  REQUIRE(choice.source);
  CHECK(choice.problems.empty());
  CHECK(*choice.source == AccessSource{.origin = "the pod's service account",
                                       .fixed = {.server = "https://10.96.0.1:443",
                                                 .user_agent = default_user_agent()},
                                       .ca_file = pod.path("ca.crt"),
                                       .token_file = pod.path("token")});
  pod.place.host = "fd00::1";
  CHECK(choose_access("", "", pod.place).source->fixed.server == "https://[fd00::1]:443");
}

TEST_CASE("no pod, or one without its service account") {
  Pod pod;
  const auto problems = [&pod] {
    const auto choice = choose_access("", "", pod.place);
    CHECK(!choice.source);
    return lines_of(choice.problems);
  };
  const std::string account = ": the pod's service account: ";
  pod.write("token", " \n");
  CHECK(problems() == Lines{"error: " + pod.path("token") + account + "holds no token"});
  pod.write("token", "abc");
  std::filesystem::remove(pod.path("ca.crt"));
  CHECK(problems() == Lines{"error: " + pod.path("ca.crt") + account +
                            "cannot be read: No such file or directory"});
  pod.place.host.clear();
  CHECK(problems() ==
        Lines{"error: KUBERNETES_SERVICE_HOST: is not set, so this is no pod of a cluster: name a "
              "kubeconfig (clientConnection.kubeconfig, --kubeconfig) or a server (--master)"});
  pod.place = {.host = "10.96.0.1", .port = "x", .folder = pod.place.folder};
  CHECK(problems() == Lines{"error: KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT: has a port "
                            "that is none"});
}

TEST_CASE("--master alone is that server without credentials, also in a pod") {
  const Pod pod;
  const auto choice = choose_access("", "https://a:6443/", pod.place);
  REQUIRE(choice.source);
  CHECK(*choice.source ==
        AccessSource{.origin = "--master",
                     .fixed = {.server = "https://a:6443", .user_agent = default_user_agent()}});
  CHECK(lines_of(choose_access("", "a:6443", pod.place).problems) ==
        Lines{"error: --master: must start with https:// (http:// where there is no TLS)"});
}

TEST_CASE("the files that a kubeconfig names are read before the daemon starts") {
  const Pod pod;
  const auto kubeconfig = pod.path("proxy.conf");
  const auto choose = [&](const std::string& user) {
    pod.write("proxy.conf", config(std::string(kServer) + ", certificate-authority: ca.crt", user));
    return choose_access(kubeconfig, "", PodPlace{});
  };
  const auto good_choice = choose("tokenFile: token");
  CHECK(good_choice.problems.empty());
  REQUIRE(good_choice.source);
  CHECK(good_choice.source->token_file == pod.path("token"));
  CHECK(good_choice.source->fixed.user_agent == default_user_agent());

  const auto missing = choose("tokenFile: nowhere");
  CHECK(!missing.source);
  CHECK(lines_of(missing.problems) == Lines{"error: " + pod.path("nowhere") + ": " + kubeconfig +
                                            ": user u: cannot be read: No such file or directory"});
  pod.write("one.crt", kCertificateOne);
  pod.write("two.key", kKeyTwo);
  CHECK(lines_of(choose("client-certificate: one.crt, client-key: two.key").problems) ==
        Lines{"error: " + pod.path("one.crt") + ": " + kubeconfig +
              ": user u: the client key is not that of the client certificate"});
  CHECK(lines_of(choose_access(pod.path("none"), "", PodPlace{}).problems) ==
        Lines{"error: " + pod.path("none") + ": cannot be read: No such file or directory"});
}

TEST_CASE("the user agent says what we are") {
  CHECK(default_user_agent().starts_with("ipvs-proxier/" IPVS_PROXIER_VERSION " (linux/"));
}

}  // namespace
}  // namespace ipvsproxier::access
