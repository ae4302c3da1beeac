/* The functions by which tests drive a fake: the same for every vendor.
 *
 * They are logged nowhere and counted nowhere.  Errors are answered as negative numbers of the
 * vendor.  See control.py, which says what each is for.
 */
#include <stdlib.h>

#include "front.h"
#include "journal.h"
#include "queue.h"
#include "shadow.h"
#include "turns.h"

FM_EXPORT int fake_start(void);
FM_EXPORT void fake_reset(int hard);
FM_EXPORT int fake_option(const char *name, int value);
FM_EXPORT void fake_asynchronous(int on);
FM_EXPORT uintptr_t fake_domain_of(int device);
FM_EXPORT uintptr_t fake_domain_new(int device);
FM_EXPORT void fake_domain_end(uintptr_t domain);
FM_EXPORT uintptr_t fake_stream_new(uintptr_t domain, int blocking, const char *name);
FM_EXPORT void fake_stream_end(uintptr_t stream);
FM_EXPORT uintptr_t fake_alloc(uintptr_t domain, size_t size, int kind);
FM_EXPORT void fake_free(uintptr_t address);
FM_EXPORT int fake_touch(uintptr_t stream, uintptr_t domain, uintptr_t address, size_t size,
                         int write);
FM_EXPORT int fake_host_touch(uintptr_t address, size_t size, int write);
FM_EXPORT int fake_capture_begin(uintptr_t stream, int mode);
FM_EXPORT int fake_capture_end(uintptr_t stream);
FM_EXPORT int fake_capture_state(uintptr_t stream);
FM_EXPORT void fake_fail_next(const char *name, int rc, unsigned skip);
FM_EXPORT void fake_set_caller(const char *name);
FM_EXPORT unsigned fake_thread(void);
FM_EXPORT void fake_turns_begin(unsigned threads, const char *plan, unsigned length,
                                const char *apart);
FM_EXPORT void fake_turn_join(unsigned number);
FM_EXPORT void fake_turn_leave(void);
FM_EXPORT void fake_turn(void);
FM_EXPORT char *fake_turns_end(void);
FM_EXPORT char *fake_log(void);
FM_EXPORT void fake_clear_log(void);
FM_EXPORT char *fake_races(void);
FM_EXPORT char *fake_counts(void);
FM_EXPORT void fake_release(char *text);
FM_EXPORT unsigned fake_live_events(void);
FM_EXPORT void fake_log_leaks(void);
FM_EXPORT unsigned fake_live_memory(void);

#define LOCKED(type, expression)                                                                   \
    do {                                                                                           \
        fm_lock();                                                                                 \
        type result_ = (expression);                                                               \
        fm_unlock();                                                                               \
        return result_;                                                                            \
    } while (0)

int fake_start(void)
{
    LOCKED(int, front_start());
}

void fake_reset(int hard)
{
    fm_lock();
    fm_shadow_reset(hard);
    fm_model_reset(hard);
    front_reset(hard);
    fm_journal_clear();
    fm_unlock();
}

int fake_option(const char *name, int value)
{
    LOCKED(int, front_option(name, value));
}

/* Until the next reset operations take effect in their turn (queue.h). */
void fake_asynchronous(int on)
{
    fm_lock();
    fm_queue_mode(on);
    fm_unlock();
}

/* ---- domains and streams ---- */

static uintptr_t handle_of(const fm_domain *domain)
{
    return domain ? front_domain_handle(domain) : 0;
}

uintptr_t fake_domain_of(int device)
{
    LOCKED(uintptr_t, handle_of(front_domain_of(device)));
}

uintptr_t fake_domain_new(int device)
{
    LOCKED(uintptr_t, front_domain_of(device) ? handle_of(fm_domain_new(device, true)) : 0);
}

void fake_domain_end(uintptr_t domain)
{
    fm_lock();
    fm_domain_end(front_domain(domain));
    fm_unlock();
}

uintptr_t fake_stream_new(uintptr_t domain, int blocking, const char *name)
{
    LOCKED(uintptr_t,
           front_stream_handle(fm_stream_new(front_domain(domain), blocking, name, true)));
}

