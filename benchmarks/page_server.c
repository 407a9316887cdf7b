/* Serves prebuilt answers of many host names on one loopback port, at a small fraction of what any crawler costs.
 *
 *     page_server ANSWERS PORT LOG [CERTIFICATE KEY]
 *
 * ANSWERS is a file of benchmarks/answer_file.py: a hash table from host and path to whole HTTP answers. /robots.txt is
 * the same on every host. A URL that is not in the table gets 404, or, if the file has templates, one of these with
 * every run of '@' replaced by letters that depend on the URL: a Web without end.
 * Prints `ready`. Each line on stdin is answered with a line of JSON: counts, times (CLOCK_MONOTONIC) and own CPU. At
 * the end of stdin it writes LOG (two doubles for each page: request complete, answer handed over) and ends.
 * One thread, kept connections, no date, no compression. With -DWITH_TLS it needs OpenSSL.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_TLS
#include <openssl/ssl.h>
#endif

enum { REQUEST_MAX = 8192, HOST_MAX = 256, EVENTS_MAX = 256, BACKLOG = 4096, FIXED_ANSWERS = 2 };

typedef struct { uint64_t magic, slots, slots_at, templates, templates_at; } Header;
typedef struct { uint64_t key, at, length; } Slot;
typedef struct { uint64_t at, length; } Template;  /* the first is robots.txt, the second 404 */
typedef struct {
    int fd, is_page;
    size_t received, sent, length;
    const char *answer;
    char *filled;  /* the answer is a template's copy, to be freed */
    double started;
#ifdef WITH_TLS
    SSL *tls;
#endif
    char request[REQUEST_MAX];
} Connection;

static const char *file;
static const Header *header;
static const Slot *slots;
static const Template *templates;
static int poller;
static uint64_t requests, pages, robots, missing, sent_bytes, connections;
static double first_s, last_s, *times;
static size_t times_max;
#ifdef WITH_TLS
static SSL_CTX *context;
#endif

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void print_stats(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("{\"requests\":%lu,\"pages\":%lu,\"robots\":%lu,\"missing\":%lu,\"sent_bytes\":%lu,\"connections\":%lu,"
           "\"first_s\":%.6f,\"last_s\":%.6f,\"cpu_s\":%.6f}\n",
           requests, pages, robots, missing, sent_bytes, connections, first_s, last_s,
           used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6);
    fflush(stdout);
}

static uint64_t hash(uint64_t seed, const char *text, size_t length) {  /* FNV-1a */
    for (size_t i = 0; i < length; i++) seed = (seed ^ (unsigned char)text[i]) * 1099511628211u;
    return seed;
}

static void close_connection(Connection *one) {
#ifdef WITH_TLS
    if (one->tls) SSL_free(one->tls);
#endif
    close(one->fd);
    free(one->filled);
    free(one);
}

