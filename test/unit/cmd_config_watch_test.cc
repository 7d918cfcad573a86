#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <utility>

#include <spdlog/sinks/ostream_sink.h>
#include <catch2/catch.hpp>

#include "cmd/ipvs_proxier/config_watch.h"
#include "test/unit/config_files.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::cmd {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using test::ConfigFile;
using test::kConfigHead;
using test::write_file;
using Lines = std::vector<std::string>;

TEST_CASE("a text is judged by what it means") {
  ConfigFile file("mode: ipvs\nipvs: {scheduler: rr}\nlogging: {verbosity: 1}\n");
  const auto running = test::options_of({"--config", file.path(), "-v=3", "--hostname-override=n"});
  const auto change = [&](const std::string& text) { return judge_config(text, running).change; };
  const auto same = kConfigHead + "mode: ipvs\nipvs: {scheduler: rr}\nlogging: {verbosity: 1}\n";
  CHECK(change(same) == ConfigChange::none);
  CHECK(change("# a comment\n" + same + "bindAddress: 0.0.0.0\nunheard: of\n") ==
        ConfigChange::none);
  CHECK(change(R"({"kind":"KubeProxyConfiguration","ipvs":{"scheduler":"rr"},"mode":"ipvs",)"
               R"("apiVersion":"kubeproxy.config.k8s.io/v1alpha1"})") == ConfigChange::none);
  // What flags say wins before and after.
  CHECK(change(same + "hostnameOverride: other\n") == ConfigChange::none);
  CHECK(change(kConfigHead + "mode: ipvs\nipvs: {scheduler: rr}\nlogging: {verbosity: 9}\n") ==
        ConfigChange::none);
  CHECK(change(same + "clusterCIDR: 10.0.0.0/8\n") == ConfigChange::valid);
  CHECK(change(kConfigHead + "mode: ipvs\n") == ConfigChange::valid);
  CHECK(change("") == ConfigChange::invalid);
  CHECK(change(same + "oomScoreAdj: x\n") == ConfigChange::invalid);
  const auto verdict = judge_config(same + "oomScoreAdj: 1001\n", running);
  CHECK(verdict.change == ConfigChange::invalid);
  CHECK(test::lines_of(verdict.problems) ==
        Lines{"error: " + file.path() +
              ": oomScoreAdj: failed validate: KubeProxyConfiguration.KubeProxyLinuxConfiguration."
              "OOMScoreAdj: Invalid value: 1001: must be within the range [-1000, 1000]"});
}

TEST_CASE("a blank name would leave the node without one") {
  ConfigFile file("mode: ipvs\n");
  const auto running = test::options_of({"--config", file.path()});
  CHECK(judge_config(kConfigHead + "mode: ipvs\nhostnameOverride: ' '\n", running).change ==
        ConfigChange::invalid);
  CHECK(judge_config(kConfigHead + "mode: ipvs\nhostnameOverride: node\n", running).change ==
        ConfigChange::valid);
}

struct Step {
  std::string after;  // this was said; "": a while has passed
  std::function<void()> act;
};

// A loop that watches a configuration file, and what it said.
class Watching {
 public:
  explicit Watching(const std::string& file)
      : options_(test::options_of({"--config", file})),
        logger_("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(said_, true)) {
    logger_.set_pattern("%l: %v");
  }

  // Whether, after all steps, the configuration has changed. It is not waited for without end.
  bool changes_after(std::vector<Step> steps) {
    steps_ = std::move(steps);
    loop::MainLoop loop;
    bool changed = false;
    const ConfigWatch watch(options_, loop, logger_, [&] {
      changed = true;
      loop.quit();
    });
    look(loop, loop::MainLoop::Clock::now() + 20s);
    loop.run();
    CAPTURE(said_.str());
    CHECK(steps_.empty());
    return changed;
  }

  std::size_t said(const std::string& text) const {
    std::size_t count = 0;
    const auto all = said_.str();
    for (auto at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) ++count;
    return count;
  }

 private:
  void look(loop::MainLoop& loop, loop::MainLoop::Clock::time_point end) {
    const auto now = loop::MainLoop::Clock::now();
    if (now >= end) return loop.quit();
    if (!steps_.empty() && (steps_[0].after.empty() || said(steps_[0].after) > 0)) {
      steps_[0].act();
      steps_.erase(steps_.begin());
    }
    loop.at("look", now + (steps_.empty() || steps_[0].after.empty() ? 200ms : 5ms),
            [this, &loop, end] { look(loop, end); });
  }

