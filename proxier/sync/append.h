#pragma once

// append: moves the elements of one list to the end of another. Any thread.

#include <iterator>
#include <utility>
#include <vector>

namespace ipvsproxier::sync {

template <typename T>
void append(std::vector<T>& to, std::vector<T> from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

}  // namespace ipvsproxier::sync
