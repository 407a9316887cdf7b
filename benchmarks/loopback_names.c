/* Preloaded into a peer (LD_PRELOAD): every host name is 127.0.0.1, so that many hosts need no name server. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    struct addrinfo numeric = {0};
    if (!real) real = (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym(RTLD_NEXT, "getaddrinfo");
    if (hints) numeric = *hints;
    if (numeric.ai_family == AF_INET6) return EAI_NONAME;
    numeric.ai_flags &= ~AI_CANONNAME;
    return real(name ? "127.0.0.1" : name, service, &numeric, found);
}
