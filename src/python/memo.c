/* Stores and forgets the objects that an interpreter remembers.  Each function stores
 * the new object with all facts about it, and only then drops the old one: that may run
 * code which reads the memo.  Tests: tests/core/test_fast_path.py,
 * tests/core/test_options.py. */
#include "python/memo.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#ifdef DLS_FREE_THREADED
/* --- without the GIL ------------------------------------------------------ */

/* at, mask and count are one word, with the padding behind them. */
#define KNOWN_AT offsetof(dls_seen_keywords, at)
_Static_assert(sizeof(dls_seen_keywords) - KNOWN_AT == sizeof(uint64_t),
               "it is read and written at once");

/* Put `object` (stolen, NULL allowed) and the facts about it in a place.  If another
 * thread writes there now, nothing is remembered. */
static void
write_place(dls_memo_place *place, PyObject *object, uint64_t known)
{
    uint32_t writes = place->writes & ~(uint32_t)1;
    if (!atomic_compare_exchange_strong(&place->writes, &writes, writes + 1)) {
        Py_XDECREF(object);
        return;
    }
    DLS_SWAP(PyObject *, before, place->object, object);
    place->known = known;
    place->writes = writes + 2;
    Py_XDECREF(before);
}

/* Is it this object, which the caller holds?  *known: the facts about it. */
static inline bool
read_place(dls_memo_place *place, const PyObject *object, uint64_t *known)
{
    uint32_t writes = place->writes;
    bool same = place->object == object;
    *known = place->known;
    return same && (writes & 1) == 0 && place->writes == writes;
}

bool
dls_memo_is_version(dls_memo *memo, PyObject *value, bool *versioned)
{
    uint64_t known;
    if (!read_place(&memo->last_version, value, &known)) {
        return false;
    }
    *versioned = known != 0;
    return true;
}

const dls_seen_keywords *
dls_memo_keywords(dls_memo *memo, PyObject *kwnames, dls_seen_keywords *room)
{
    uint64_t known;
    dls_memo_place *place = &memo->keywords[dls_memo_place_of(kwnames)];
    bool same = read_place(place, kwnames, &known);
    memcpy((char *)room + KNOWN_AT, &known, sizeof known);
    room->kwnames = same ? kwnames : NULL;
    return room;
}

void
dls_memo_set_version(dls_memo *memo, PyObject *value, bool versioned)
{
    assert(Py_IS_TYPE(value, &PyTuple_Type));
    write_place(&memo->last_version, Py_NewRef(value), versioned);
}

void
dls_memo_set_keywords(dls_memo *memo, const dls_seen_keywords *seen)
{
    uint64_t known;
    assert(seen->kwnames != NULL);
    memcpy(&known, (const char *)seen + KNOWN_AT, sizeof known);
    write_place(&memo->keywords[dls_memo_place_of(seen->kwnames)],
                Py_NewRef(seen->kwnames), known);
}

static int
visit_tuples(const dls_memo *memo, visitproc visit, void *arg)
{
    Py_VISIT(memo->last_version.object);
    for (int i = 0; i < DLS_SEEN_KEYWORDS; i++) {
        Py_VISIT(memo->keywords[i].object);
    }
    return 0;
}

static void
clear_tuples(dls_memo *memo)
{
    write_place(&memo->last_version, NULL, 0);
    for (int i = 0; i < DLS_SEEN_KEYWORDS; i++) {
        write_place(&memo->keywords[i], NULL, 0);
    }
}

#else
/* --- with the GIL --------------------------------------------------------- */

void
dls_memo_set_version(dls_memo *memo, PyObject *value, bool versioned)
{
    assert(Py_IS_TYPE(value, &PyTuple_Type));
    PyObject *before = memo->version;
    memo->version = Py_NewRef(value);
    memo->versioned = versioned;
    Py_XDECREF(before);
}

void
dls_memo_set_keywords(dls_memo *memo, const dls_seen_keywords *seen)
{
    assert(seen->kwnames != NULL);
    dls_seen_keywords *place = &memo->keywords[dls_memo_place_of(seen->kwnames)];
    PyObject *before = place->kwnames;
    Py_INCREF(seen->kwnames);
    *place = *seen;
    Py_XDECREF(before);
}

static int
visit_tuples(const dls_memo *memo, visitproc visit, void *arg)
{
    Py_VISIT(memo->version);
    for (int i = 0; i < DLS_SEEN_KEYWORDS; i++) {
        Py_VISIT(memo->keywords[i].kwnames);
    }
    return 0;
}

static void
clear_tuples(dls_memo *memo)
{
    Py_CLEAR(memo->version);
    for (int i = 0; i < DLS_SEEN_KEYWORDS; i++) {
        Py_CLEAR(memo->keywords[i].kwnames);
    }
}
#endif

/* --- with and without it -------------------------------------------------- */

/* How many tuples of names, and max_version tuples, were not in the memo. */
static DLS_PER_THREAD unsigned new_keywords, new_versions;

bool
dls_memo_wants_version(void)
{
    return ++new_versions % 8 == 0;
}

bool
dls_memo_wants_keywords(void)
{
    return ++new_keywords % 8 == 0;
}

void
dls_memo_set_host(dls_memo *memo, PyObject *pair)
{
    assert(Py_IS_TYPE(pair, &PyTuple_Type));
    DLS_SWAP(PyObject *, before, memo->host, Py_NewRef(pair));
    Py_XDECREF(before);
}

int
dls_memo_visit(const dls_memo *memo, visitproc visit, void *arg)
{
    Py_VISIT(memo->host);
    return visit_tuples(memo, visit, arg);
}

void
dls_memo_clear(dls_memo *memo)
{
    DLS_SWAP(PyObject *, pair, memo->host, NULL);
    Py_XDECREF(pair);
    clear_tuples(memo);
}
