//! Rust through bindgen: functions that take any array and return memory of Rust to any library.
//!
//!     INCLUDES=$(python -c "import sysconfig; print('-I' + sysconfig.get_path('include'))")
//!     bindgen $(python -m dlshim --include)/dlshim.h -o dlshim.rs --no-layout-tests \
//!         --allowlist-type 'dlshim_.*|PyModuleDef|PyMethodDef' \
//!         --allowlist-var 'DLSHIM_(ABI|VERSION)|PyExc_.*Error' \
//!         --allowlist-function 'PyErr_.*|PyImport_ImportModule|PyObject_GetAttrString|Py_DecRef' \
//!         --allowlist-function 'PyCapsule_GetPointer|PyArg_ParseTuple|PyLong_AsLongLong' \
//!         --allowlist-function 'Py_BuildValue|PyModule_Create2' \
//!         -- -DPy_LIMITED_API=0x030a0000 $INCLUDES
//!     rustc --edition 2021 -O --crate-type cdylib rust_module.rs -o rust_module.abi3.so
//!
//! bindgen leaves inline functions out, so the table of functions is fetched and checked here.
#![allow(non_camel_case_types, non_upper_case_globals, non_snake_case, dead_code)]
mod dlshim {
    include!("dlshim.rs");
}
use dlshim::*;
use std::mem::{size_of, zeroed};
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

static TABLE: AtomicPtr<dlshim_table> = AtomicPtr::new(null_mut());

/// The table, which was fetched when the module was imported.
fn table() -> &'static dlshim_table {
    unsafe { &*TABLE.load(Ordering::Acquire) }
}

/// A string of C, which ends in \0.
fn c(text: &'static str) -> *const c_char {
    text.as_ptr() as *const c_char
}

/// Fetch the table, as dlshim_load() of the header does; false with an exception.  Nothing here may
/// panic: CPython called us, and a panic would end the process.
unsafe fn load() -> bool {
    let (mut capsule, mut table) = (null_mut(), null_mut() as *mut dlshim_table);
    let mut absent = PyExc_ModuleNotFoundError;
    let package = PyImport_ImportModule(c("dlshim\0"));
    if !package.is_null() {
        absent = PyExc_AttributeError;
        capsule = PyObject_GetAttrString(package, c("_c_api_v1\0"));
        Py_DecRef(package);
    }
    if !capsule.is_null() {
        table = PyCapsule_GetPointer(capsule, c("dlshim._c_api_v1\0")) as *mut dlshim_table;
        Py_DecRef(capsule);
    } else if PyErr_ExceptionMatches(absent) != 0 {
        PyErr_Clear();
    }
    if !table.is_null() && (*table).abi == DLSHIM_ABI {
        if (*table).size as usize >= size_of::<dlshim_table>() {
            TABLE.store(table, Ordering::Release);
            return true;
        }
    }
    if PyErr_Occurred().is_null() {
        let text = c("this module needs the Python package dlshim, %s or newer: \
                      pip install --upgrade \"dlshim>=%s\"\0");
        let version = DLSHIM_VERSION.as_ptr();
        PyErr_Format(PyExc_ImportError, text, version, version);
    }
    false
}

/// scale(x, by): multiply the elements in place.
unsafe extern "C" fn scale(_: *mut PyObject, args: *mut PyObject) -> *mut PyObject {
    let float64 = dlshim_dtype { code: 2, bits: 64, lanes: 1 };
    let (mut x, mut by): (*mut PyObject, f64) = (null_mut(), 0.0);
    if PyArg_ParseTuple(args, c("Od\0"), &mut x, &mut by) == 0 {
        return null_mut();
    }
    let mut want: dlshim_request = zeroed();
    want.size = size_of::<dlshim_request>() as _;
    want.name = c("scale(): x\0");
    want.dtypes = &float64;
    want.dtype_count = 1;
    want.contiguous = 1;
    want.writable = 1;
    want.alignment = size_of::<f64>() as i64;
    let mut view: dlshim_view = zeroed();
    if table().borrow.unwrap()(x, &want, &mut view) < 0 {
        return null_mut();
    }
    let array = &view.array;
    let shape: &[i64] = match array.ndim {
        0 => &[],
        n => std::slice::from_raw_parts(array.shape, n as usize),
    };
    let n: i64 = shape.iter().product();
    let data = (array.data as *mut u8).add(array.byte_offset as usize) as *mut f64;
    for i in 0..n as usize {
        *data.add(i) *= by;
    }
    table().release.unwrap()(view.owner);
    Py_BuildValue(c("\0")) // None
}

/// The end of a vector that was exported.
unsafe extern "C" fn drop_values(values: *mut c_void) {
    drop(Box::from_raw(values as *mut Vec<f64>));
}

/// ramp(n): 0, 1, 2 ... as a dlshim.Tensor, which every library takes.
unsafe extern "C" fn ramp(_: *mut PyObject, arg: *mut PyObject) -> *mut PyObject {
    let n = PyLong_AsLongLong(arg) as i64;
    if n < 0 {
        if PyErr_Occurred().is_null() {
            PyErr_SetString(PyExc_ValueError, c("n is negative\0"));
        }
        return null_mut();
    }
    let mut values: Box<Vec<f64>> = Box::new(Vec::new());
    if values.try_reserve_exact(n as usize).is_err() {
        return PyErr_NoMemory();
    }
    values.extend((0..n).map(|i| i as f64));
    let length = values.len() as i64;
    let array = dlshim_array {
        data: values.as_ptr() as *mut c_void,
        device_type: 1,
        device_id: 0,
        ndim: 1,
        dtype: dlshim_dtype { code: 2, bits: 64, lanes: 1 },
        shape: &length,
        strides: null(),
        byte_offset: 0,
    };
    let context = Box::into_raw(values) as *mut c_void;
    let tensor = table().export_array.unwrap()(&array, 0, context, Some(drop_values), null());
    if tensor.is_null() {
        drop_values(context); // a failure takes nothing
    }
    tensor
}

type Function = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject;

fn method(name: &'static [u8], function: Option<Function>, flags: c_int) -> PyMethodDef {
    let ml_name = if name.is_empty() { null() } else { name.as_ptr() as *const c_char };
    PyMethodDef { ml_name, ml_meth: function, ml_flags: flags, ml_doc: null() }
}

#[no_mangle]
pub unsafe extern "C" fn PyInit_rust_module() -> *mut PyObject {
    if !load() {
        return null_mut();
    }
    // CPython keeps both for ever.
    let methods = Box::leak(Box::new([
        method(b"scale\0", Some(scale), 1), // METH_VARARGS
        method(b"ramp\0", Some(ramp), 8),   // METH_O
        method(b"", None, 0),
    ]));
    let mut definition: PyModuleDef = zeroed();
    definition.m_name = c("rust_module\0");
    definition.m_size = -1;
    definition.m_methods = methods.as_mut_ptr();
    PyModule_Create2(Box::leak(Box::new(definition)), 3)
}
