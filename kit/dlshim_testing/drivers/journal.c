#define _GNU_SOURCE
#include "journal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t the_lock = PTHREAD_MUTEX_INITIALIZER;

void fm_lock(void)
{
    pthread_mutex_lock(&the_lock);
}

void fm_unlock(void)
{
    pthread_mutex_unlock(&the_lock);
}

/* ---- memory and texts ---- */

void *fm_allocate(size_t size)
{
    void *block = calloc(1, size ? size : 1);
    if (!block)
        abort();
    return block;
}

void *fm_resize(void *block, size_t size)
{
    block = realloc(block, size);
    if (!block)
        abort();
    return block;
}

static void append(fm_text *text, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int wanted = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (wanted < 0)
        abort();
    size_t size = (size_t)wanted;
    if (text->length + size + 1 > text->room) {
        text->room = 2 * (text->length + size + 1);
        text->text = fm_resize(text->text, text->room);
    }
    vsnprintf(text->text + text->length, size + 1, format, arguments);
    text->length += size;
}

void fm_append(fm_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append(text, format, arguments);
    va_end(arguments);
}

char *fm_text_copy(const fm_text *text)
{
    char *copy = fm_allocate(text->length + 1);
    if (text->length)
        memcpy(copy, text->text, text->length);
    return copy;
}

void fm_text_clear(fm_text *text)
{
    text->length = 0;
    if (text->text)
        text->text[0] = 0;
}

/* ---- threads ---- */

static unsigned thread_count;
static _Thread_local unsigned thread_number;
static _Thread_local char caller[32];

unsigned fm_thread(void)
{
    if (!thread_number)
        thread_number = __atomic_add_fetch(&thread_count, 1, __ATOMIC_RELAXED);
    return thread_number;
}

void fm_set_caller(const char *name)
{
    snprintf(caller, sizeof caller, "%s", name);
}

/* ---- log and races ---- */

static fm_text the_log, the_races;
static unsigned race_count;

void fm_log(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fm_append(&the_log, "%u\t%s\t", fm_thread(), caller);
    append(&the_log, format, arguments);
    fm_append(&the_log, "\n");
    va_end(arguments);
}

char *fm_log_text(void)
{
    return fm_text_copy(&the_log);
}

void fm_log_clear(void)
{
    fm_text_clear(&the_log);
}

void fm_race(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append(&the_races, format, arguments);
    fm_append(&the_races, "\n");
    va_end(arguments);
    race_count++;
}

unsigned fm_race_count(void)
{
    return race_count;
}

char *fm_races_text(void)
{
    return fm_text_copy(&the_races);
}

/* ---- counts and requested failures ---- */

typedef struct {
    const char *name; /* a literal of the caller's */
    unsigned long calls, held;
} count;

static count *counts;
static size_t count_length;

void fm_count(const char *name, bool held)
{
    size_t i = 0;
    while (i < count_length && strcmp(counts[i].name, name) != 0)
        i++;
    if (i == count_length) {
        counts = fm_resize(counts, ++count_length * sizeof *counts);
        counts[i] = (count){name, 0, 0};
    }
    counts[i].calls++;
    counts[i].held += held;
}

char *fm_counts_text(void)
{
    fm_text text = {0};
    for (size_t i = 0; i < count_length; i++)
        fm_append(&text, "%s\t%lu\t%lu\n", counts[i].name, counts[i].calls, counts[i].held);
    char *copy = fm_text_copy(&text);
    free(text.text);
    return copy;
}

typedef struct {
    char name[64];
    int rc;
    unsigned skip;
} failure;

static failure failures[32];
static size_t failure_length;

void fm_fail_next(const char *name, int rc, unsigned skip)
{
    if (failure_length == sizeof failures / sizeof *failures)
        fm_die("too many failures requested");
    failure *next = &failures[failure_length++];
    snprintf(next->name, sizeof next->name, "%s", name);
    next->rc = rc;
    next->skip = skip;
}

bool fm_forced(const char *name, int *rc)
{
    for (size_t i = 0; i < failure_length; i++) {
        if (strcmp(failures[i].name, name) != 0)
            continue;
        if (failures[i].skip) {
            failures[i].skip--;
            return false;
        }
        *rc = failures[i].rc;
        memmove(&failures[i], &failures[i + 1], (--failure_length - i) * sizeof *failures);
        return true;
    }
    return false;
}

void fm_journal_clear(void)
{
    fm_text_clear(&the_log);
    fm_text_clear(&the_races);
    race_count = 0;
    count_length = failure_length = 0;
}

/* ---- Python, and forks ---- */

bool fm_gil_held(void)
{
    int (*is_up)(void), (*holds)(void);
    *(void **)&is_up = dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    *(void **)&holds = dlsym(RTLD_DEFAULT, "PyGILState_Check");
    return is_up && holds && is_up() && holds();
}

static pid_t claimed;

void fm_claim_process(void)
{
    claimed = getpid();
}

void fm_disclaim_process(void)
{
    claimed = 0;
}

void fm_check_process(const char *name)
{
    if (claimed && claimed != getpid())
        fm_die("%s in a forked child", name);
}

void fm_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("fake driver: ", stderr);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\nfake driver: the log\n%s", the_log.text ? the_log.text : "");
    fflush(stderr);
    abort();
}
