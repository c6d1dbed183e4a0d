// User-mode Linux on CPUs whose extended state is larger than it knows (2,696 bytes; with AMX 11,008).
//
// linux.uml of Linux 6.1 keeps the registers of its processes in a buffer of fixed size. The host's kernel fills it as
// far as it goes (ptrace(2), PTRACE_GETREGSET, NT_X86_XSTATE), but takes back nothing but the whole: EFAULT, and
// linux.uml panics at its first process. Preloaded, this ptrace gives back the whole, with the components that the
// buffer has no room for in their initial state. They are never in another one: use of AMX has to be asked for by
// arch_prctl(2), ARCH_REQ_XCOMP_PERM, which linux.uml denies.
//
// It is linked with nothing, and takes what it declares here from the C library of linux.uml.

#ifdef __x86_64__

#include <cpuid.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

extern long syscall(long number, ...);
extern int *__errno_location(void);
extern void *memcpy(void *to, const void *from, size_t length);
extern void *memset(void *to, int value, size_t length);

struct iovec { void *iov_base; size_t iov_len; };

enum { SYS_PTRACE = 101, EFAULT = 14 };
enum { PEEKTEXT = 1, PEEKDATA = 2, PEEKUSR = 3, GETREGSET = 0x4204, SETREGSET = 0x4205 };
enum { XSTATE = 0x202 };            // NT_X86_XSTATE
enum { XSTATE_LEAF = 0xd };         // of CPUID: size and offset of each component, and of them all
enum { XSTATE_BV = 512 };           // where the image says which components it has: Intel SDM 1, 13.4.2
enum { FIRST_EXTENDED = 2, COMPONENTS = 63 };

// linux.uml asks from one thread.
static unsigned char image[1 << 16];
static struct iovec whole = { image, sizeof image };
static size_t known_length;  // of what linux.uml keeps, where that is not the whole; 0 until one was refused
static uint64_t unknown;     // the components beyond it

static uint64_t components_beyond(size_t length)
{
    uint64_t beyond = 0;
    for (unsigned component = FIRST_EXTENDED; component < COMPONENTS; component++) {
        unsigned size, offset, c, d;
        __cpuid_count(XSTATE_LEAF, component, size, offset, c, d);
        if (size && (size_t)offset + size > length)
            beyond |= UINT64_C(1) << component;
    }
    return beyond;
}

static long set_xstate(long pid, const struct iovec *known)
{
    if (known->iov_len != known_length) {
        long result = syscall(SYS_PTRACE, SETREGSET, pid, XSTATE, known);
        if (result == 0 || *__errno_location() != EFAULT || known->iov_len < XSTATE_BV + sizeof unknown)
            return result;
        if (syscall(SYS_PTRACE, GETREGSET, pid, XSTATE, &whole) < 0)
            return -1;
        if (whole.iov_len <= known->iov_len) {
            *__errno_location() = EFAULT;
            return -1;
        }
        memset(image, 0, sizeof image);
        known_length = known->iov_len;
        unknown = components_beyond(known_length);
    }
    memcpy(image, known->iov_base, known_length);
    uint64_t present;
    memcpy(&present, image + XSTATE_BV, sizeof present);
    present &= ~unknown;
    memcpy(image + XSTATE_BV, &present, sizeof present);
    return syscall(SYS_PTRACE, SETREGSET, pid, XSTATE, &whole);
}

long ptrace(int request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    long pid = va_arg(arguments, int);
    void *address = va_arg(arguments, void *);
    void *data = va_arg(arguments, void *);
    va_end(arguments);
    if (request == SETREGSET && (long)address == XSTATE)
        return set_xstate(pid, data);
    if (request != PEEKTEXT && request != PEEKDATA && request != PEEKUSR)
        return syscall(SYS_PTRACE, request, pid, address, data);
    long word;  // which the system call stores, and the C library's function returns
    if (syscall(SYS_PTRACE, request, pid, address, &word) < 0)
        return -1;
    *__errno_location() = 0;
    return word;
}

#endif
