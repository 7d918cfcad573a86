#pragma once

// ApiProbe: asks an API server what a daemon will ask it: of each resource one object of its list,
// then a watch from that list's version on. The watch is proven by its response head, and given up.
// A sample of objects is a list without a watch. Main thread only.

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proxier/access/transport.h"
#include "proxier/api/objects.h"
#include "proxier/check/facts.h"
#include "proxier/loop/timers.h"

namespace ipvsproxier::check {

struct ApiResource {
  std::string name;  // "services"
  api::ObjectKind kind = api::ObjectKind::service;
  std::string target;    // path and selector: "/api/v1/services?labelSelector=..."
  std::size_t most = 1;  // objects to list
  // Called with the list of a sample, as the server wrote it. Empty: it is no sample, and a watch
  // follows the list.
  std::function<void(const std::string& list)> on_sample;
};

class ApiProbe {
 public:
  // How long one answer may take to begin, and to end.
  static constexpr std::chrono::seconds kPatience{5};

  // Asks nothing yet. The transport and the timers must outlive it; its deadlines are named
  // "check ...". `on_done` is called once, after the last answer, from the loop.
  ApiProbe(std::vector<ApiResource> resources, access::Transport& transport, loop::Timers& timers,
           std::function<void()> on_done);
  ApiProbe(const ApiProbe&) = delete;
  ApiProbe& operator=(const ApiProbe&) = delete;
  ~ApiProbe();

  // Asks for what a daemon needs at the same time, and then for one sample after the other: a
  // sample may be large, and must not make a needed answer late.
  void start();
  // "list services", "watch services", ...: in the order of the resources, samples last; those that
  // were answered so far. A watch is not asked for where the list failed.
  std::vector<ApiFact> facts() const;

 private:
  class Asking;

  void start_sample();

  std::vector<std::unique_ptr<Asking>> askings_;
  std::function<void()> on_done_;
  std::size_t started_ = 0;
  std::size_t running_ = 0;
};

}  // namespace ipvsproxier::check
