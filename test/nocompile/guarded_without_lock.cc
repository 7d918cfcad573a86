// What a lock guards cannot be read without it. Only clang checks that.
// expect: requires holding mutex

#include "proxier/loop/mailbox.h"

struct Shared {
  ipvsproxier::loop::Mutex mutex;
  int value IPVSPROXIER_THREADS(guarded_by(mutex)) = 0;
};

int value_of(Shared& shared) {
#ifndef MISUSE
  const ipvsproxier::loop::MutexLock lock(shared.mutex);
#endif
  return shared.value;
}
