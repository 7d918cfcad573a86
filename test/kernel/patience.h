#pragma once

// How long a test waits for what must come. A wait ends when it has come, so only a failure takes
// this long: it is made for a machine on which a page fault of the scratch kernel takes 200 us.

namespace ipvsproxier::test {

inline constexpr int kPatience = 120'000;  // ms

}  // namespace ipvsproxier::test
