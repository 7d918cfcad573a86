// The traffic figures of all Services, as scrapes have them read.

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "test/bench/kernel_parts.h"
#include "test/bench/measurements.h"

namespace ipvsproxier::bench {

// Four scrapes; the first finds nothing warm and is left out. A scrape takes the parts on the sync
// thread, with nothing between them, and the text on the other.
void measure_figures(KernelWorld& world, const Size& size) {
  std::vector<serve::ServiceFigures> figures;
  bool whole = false;
  world.publish_figures = [&](serve::FiguresPart part) {
    std::move(part.figures.begin(), part.figures.end(), std::back_inserter(figures));
    whole = part.end == serve::FiguresPart::End::whole;
  };
  auto reconciler = synced(world, size);
  while (reconciler->reading()) reconciler->run(kStart);
  double after_first = 0;
  for (int round = 0; round < 4; ++round) {
    figures = {};
    whole = false;
    const auto before = world.sent();
    std::vector<double> parts;
    reconciler->read_figures();
    while (!whole) {
      const double start = now_ms();
      require_complete(reconciler->run(kStart));
      parts.push_back(now_ms() - start);
    }
    const double start = now_ms();
    const auto text = serve::figures_text(figures);
    const double writing = now_ms() - start;
    double all = 0;
    for (const double part : parts) all += part;
    if (round == 0) {
      after_first = resident_kb();
      continue;
    }
    std::sort(parts.begin(), parts.end());
    print_figure("scrape", all + writing, "ms");
    print_figure("text", writing, "ms");
    print_figure("bytes", static_cast<double>(text.size()), "");
    print_figure("ports", static_cast<double>(figures.size()), "");
    print_figure("parts", static_cast<double>(parts.size()), "");
    print_figure("longest part", parts.back(), "ms");
    print_figure("median part", parts[parts.size() / 2], "ms");
    const auto after = world.sent();
    print_figure("requests", static_cast<double>(after.ipvs_dumps - before.ipvs_dumps), "");
    print_figure("write requests", static_cast<double>(after.writes - before.writes), "");
  }
  print_figure("growth over three scrapes", (resident_kb() - after_first) / 1024, "MB");
}

}  // namespace ipvsproxier::bench
