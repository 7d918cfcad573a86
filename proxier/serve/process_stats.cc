#include "proxier/serve/process_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace ipvsproxier::serve {

namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

std::uint64_t soft_limit(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  return ::getrlimit(resource, &limit) == 0 ? limit.rlim_cur : 0;
}

std::uint64_t count_fds() {
  std::error_code error;
  std::filesystem::directory_iterator entries("/proc/self/fd", error);
  std::uint64_t count = 0;
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error))
    ++count;
  return count > 0 ? count - 1 : 0;  // without the descriptor of the listing itself
}

// The boot time from /proc/stat, in seconds since the epoch.
double boot_time() {
  std::ifstream stat("/proc/stat");
  for (std::string word; stat >> word;) {
    double time = 0;
    if (word == "btime" && stat >> time) return time;
  }
  return 0;
}

// From /proc/self/stat (proc(5)): field 22, in ticks since boot. Field 2 stands in brackets and may
// hold any text.
double start_time() {
  std::ifstream stat("/proc/self/stat");
  std::string line;
  std::getline(stat, line);
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double ticks = 0;
  const long ticks_per_second = ::sysconf(_SC_CLK_TCK);
  if (!(fields >> ticks) || ticks_per_second <= 0) return 0;
  return boot_time() + ticks / static_cast<double>(ticks_per_second);
}

}  // namespace

ProcessStats read_process_stats() {
  ProcessStats stats{.open_fds = count_fds(),
                     .max_fds = soft_limit(RLIMIT_NOFILE),
                     .max_virtual_bytes = soft_limit(RLIMIT_AS),
                     .start_time_seconds = start_time()};
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0)
    stats.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  std::uint64_t pages = 0;
  std::uint64_t resident = 0;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (std::ifstream statm("/proc/self/statm"); statm >> pages >> resident) {
    stats.virtual_bytes = pages * page;
    stats.resident_bytes = resident * page;
  }
  return stats;
}

}  // namespace ipvsproxier::serve
