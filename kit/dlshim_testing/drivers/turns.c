#define _GNU_SOURCE
#include "turns.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "journal.h"

enum { THREADS = 8, TURNS = 4096, PATIENCE = 25 /* seconds */ };

typedef enum { ABSENT, WAITS, RUNS, ENDED } state;

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static state states[THREADS];
static unsigned threads;
static unsigned char planned[TURNS], chosen[TURNS], out_of[TURNS];
static unsigned plan_length, turns;
static char not_points[1024];

static _Thread_local unsigned own; /* the thread's number plus 1; 0: it takes no part */

void fm_turns_begin(unsigned count, const unsigned char *plan, unsigned length, const char *apart)
{
    if (count > THREADS || length > TURNS || strlen(apart) >= sizeof not_points)
        fm_die("more turns than there is room for");
    pthread_mutex_lock(&guard);
    memset(states, 0, sizeof states);
    memcpy(planned, plan, length);
    snprintf(not_points, sizeof not_points, "%s", apart);
    threads = count;
    plan_length = length;
    turns = 0;
    pthread_mutex_unlock(&guard);
}

/* Choose the thread whose turn is next, if none runs.  The caller holds the guard. */
static void choose(void)
{
    unsigned waiting[THREADS], count = 0;
    for (unsigned i = 0; i < threads; i++) {
        if (states[i] == ABSENT || states[i] == RUNS)
            return;
        if (states[i] == WAITS)
            waiting[count++] = i;
    }
    if (count == 0)
        return;
    if (turns == TURNS)
        fm_die("more turns than there is room for");
    unsigned which = turns < plan_length ? planned[turns] : 0;
    if (which >= count)
        fm_die("turn %u: the plan is one of another program", turns);
    chosen[turns] = (unsigned char)which;
    out_of[turns++] = (unsigned char)count;
    states[waiting[which]] = RUNS;
    pthread_cond_broadcast(&changed);
}

static void wait_for_turn(void)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE;
    pthread_mutex_lock(&guard);
    states[own - 1] = WAITS;
    choose();
    while (states[own - 1] != RUNS)
        if (pthread_cond_timedwait(&changed, &guard, &end) == ETIMEDOUT)
            fm_die("a thread waits for what another holds that waits for its turn");
    pthread_mutex_unlock(&guard);
}

void fm_turn_join(unsigned number)
{
    own = number + 1;
    wait_for_turn();
}

void fm_turn_leave(void)
{
    pthread_mutex_lock(&guard);
    states[own - 1] = ENDED;
    own = 0;
    choose();
    pthread_mutex_unlock(&guard);
}

static bool is_apart(const char *call)
{
    char word[80];
    snprintf(word, sizeof word, " %s ", call);
    return strstr(not_points, word);
}

void fm_turn(const char *call)
{
    if (own && !fm_gil_held() && !(call && is_apart(call)))
        wait_for_turn();
}

void fm_turn_of_wait(void)
{
    if (!own || fm_gil_held())
        return;
    fm_unlock();
    wait_for_turn();
    fm_lock();
}

char *fm_turns_end(void)
{
    fm_text text = {0};
    pthread_mutex_lock(&guard);
    for (unsigned i = 0; i < turns; i++)
        fm_append(&text, "%u %u\n", chosen[i], out_of[i]);
    threads = 0;
    pthread_mutex_unlock(&guard);
    char *copy = fm_text_copy(&text);
    fm_text_clear(&text);
    return copy;
}
