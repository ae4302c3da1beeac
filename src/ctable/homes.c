/* Finds the home of a type, and makes the class of its Producers where it is the first
 * of the home.  The GIL is held.  Tests: tests/core/test_homes.py. */
#include "ctable/homes.h"

#include "core/alloc.h"
#include "ctable/ctable_out.h"
#include "public/functions.h"
#include "public/producer.h"
#include "python/errors.h"

/* Ask shim/importers.py.  *table stays NULL where there is no importer.  0, or -1 with
 * an exception. */
static int
table_by_importer(dls_state *state, PyTypeObject *type, const dl_exchange_api **table)
{
    PyObject *importer = dls_in_python_with(state, DLS_IN_IMPORTERS, "importer_of",
                                            "(O)", type);
    if (importer == NULL) {
        return -1;
    }
    int slot = importer != Py_None ? dls_importer_slot(importer) : -1;
    Py_DECREF(importer);
    if (slot >= 0) {
        *table = dls_home_table_of_importer(slot, false);
    }
    return slot == -2 ? -1 : 0;
}

/* A home for which nothing was set yet; NULL with an exception. */
static dls_home *
make_home(dls_state *state, const dl_exchange_api *table)
{
    PyObject *bases = PyTuple_Pack(1, state->producer_type);
    PyObject *type = bases != NULL
                         ? PyType_FromSpecWithBases(&dls_producer_spec_of_home, bases)
                         : NULL;
    dls_home *home = NULL;
    if (type != NULL && dls_ctable_add(state, (PyTypeObject *)type, table) == 0) {
        home = dls_alloc(sizeof *home);
        if (home == NULL) {
            PyErr_NoMemory();
        }
    }
    if (home != NULL) {
        *home = (dls_home){.producer_type = (PyTypeObject *)Py_NewRef(type),
                           .table = table};
    }
    Py_XDECREF(bases);
    Py_XDECREF(type);
    return home;
}

static dls_home *
find_home(const dls_state *state, const dl_exchange_api *table)
{
    dls_home *home = state->homes;
    while (home != NULL && home->table != table) {
        home = home->next;
    }
    return home;
}

/* Add a home, unless another thread was quicker; the one that is there then. */
static dls_home *
add_home(dls_state *state, dls_home *made)
{
    DLS_LOCK_STATE();
    dls_home *there = find_home(state, made->table);
    if (there == NULL) {
        made->next = state->homes;
        state->homes = made;
    }
    DLS_UNLOCK();
    if (there != NULL) {
        Py_DECREF((PyObject *)made->producer_type);
        dls_free(made);
    }
    return there != NULL ? there : made;
}

/* An emptied module (state.h) gets no home any more.  Objects that have protocols of
 * their own say nothing of their type; those of a decorated class do.  bytearray and
 * other built-in types of buffers are of no library. */
static int
find_table(dls_state *state, const dls_plan *plan, PyTypeObject *type,
           const dl_exchange_api **table)
{
    PyObject *module = dls_state_borrow(&state->module);
    bool is_builtin = plan->offers == 1u << DLS_PROTOCOL_BUFFER
                      && !(PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE);
    bool may_have = module != NULL && !is_builtin
                    && (!plan->on_instance || plan->is_decorated);
    dls_let_go(module);
    if (!may_have) {
        return 0;
    }
    if (plan->table != NULL) {
        bool asks = !dls_plan_has(plan, DLS_LIB_NO_WORK_STREAM);
        *table = dls_home_table_of_library(plan->table, asks);
        return *table != NULL ? 0 : -1;
    }
    return table_by_importer(state, type, table);
}

PyTypeObject *
dls_home_find(dls_state *state, dls_plan *plan, PyTypeObject *type)
{
    const dl_exchange_api *table = NULL;
    if (find_table(state, plan, type, &table) < 0) {
        return dls_error_forget() == 0 ? state->producer_type : NULL;
    }
    dls_home *home = table != NULL ? find_home(state, table) : NULL;
    if (home == NULL && table != NULL) {
        home = make_home(state, table);
        if (home == NULL) {
            return NULL;
        }
        if (table->current_work_stream != dls_ctables[0].current_work_stream) {
            home->work_stream = plan->table->current_work_stream;
        }
        home = add_home(state, home);
    }
    plan->producer_type = home != NULL ? home->producer_type : state->producer_type;
    return plan->producer_type;
}

/* --- functions for shim/ -------------------------------------------------- */

static PyObject *
home_of(PyObject *module, PyObject *obj)
{
    return dls_home_of_object(dls_state_of(module), obj);
}

static PyObject *
upgrade_into(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    dls_state *state = dls_state_of(module);
    PyTypeObject *home = n == 2 && PyType_Check(args[0]) ? (PyTypeObject *)args[0]
                                                         : NULL;
    dls_options *options = NULL;
    if (home == NULL
        || (home != state->producer_type && dls_home_of_class(state, home) == NULL)) {
        return PyErr_Format(
            PyExc_TypeError,
            "_upgrade_into takes the class of a Producer and an object");
    }
    if (dls_options_parse(state, "upgrade", kwnames, args + 2, NULL, &options) < 0) {
        return NULL;
    }
    return dls_upgrade_into(state, home, args[1], options);
}

/* The C table of a decorated class, under both of its names; None: without an importer.
 */
static PyObject *
class_tables(PyObject *module, PyObject *importer)
{
    dls_state *state = dls_state_of(module);
    int slot = importer != Py_None ? dls_importer_slot(importer) : -1;
    if (slot == -2) {
        return NULL;
    }
    void *table = (void *)(uintptr_t)(slot >= 0 ? dls_home_table_of_importer(slot, true)
                                                : &dls_ctables[1]);
    /* The format N steals a reference, and passes the failure of a NULL on. */
    return Py_BuildValue("{ONON}", state->names.exchange_api,
                         PyCapsule_New(table, DL_NAME_EXCHANGE_API, NULL),
                         state->names.exchange_api_old, dls_address_object(table));
}

PyMethodDef dls_home_functions[] = {
    {"_class_tables", class_tables, METH_O, NULL},
    {"_home_of", home_of, METH_O, NULL},
    {"_upgrade_into", DLS_FASTCALL(upgrade_into), METH_FASTCALL | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};