void fake_stream_end(uintptr_t stream)
{
    fm_lock();
    fm_stream_end(front_stream(stream, NULL));
    fm_unlock();
}

/* ---- memory ---- */

uintptr_t fake_alloc(uintptr_t domain, size_t size, int kind)
{
    fm_lock();
    fm_memory *memory = fm_memory_new(front_domain(domain), size, (fm_kind)kind, true);
    fm_unlock();
    return memory ? memory->base : 0;
}

void fake_free(uintptr_t address)
{
    fm_lock();
    fm_memory *memory = fm_memory_at(address);
    if (!memory)
        fm_die("the test frees what was not allocated");
    fm_memory_free(memory);
    fm_unlock();
}

static int touched(fm_stream *stream, uintptr_t address, size_t size, bool write)
{
    bool racy = false;
    fm_status status = fm_touch(stream, address, size, write, &racy);
    return status == FM_OK ? racy : -front_error(status);
}

static fm_domain *domain_of(uintptr_t domain, uintptr_t address)
{
    if (domain)
        return front_domain(domain);
    const fm_memory *memory = fm_memory_at(address);
    if (!memory)
        fm_die("the test touches what was not allocated");
    return memory->domain;
}

int fake_touch(uintptr_t stream, uintptr_t domain, uintptr_t address, size_t size, int write)
{
    LOCKED(int, touched(front_stream(stream, domain_of(domain, address)), address, size, write));
}

int fake_host_touch(uintptr_t address, size_t size, int write)
{
    LOCKED(int, touched(NULL, address, size, write));
}

/* ---- captures ---- */

static int answer(fm_status status)
{
    return status == FM_OK ? 0 : -front_error(status);
}

int fake_capture_begin(uintptr_t stream, int mode)
{
    LOCKED(int, answer(fm_capture_begin(front_stream(stream, NULL), (fm_mode)mode)));
}

int fake_capture_end(uintptr_t stream)
{
    unsigned graph;
    LOCKED(int, answer(fm_capture_end(front_stream(stream, NULL), &graph)));
}

static int state_of(const fm_stream *stream)
{
    int state;
    unsigned long long id;
    fm_status status = fm_capture_state(stream, &state, &id);
    return status == FM_OK ? state : answer(status);
}

int fake_capture_state(uintptr_t stream)
{
    LOCKED(int, state_of(front_stream(stream, NULL)));
}

/* ---- turns ---- */

void fake_turns_begin(unsigned threads, const char *plan, unsigned length, const char *apart)
{
    fm_turns_begin(threads, (const unsigned char *)plan, length, apart);
}

void fake_turn_join(unsigned number)
{
    fm_turn_join(number);
}

void fake_turn_leave(void)
{
    fm_turn_leave();
}

void fake_turn(void)
{
    fm_turn(NULL);
}

char *fake_turns_end(void)
{
    return fm_turns_end();
}

/* ---- the journal ---- */

void fake_fail_next(const char *name, int rc, unsigned skip)
{
    fm_lock();
    fm_fail_next(name, rc, skip);
    fm_unlock();
}

void fake_set_caller(const char *name)
{
    fm_set_caller(name);
}

unsigned fake_thread(void)
{
    return fm_thread();
}

char *fake_log(void)
{
    LOCKED(char *, fm_log_text());
}

void fake_clear_log(void)
{
    fm_lock();
    fm_log_clear();
    fm_unlock();
}

char *fake_races(void)
{
    LOCKED(char *, fm_races_text());
}

char *fake_counts(void)
{
    LOCKED(char *, fm_counts_text());
}

void fake_release(char *text)
{
    free(text);
}

unsigned fake_live_events(void)
{
    LOCKED(unsigned, fm_live_events());
}

unsigned fake_live_memory(void)
{
    fm_lock();
    unsigned count = fm_live_memory();
    fm_unlock();
    return count;
}

void fake_log_leaks(void)
{
    fm_lock();
    fm_log_leaks();
    fm_unlock();
}