  Options options_;
  std::ostringstream said_;
  spdlog::logger logger_;
  std::vector<Step> steps_;
};

const std::string kPlain = kConfigHead + "mode: ipvs\n";
const std::string kOther = kConfigHead + "mode: ipvs\nipvs: {scheduler: mh}\n";
const std::string kBroken = kConfigHead + "mode: ipvs\nipvs: {scheduler: 5}\n";

TEST_CASE("a file that is written in place is noticed") {
  const test::TempDir folder;
  const auto file = folder.path() / "config.conf";
  write_file(file, kPlain);
  Watching watching(file.string());
  CHECK(watching.changes_after({{"", [&] { write_file(file, kOther); }}}));
  CHECK(watching.said("ending, to be started with it") == 1);
}

TEST_CASE("a file that is renamed over the old one is noticed") {
  const test::TempDir folder;
  const auto file = folder.path() / "config.conf";
  write_file(file, kPlain);
  Watching watching(file.string());
  CHECK(watching.changes_after({{"", [&] {
                                   write_file(folder.path() / "new", kOther);
                                   fs::rename(folder.path() / "new", file);
                                 }}}));
}

// As kubelet does it: config.conf -> ..data/config.conf, ..data -> ..TIME.
TEST_CASE("a ConfigMap that is swapped is noticed") {
  const test::TempDir folder;
  const auto& path = folder.path();
  fs::create_directory(path / "..1");
  write_file(path / "..1" / "config.conf", kPlain);
  fs::create_symlink("..1", path / "..data");
  fs::create_symlink("..data/config.conf", path / "config.conf");
  Watching watching((path / "config.conf").string());
  const auto swap = [&path](const std::string& name, const std::string& text) {
    fs::create_directory(path / name);
    write_file(path / name / "config.conf", text);
    fs::create_symlink(name, path / "..data_tmp");
    fs::rename(path / "..data_tmp", path / "..data");
  };
  CHECK(watching.changes_after({{"", [&] { swap("..2", kBroken); }},
                                {"must be text, not 5", [&] { fs::remove_all(path / "..1"); }},
                                {"", [&] { swap("..3", kOther); }}}));
}

TEST_CASE("a file that changed before it was watched is noticed") {
  const test::TempDir folder;
  const auto file = folder.path() / "config.conf";
  write_file(file, kPlain);
  Watching watching(file.string());
  write_file(file, kOther);
  CHECK(watching.changes_after({}));
}

TEST_CASE("an invalid configuration is told once and changes nothing, until it is mended") {
  const test::TempDir folder;
  const auto file = folder.path() / "config.conf";
  write_file(file, kPlain);
  Watching watching(file.string());
  const std::string wrong = "error: " + file.string() + ": ipvs.scheduler: must be text, not 5";
  const std::string gone = "error: " + file.string() + ": cannot be read: No such file";
  CHECK(watching.changes_after({{"", [&] { write_file(file, kBroken); }},
                                {wrong, [&] { write_file(file, "# more\n" + kBroken); }},
                                {"", [&] { fs::remove(file); }},
                                {gone, [&] { write_file(file, kPlain); }},
                                {"can be used again", [&] { write_file(file, kOther); }}}));
  CHECK(watching.said(wrong) == 1);
  CHECK(watching.said("going on with the configuration from before") == 2);
}

TEST_CASE("what means the same changes nothing") {
  const test::TempDir folder;
  const auto file = folder.path() / "config.conf";
  write_file(file, kPlain);
  Watching watching(file.string());
  CHECK(watching.changes_after({{"", [&] { write_file(file, "# a comment\n" + kPlain); }},
                                {"", [&] { write_file(file, kPlain); }},
                                {"", [&] { write_file(file, kOther); }}}));
  CHECK(watching.said("ending, to be started with it") == 1);
}

// Until it is closed, nobody knows what it will be.
TEST_CASE("a file is not read while somebody writes it") {
  const test::TempDir folder;
  const auto file = folder.path() / "config.conf";
  write_file(file, kPlain);
  Watching watching(file.string());
  std::ofstream writer;
  CHECK(watching.changes_after({{"",
                                 [&] {
                                   writer.open(file, std::ios::trunc);
                                   (writer << kConfigHead << "ipvs: {scheduler: ").flush();
                                 }},
                                {"", [&] { (writer << "mh}\n").flush(); }},
                                {"", [&] { writer.close(); }}}));
  CHECK(watching.said("error") == 0);
}

}  // namespace
}  // namespace ipvsproxier::cmd
