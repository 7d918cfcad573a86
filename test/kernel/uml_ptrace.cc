// Preloaded into linux.uml by uml_run.sh on processors with more registers than it knows.
//
// User Mode Linux 6.1 keeps 2,696 bytes of extended registers (HOST_FP_SIZE, arch/x86/um/
// user-offsets.c) of each guest process. With AMX a host's XSAVE area is larger, and the host takes
// only whole ones (xstateregs_set(), arch/x86/kernel/fpu/regset.c): the guest's first process would
// die of EFAULT. So what UML gives replaces the beginning of the whole; the rest, tile registers,
// stays, as nothing in the guest uses it.

#include <dlfcn.h>
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstring>

namespace {

using Ptrace = long (*)(int, pid_t, void*, void*);

long set_registers(Ptrace next, pid_t pid, void* kind, const iovec& some) {
  alignas(64) static thread_local char whole[64 * 1024];
  iovec all{.iov_base = whole, .iov_len = sizeof(whole)};
  const long got = next(PTRACE_GETREGSET, pid, kind, &all);
  if (got != 0) return got;
  std::memcpy(whole, some.iov_base, some.iov_len < all.iov_len ? some.iov_len : all.iov_len);
  return next(PTRACE_SETREGSET, pid, kind, &all);
}

}  // namespace

// In place of the C library's, whose declaration is variadic: here that is passed alike.
extern "C" long preloaded(int request, pid_t pid, void* address, void* data) noexcept
    __asm__("ptrace");

extern "C" long preloaded(int request, pid_t pid, void* address, void* data) noexcept {
  static const auto next = reinterpret_cast<Ptrace>(dlsym(RTLD_NEXT, "ptrace"));
  if (request == PTRACE_SETREGSET && reinterpret_cast<unsigned long>(address) == NT_X86_XSTATE)
    return set_registers(next, pid, address, *static_cast<const iovec*>(data));
  return next(request, pid, address, data);
}