/* Bytes moved; 0: try again later; -1: closed. */
static ssize_t transfer(Connection *one, int is_write, char *to, const char *from, size_t length) {
#ifdef WITH_TLS
    if (one->tls) {
        int done = is_write ? SSL_write(one->tls, from, length) : SSL_read(one->tls, to, length);
        if (done > 0) return done;
        int error = SSL_get_error(one->tls, done);
        return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? 0 : -1;
    }
#endif
    ssize_t done = is_write ? send(one->fd, from, length, MSG_NOSIGNAL) : recv(one->fd, to, length, 0);
    if (done > 0) return done;
    return done < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

static void fill(Connection *one, const Template *template, uint64_t key) {
    one->length = template->length;
    one->answer = one->filled = malloc(template->length);
    if (!one->filled) fail("malloc");
    memcpy(one->filled, file + template->at, template->length);
    char *at = one->filled, *end = at + template->length;
    while ((at = memchr(at, '@', end - at)))
        for (; at < end && *at == '@'; at++) {
            key = key * 6364136223846793005u + 1442695040888963407u;
            *at = 'a' + (key >> 33) % 26;
        }
}

/* Find the answer to a request whose last byte is there. */
static void choose(Connection *one, const char *end) {
    char name[HOST_MAX], *path = memchr(one->request, ' ', end - one->request);
    char *path_end = path ? memchr(path + 1, ' ', end - path - 1) : NULL;
    char *host = strcasestr(one->request, "\r\nhost:");
    const Template *found = &templates[1];
    size_t length = 0;
    one->is_page = 0;
    if (path_end && host && host < end) {
        for (host += 7; *host == ' '; host++) {}
        for (; length < HOST_MAX && *host != ':' && *host != '\r'; host++) name[length++] = tolower(*host);
        path++;
        uint64_t key = hash(hash(14695981039346656037u, name, length), path, path_end - path);
        if (path_end - path == 11 && !memcmp(path, "/robots.txt", 11)) {
            found = &templates[0];
            robots++;
        } else {
            uint64_t at = key & (header->slots - 1);
            while (slots[at].length && slots[at].key != key) at = (at + 1) & (header->slots - 1);
            one->is_page = 1;
            if (slots[at].length) {
                one->answer = file + slots[at].at;
                one->length = slots[at].length;
                return;
            }
            if (header->templates > FIXED_ANSWERS) {
                fill(one, &templates[FIXED_ANSWERS + key % (header->templates - FIXED_ANSWERS)], key);
                return;
            }
            one->is_page = 0;
            missing++;
        }
    }
    one->answer = file + found->at;
    one->length = found->length;
}

static void count(Connection *one) {
    double ended = now();
    sent_bytes += one->length;
    if (!one->is_page) return;
    if (pages == times_max) {
        times_max = times_max ? 2 * times_max : 1 << 16;
        times = realloc(times, times_max * 2 * sizeof(double));
        if (!times) fail("realloc");
    }
    times[2 * pages] = one->started;
    times[2 * pages + 1] = last_s = ended;
    pages++;
}

/* Read and answer until the socket has no more; 0: close it. */
static int serve(Connection *one) {
    for (;;) {
        while (one->sent < one->length) {
            ssize_t done = transfer(one, 1, NULL, one->answer + one->sent, one->length - one->sent);
            if (done <= 0) return done == 0;
            one->sent += done;
            if (one->sent == one->length) {
                count(one);
                free(one->filled);
                one->filled = NULL;
            }
        }
        one->request[one->received] = 0;
        char *end = one->received ? strstr(one->request, "\r\n\r\n") : NULL;
        if (end) {
            one->started = now();
            if (!requests++) first_s = one->started;
            choose(one, end);
            one->sent = 0;
            one->received -= end + 4 - one->request;
            memmove(one->request, end + 4, one->received);
            continue;
        }
        if (one->received >= REQUEST_MAX - 1) return 0;
        ssize_t done = transfer(one, 0, one->request + one->received, NULL, REQUEST_MAX - 1 - one->received);
        if (done <= 0) return done == 0;
        one->received += done;
    }
}

static void accept_all(int listener) {
    int fd, yes = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        Connection *one = calloc(1, sizeof *one);
        if (!one) fail("calloc");
        one->fd = fd;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
#ifdef WITH_TLS
        if (context) {
            one->tls = SSL_new(context);
            SSL_set_fd(one->tls, fd);
            SSL_set_accept_state(one->tls);
        }
#endif
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = one};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event)) close_connection(one);
        connections++;
    }
}

static int listen_on(int port) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, BACKLOG)) fail("listen");
    return listener;
}

static void map_answers(const char *path) {
    struct stat found;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &found)) fail(path);
    file = mmap(NULL, found.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (file == MAP_FAILED) fail("mmap");
    header = (const Header *)file;
    if (header->magic != 0x3153524557534e41u) fail("not a file of answers");
    slots = (const Slot *)(file + header->slots_at);
    templates = (const Template *)(file + header->templates_at);
}

static void use_certificate(const char *certificate, const char *key) {
#ifdef WITH_TLS
    context = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS);
    if (SSL_CTX_use_certificate_file(context, certificate, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1) fail(certificate);
#else
    fprintf(stderr, "%s, %s: compiled without TLS\n", certificate, key);
    exit(1);
#endif
}

static void end(const char *log) {
    FILE *out = fopen(log, "wb");
    if (!out || fwrite(times, 2 * sizeof(double), pages, out) != pages || fclose(out)) fail(log);
    exit(0);
}

int main(int argc, char **argv) {
    struct rlimit files;
    struct epoll_event events[EVENTS_MAX], event = {.events = EPOLLIN};
    char line[256];
    if (argc != 4 && argc != 6) return fprintf(stderr, "page_server ANSWERS PORT LOG [CERTIFICATE KEY]\n"), 2;
    signal(SIGPIPE, SIG_IGN);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    map_answers(argv[1]);
    if (argc == 6) use_certificate(argv[4], argv[5]);
    int listener = listen_on(atoi(argv[2]));
    poller = epoll_create1(EPOLL_CLOEXEC);
    event.data.ptr = &listener;
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    event.data.ptr = NULL;  /* stdin */
    epoll_ctl(poller, EPOLL_CTL_ADD, 0, &event);
    puts("ready");
    fflush(stdout);
    for (;;) {
        int count = epoll_wait(poller, events, EVENTS_MAX, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == &listener) accept_all(listener);
            else if (events[i].data.ptr) {
                Connection *one = events[i].data.ptr;
                if (!serve(one)) close_connection(one);
            } else if (read(0, line, sizeof line) > 0) print_stats();
            else end(argv[3]);
        }
    }
}
