#define _GNU_SOURCE
#include "queue.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "journal.h"

/* ---- operations, in the order of issue ---- */

typedef struct {
    uint64_t number;
    uint64_t *before; /* the numbers of those that it comes after */
    unsigned count;
    fm_effect effect; /* NULL: it only has a place in the order */
    void *argument;
    bool of_program; /* the effect is a function of the program */
    const volatile uint32_t *word; /* a gate's, else NULL */
    uint32_t value;
    fm_comparison how;
    bool running, done;
    uint64_t tried;
} operation;

typedef struct {
    operation **at;
    size_t length, room;
} list;

static bool asynchronous;
static list pending;
static uint64_t last_number, this_try;

static operation *find(const list *in, uint64_t number)
{
    size_t low = 0, high = in->length;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (in->at[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    operation *found = low < in->length ? in->at[low] : NULL;
    return found && found->number == number && !found->done ? found : NULL;
}

static operation *append(list *to)
{
    operation *made = fm_allocate(sizeof *made);
    made->number = ++last_number;
    if (to->length == to->room) {
        to->room = to->room ? 2 * to->room : 64;
        to->at = fm_resize(to->at, to->room * sizeof *to->at);
    }
    to->at[to->length++] = made;
    return made;
}

static void come_after(operation *later, const list *in, uint64_t number)
{
    if (!find(in, number))
        return;
    later->before = fm_resize(later->before, (later->count + 1) * sizeof *later->before);
    later->before[later->count++] = number;
}

static void forget(operation *it)
{
    free(it->before);
    if (!it->of_program)
        free(it->argument);
    free(it);
}

static void take_out_done(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < pending.length; i++)
        if (pending.at[i]->done && !pending.at[i]->running)
            forget(pending.at[i]);
        else
            pending.at[kept++] = pending.at[i];
    pending.length = kept;
}

static void forget_all(list *in)
{
    for (size_t i = 0; i < in->length; i++)
        forget(in->at[i]);
    free(in->at);
    *in = (list){0};
}

/* ---- carrying out ---- */

static bool is_open(const operation *gate)
{
    uint32_t now = *gate->word;
    switch (gate->how) {
    case FM_GREATER:
        return (int32_t)(now - gate->value) >= 0;
    case FM_EQUAL:
        return now == gate->value;
    case FM_ANY_BIT:
        return (now & gate->value) != 0;
    default:
        return ~(now | gate->value) != 0;
    }
}

/* A function of the program runs without the lock: it may wait for Python's lock, whose holder may
 * wait for ours. */
static void do_effect(operation *it)
{
    it->running = true;
    if (it->of_program)
        fm_unlock();
    if (it->effect)
        it->effect(it->argument);
    if (it->of_program)
        fm_lock();
    it->running = false;
    it->done = true;
}

/* The one of the highest number below this that it comes after, and that is not done. */
static operation *find_before(const list *in, const operation *it, uint64_t below)
{
    uint64_t highest = 0;
    for (unsigned i = 0; i < it->count; i++)
        if (it->before[i] < below && it->before[i] > highest && find(in, it->before[i]))
            highest = it->before[i];
    return find(in, highest);
}

/* Carries out an operation after those that it comes after; of these the one that was issued last
 * goes first.  true: it is done. */
static bool carry_out_one(const list *in, operation *it)
{
    if (it->tried == this_try || it->running)
        return false;
    it->tried = this_try;
    bool ready = true;
    uint64_t below = it->number;
    for (operation *before; (before = find_before(in, it, below));) {
        below = before->number;
        ready = carry_out_one(in, before) && ready;
    }
    if (ready && (!it->word || is_open(it)))
        do_effect(it);
    return it->done;
}

static void carry_out(const list *in, uint64_t number)
{
    operation *last = find(in, number);
    this_try++;
    if (last)
        carry_out_one(in, last);
}

/* ---- the order of issue ---- */

/* Notes the operations that one comes after which is issued now on the stream: the same that
 * model.c's clocks say. */
static void come_after_stream(operation *made, const fm_stream *stream)
{
    const fm_domain *domain = stream->domain;
    come_after(made, &pending, stream->last);
    come_after(made, &pending, domain->last_wait);
    if (stream->blocking)
        come_after(made, &pending, domain->legacy->last);
    if (stream != domain->legacy)
        return;
    for (unsigned i = 0; i < fm_stream_count(); i++) {
        const fm_stream *other = fm_stream_alive(i);
        if (other->blocking && other->domain == domain)
            come_after(made, &pending, other->last);
    }
}

static list *graph_of(fm_stream *stream)
{
    if (!stream->capture->graph)
        stream->capture->graph = fm_allocate(sizeof(list));
    return stream->capture->graph;
}

static operation *issue(fm_stream *stream)
{
    if (stream->capture) {
        operation *made = append(graph_of(stream));
        come_after(made, graph_of(stream), stream->last_node);
        stream->last_node = made->number;
        return made;
    }
    operation *made = append(&pending);
    come_after_stream(made, stream);
    stream->last = made->number;
    return made;
}

void fm_queue_run(fm_stream *stream, fm_effect effect, const void *argument, size_t size)
{
    void *copy = fm_allocate(size);
    memcpy(copy, argument, size);
    if (!asynchronous) {
        effect(copy);
        free(copy);
        return;
    }
    operation *made = issue(stream);
    made->effect = effect;
    made->argument = copy;
}

void fm_queue_call(fm_stream *stream, fm_effect function, void *argument)
{
    operation *made = issue(stream);
    made->effect = function;
    made->argument = argument;
    made->of_program = true;
}

void fm_queue_gate(fm_stream *stream, const void *word, uint32_t value, fm_comparison how)
{
    operation *made = issue(stream);
    made->word = word;
    made->value = value;
    made->how = how;
}

/* ---- events ---- */

void fm_queue_record(fm_stream *stream, fm_event *event)
{
    if (asynchronous)
        event->last = issue(stream)->number;
}

void fm_queue_wait(fm_stream *stream, const fm_event *event)
{
    if (!asynchronous)
        return;
    operation *made = issue(stream);
    come_after(made, stream->capture ? graph_of(stream) : &pending, event->last);
}

void fm_queue_domain_record(fm_domain *domain, fm_event *event)
{
    if (!asynchronous)
        return;
    operation *made = append(&pending);
    come_after(made, &pending, domain->last_wait);
    for (unsigned i = 0; i < fm_stream_count(); i++)
        if (fm_stream_alive(i)->domain == domain)
            come_after(made, &pending, fm_stream_alive(i)->last);
    event->last = made->number;
}

void fm_queue_domain_wait(fm_domain *domain, const fm_event *event)
{
    if (!asynchronous)
        return;
    operation *made = append(&pending);
    come_after(made, &pending, domain->last_wait);
    come_after(made, &pending, event->last);
    domain->last_wait = made->number;
}

/* ---- the host ---- */

enum { PATIENCE = 25 }; /* seconds; the gates of tests open by themselves before */

static void wait_for(uint64_t number)
{
    const struct timespec pause = {0, 100000};
    time_t begun = time(NULL);
    for (;;) {
        carry_out(&pending, number);
        if (!find(&pending, number))
            break;
        if (time(NULL) - begun > PATIENCE)
            fm_die("the host waits, and nobody opens the gate");
        fm_unlock();
        nanosleep(&pause, NULL);
        fm_lock();
    }
}

void fm_queue_stream_sync(fm_stream *stream)
{
    if (asynchronous) {
        wait_for(issue(stream)->number);
        take_out_done();
    }
}

void fm_queue_event_sync(const fm_event *event)
{
    if (asynchronous)
        wait_for(event->last);
}

/* The operation that was issued last goes first, with all those that it comes after. */
void fm_queue_domain_sync(const fm_domain *domain)
{
    if (!asynchronous)
        return;
    uint64_t wanted[2] = {domain->last_wait, 0};
    for (;;) {
        wanted[1] = 0;
        for (unsigned i = 0; i < fm_stream_count(); i++) {
            const fm_stream *stream = fm_stream_alive(i);
            if (stream->domain == domain && stream->last > wanted[1]
                && find(&pending, stream->last))
                wanted[1] = stream->last;
        }
        if (!wanted[1])
            break;
        wait_for(wanted[1]);
    }
    wait_for(wanted[0]);
    take_out_done();
}

static bool is_busy(uint64_t number)
{
    carry_out(&pending, number);
    return find(&pending, number);
}

bool fm_queue_stream_busy(const fm_stream *stream)
{
    return asynchronous && is_busy(stream->last);
}

bool fm_queue_event_busy(const fm_event *event)
{
    return asynchronous && is_busy(event->last);
}

/* ---- graphs ---- */

typedef struct {
    list nodes;
    bool alive;
} graph;

static graph *graphs;
static unsigned graph_count;

unsigned fm_queue_graph(fm_capture *capture)
{
    if (!asynchronous)
        return 0;
    graphs = fm_resize(graphs, (graph_count + 1) * sizeof *graphs);
    graphs[graph_count] = (graph){{0}, true};
    if (capture->graph)
        graphs[graph_count].nodes = *(list *)capture->graph;
    free(capture->graph);
    capture->graph = NULL;
    return ++graph_count;
}

bool fm_graph_exists(unsigned number)
{
    return number && number <= graph_count && graphs[number - 1].alive;
}

/* Nodes that no edge orders are carried out in reverse: the one that was captured last is first. */
static void run_graph(void *number)
{
    const list *nodes = &graphs[*(unsigned *)number - 1].nodes;
    for (size_t i = nodes->length; i-- > 0;)
        carry_out(nodes, nodes->at[i]->number);
    for (size_t i = 0; i < nodes->length; i++)
        nodes->at[i]->done = false; /* until the next launch */
}

void fm_graph_launch(fm_stream *stream, unsigned number)
{
    fm_queue_run(stream, run_graph, &number, sizeof number);
}

/* A launch may still be pending: the nodes go with the reset. */
void fm_graph_end(unsigned number)
{
    graphs[number - 1].alive = false;
}

/* ---- the mode ---- */

void fm_queue_mode(bool mode)
{
    asynchronous = mode;
}

bool fm_is_asynchronous(void)
{
    return asynchronous;
}

void fm_queue_reset(void)
{
    forget_all(&pending);
    for (unsigned i = 0; i < graph_count; i++)
        forget_all(&graphs[i].nodes);
    graph_count = 0;
    asynchronous = false;
}
