//! Rust in one file: functions that take any array and return memory of Rust to any library.
//!
//!     MACOS=$(python -c "import sys; print('-C link-arg=-Wl,-undefined,dynamic_lookup' \
//!         * (sys.platform == 'darwin'))")
//!     rustc --edition 2021 -O --crate-type cdylib $MACOS rust_module.rs -o rust_module.abi3.so
//!
//! The module `dlshim` below is dlshim.h in Rust: copy it into your crate.  The module `python`
//! declares what is used of Python's stable ABI; pyo3-ffi has the same functions.  Nothing may
//! panic where Python calls Rust: that would end the process.

mod python {
    #![allow(dead_code)] // a module may use less of it

    use std::os::raw::{c_char, c_int, c_longlong, c_void};

    pub enum Object {}
    pub type Function = unsafe extern "C" fn(*mut Object, *mut Object) -> *mut Object;

    #[repr(C)]
    pub struct Method {
        pub name: *const c_char,
        pub function: Option<Function>,
        pub flags: c_int,
        pub doc: *const c_char,
    }

    #[repr(C)]
    pub struct Definition {
        pub head: [*mut c_void; 5],
        pub name: *const c_char,
        pub doc: *const c_char,
        pub size: isize,
        pub methods: *const Method,
        pub slots: [*mut c_void; 4],
    }

    extern "C" {
        pub static PyExc_AttributeError: *mut Object;
        pub static PyExc_ImportError: *mut Object;
        pub static PyExc_ModuleNotFoundError: *mut Object;
        pub static PyExc_ValueError: *mut Object;
        pub fn PyArg_ParseTuple(args: *mut Object, format: *const c_char, ...) -> c_int;
        pub fn PyCapsule_GetPointer(capsule: *mut Object, name: *const c_char) -> *mut c_void;
        pub fn PyCapsule_IsValid(capsule: *mut Object, name: *const c_char) -> c_int;
        pub fn PyErr_Clear();
        pub fn PyErr_ExceptionMatches(kind: *mut Object) -> c_int;
        pub fn PyErr_Fetch(kind: *mut *mut Object, e: *mut *mut Object, tb: *mut *mut Object);
        pub fn PyErr_Format(kind: *mut Object, format: *const c_char, ...) -> *mut Object;
        pub fn PyErr_NoMemory() -> *mut Object;
        pub fn PyErr_NormalizeException(k: *mut *mut Object, e: *mut *mut Object, tb: *mut *mut Object);
        pub fn PyErr_Occurred() -> *mut Object;
        pub fn PyErr_Restore(kind: *mut Object, error: *mut Object, traceback: *mut Object);
        pub fn PyErr_SetString(kind: *mut Object, text: *const c_char);
        pub fn PyEval_RestoreThread(state: *mut c_void);
        pub fn PyEval_SaveThread() -> *mut c_void;
        pub fn PyFloat_FromDouble(value: f64) -> *mut Object;
        pub fn PyImport_ImportModule(name: *const c_char) -> *mut Object;
        pub fn PyLong_AsLongLong(value: *mut Object) -> c_longlong;
        pub fn PyModule_Create2(definition: *mut Definition, version: c_int) -> *mut Object;
        pub fn PyObject_GetAttrString(object: *mut Object, name: *const c_char) -> *mut Object;
        pub fn PyUnicode_CompareWithASCIIString(text: *mut Object, other: *const c_char) -> c_int;
        pub fn Py_BuildValue(format: *const c_char, ...) -> *mut Object;
        pub fn Py_DecRef(object: *mut Object);
    }

    /// A string of C: the text ends in \0.
    pub fn c(text: &'static str) -> *const c_char {
        debug_assert!(text.ends_with('\0'));
        text.as_ptr() as *const c_char
    }
}

/// dlshim.h 0.1.0.
#[allow(dead_code)]
mod dlshim {
    use super::python::*;
    use std::mem::{size_of, zeroed};
    use std::os::raw::{c_char, c_int, c_void};
    use std::ptr::{null, null_mut};
    use std::sync::atomic::{AtomicPtr, Ordering};

    const ABI: u32 = 1;

    #[repr(C)]
    #[derive(Clone, Copy, PartialEq)]
    pub struct DType {
        pub code: u8,
        pub bits: u8,
        pub lanes: u16,
    }
    pub const FLOAT64: DType = DType { code: 2, bits: 64, lanes: 1 };

    /// DLTensor by another name.  Strides count elements; of what you receive with dimensions they are
    /// never NULL.
    #[repr(C)]
    #[derive(Clone, Copy)]
    pub struct Array {
        pub data: *mut c_void,
        pub device_type: i32,
        pub device_id: i32,
        pub ndim: i32,
        pub dtype: DType,
        pub shape: *const i64,
        pub strides: *const i64,
        pub byte_offset: u64,
    }

    #[repr(C)]
    #[derive(Clone, Copy)]
    pub struct Stream {
        pub kind: i32,
        pub handle: u64,
    }

    /// What is asked for; dlshim.h says what each member means.  Zero is the default.
    #[repr(C)]
    pub struct Request {
        size: usize,
        pub name: *const c_char,
        pub dtypes: *const DType,
        pub dtype_count: usize,
        pub ranks: u64,
        pub device_type: i32,
        pub device_id: i32,
        pub stream: Stream,
        pub alignment: i64,
        pub contiguous: i32,
        pub writable: i32,
        pub copy: i32,
        pub detach: i32,
    }

    impl Request {
        pub fn new(name: &'static str, dtypes: &'static [DType]) -> Request {
            let mut request: Request = unsafe { zeroed() };
            request.size = size_of::<Request>();
            request.name = c(name);
            request.dtypes = dtypes.as_ptr();
            request.dtype_count = dtypes.len();
            request
        }
    }

    #[repr(C)]
    struct View {
        array: Array,
        flags: u64,
        owner: *mut Tensor,
        room: [u64; 3],
    }

    /// DLManagedTensorVersioned.
    #[repr(C)]
    struct Tensor {
        major: u32,
        minor: u32,
        manager_ctx: *mut c_void,
        deleter: *mut c_void,
        flags: u64,
        array: Array,
    }

    #[repr(C)]
    struct Table {
        abi: u32,
        size: u32,
        import: unsafe extern "C" fn(*mut Object, *const Request, *mut *mut Tensor) -> c_int,
        borrow: unsafe extern "C" fn(*mut Object, *const Request, *mut View) -> c_int,
        release: unsafe extern "C" fn(*mut Tensor),
        export_tensor: unsafe extern "C" fn(*mut c_void, c_int, *const Stream) -> *mut Object,
        export_array: unsafe extern "C" fn(
            *const Array,
            u64,
            *mut c_void,
            unsafe extern "C" fn(*mut c_void),
            *const Stream,
        ) -> *mut Object,
    }

    static TABLE: AtomicPtr<Table> = AtomicPtr::new(null_mut());

    /// The table, which load() fetched when the module was imported.
    fn table() -> &'static Table {
        unsafe { &*TABLE.load(Ordering::Acquire) }
    }

    /// Whether the exception says that dlshim is missing; of another module it stays.
    unsafe fn is_missing() -> bool {
        if PyErr_ExceptionMatches(PyExc_ModuleNotFoundError) == 0 {
            return false;
        }
        let (mut kind, mut error, mut traceback) = (null_mut(), null_mut(), null_mut());
        PyErr_Fetch(&mut kind, &mut error, &mut traceback);
        PyErr_NormalizeException(&mut kind, &mut error, &mut traceback);
        let name = PyObject_GetAttrString(error, c("name\0"));
        let mut is = false;
        if name.is_null() {
            PyErr_Clear();
        } else {
            is = PyUnicode_CompareWithASCIIString(name, c("dlshim\0")) == 0;
            Py_DecRef(name);
        }
        PyErr_Restore(kind, error, traceback);
        is
    }

    /// Set the ImportError that says what to install, and what is here.  package may be NULL.
    unsafe fn refuse(package: *mut Object) {
        let (mut version, mut path) = (null_mut(), null_mut());
        PyErr_Clear(); // asking may run Python, which must not have an exception set
        if !package.is_null() {
            version = PyObject_GetAttrString(package, c("__version__\0"));
            PyErr_Clear();
            path = PyObject_GetAttrString(package, c("__path__\0"));
            PyErr_Clear();
        }
        if package.is_null() {
            let text = "this module needs the Python package dlshim, 0.1.0 or newer\n  \
                        pip install --upgrade \"dlshim>=0.1.0\"\0";
            PyErr_SetString(PyExc_ImportError, c(text));
        } else if !version.is_null() {
            let text = "this module needs the Python package dlshim, 0.1.0 or newer, and %S is \
                        installed, %R\n  pip install --upgrade \"dlshim>=0.1.0\"\0";
            PyErr_Format(PyExc_ImportError, c(text), version, package);
        } else {
            let text = "this module needs the Python package dlshim, 0.1.0 or newer, and something \
                        else has its name, %R\n  remove or rename that, or import dlshim before a \
                        test replaces it; if it is not installed: \
                        pip install --upgrade \"dlshim>=0.1.0\"\0";
            let place = if path.is_null() { package } else { path };
            PyErr_Format(PyExc_ImportError, c(text), place);
        }
        for object in [version, path] {
            if !object.is_null() {
                Py_DecRef(object);
            }
        }
    }

    /// Fetch the table, as dlshim_load() does; false with an exception.  Needs the GIL.
    pub unsafe fn load() -> bool {
        let (mut capsule, mut table) = (null_mut(), null_mut() as *mut Table);
        let package = PyImport_ImportModule(c("dlshim\0"));
        if !package.is_null() {
            capsule = PyObject_GetAttrString(package, c("_c_api_v1\0"));
        }
        if !capsule.is_null() {
            if PyCapsule_IsValid(capsule, c("dlshim._c_api_v1\0")) != 0 {
                table = PyCapsule_GetPointer(capsule, c("dlshim._c_api_v1\0")) as *mut Table;
            }
            Py_DecRef(capsule);
        }
        let is = !table.is_null()
            && (*table).abi == ABI
            && (*table).size as usize >= size_of::<Table>();
        if is {
            TABLE.store(table, Ordering::Release);
        } else if PyErr_Occurred().is_null()
            || match package.is_null() {
                true => is_missing(),
                false => PyErr_ExceptionMatches(PyExc_AttributeError) != 0,
            }
        {
            refuse(package);
        }
        if !package.is_null() {
            Py_DecRef(package);
        }
        is
    }

    impl Array {
        pub fn shape(&self) -> &[i64] {
            Array::dims(self.shape, self.ndim)
        }
        pub fn strides(&self) -> &[i64] {
            Array::dims(self.strides, self.ndim)
        }
        fn dims<'a>(at: *const i64, ndim: i32) -> &'a [i64] {
            match ndim {
                0 => &[],
                n => unsafe { std::slice::from_raw_parts(at, n as usize) },
            }
        }
        pub fn len(&self) -> usize {
            self.shape().iter().product::<i64>() as usize
        }
        pub fn first<T>(&self) -> *mut T {
            (self.data as *mut u8).wrapping_add(self.byte_offset as usize) as *mut T
        }
    }

    /// Memory of an object until the end of the block.  Keep the object and the GIL meanwhile.
    pub struct Borrow(View);

    impl Borrow {
        /// None with a Python exception.
        pub unsafe fn new(object: *mut Object, want: &Request) -> Option<Borrow> {
            let mut view: View = zeroed();
            match (table().borrow)(object, want, &mut view) {
                0 => Some(Borrow(view)),
                _ => None,
            }
        }
        pub fn array(&self) -> &Array {
            &self.0.array
        }
    }

    impl Drop for Borrow {
        fn drop(&mut self) {
            unsafe { (table().release)(self.0.owner) }
        }
    }

    /// Memory that is yours until the end of this object, on any thread, with or without the GIL.
    pub struct Import(*mut Tensor);
    unsafe impl Send for Import {}

    impl Import {
        /// None with a Python exception.  Needs the GIL.
        pub unsafe fn new(object: *mut Object, want: &Request) -> Option<Import> {
            let mut tensor = null_mut();
            match (table().import)(object, want, &mut tensor) {
                0 => Some(Import(tensor)),
                _ => None,
            }
        }
        pub fn array(&self) -> &Array {
            unsafe { &(*self.0).array }
        }
        /// 1: read-only, 2: a copy, 4: elements below a byte take a byte each.
        pub fn flags(&self) -> u64 {
            unsafe { (*self.0).flags }
        }
    }

    impl Drop for Import {
        fn drop(&mut self) {
            unsafe { (table().release)(self.0) }
        }
    }

    unsafe extern "C" fn drop_values<T>(values: *mut c_void) {
        drop(Box::from_raw(values as *mut Vec<T>));
    }

    /// The vector as a dlshim.Tensor, row-major, which every library takes; NULL with a Python
    /// exception.
    pub unsafe fn export<T>(values: Vec<T>, shape: &[i64], dtype: DType) -> *mut Object {
        let size = shape.iter().try_fold(1i64, |size, extent| size.checked_mul(*extent));
        if size != Some(values.len() as i64) {
            PyErr_SetString(PyExc_ValueError, c("the vector has not as many elements as its shape\0"));
            return null_mut();
        }
        let values = Box::new(values);
        let array = Array {
            data: values.as_ptr() as *mut c_void,
            device_type: 1,
            device_id: 0,
            ndim: shape.len() as i32,
            dtype,
            shape: shape.as_ptr(),
            strides: null(),
            byte_offset: 0,
        };
        let context = Box::into_raw(values) as *mut c_void;
        let tensor = (table().export_array)(&array, 0, context, drop_values::<T>, null());
        if tensor.is_null() {
            drop_values::<T>(context); // a failure takes nothing
        }
        tensor
    }
}

use dlshim::{Borrow, Import, Request, FLOAT64};
use python::*;
use std::mem::{size_of, zeroed};
use std::ptr::{null, null_mut};

/// scale(x, by): multiply the elements in place.  The memory is borrowed, so the GIL is kept.
unsafe extern "C" fn scale(_: *mut Object, args: *mut Object) -> *mut Object {
    let (mut x, mut by): (*mut Object, f64) = (null_mut(), 0.0);
    if PyArg_ParseTuple(args, c("Od\0"), &mut x, &mut by) == 0 {
        return null_mut();
    }
    let mut want = Request::new("scale(): x\0", &[FLOAT64]);
    want.contiguous = 1;
    want.writable = 1;
    want.alignment = size_of::<f64>() as i64;
    let view = match Borrow::new(x, &want) {
        Some(view) => view,
        None => return null_mut(),
    };
    let first: *mut f64 = view.array().first();
    for i in 0..view.array().len() {
        *first.add(i) *= by;
    }
    drop(view);
    Py_BuildValue(c("\0")) // None
}

/// The sum of all elements, whatever the strides are.
unsafe fn sum(at: *const f64, shape: &[i64], strides: &[i64]) -> f64 {
    match shape {
        [] => *at,
        [n, rest @ ..] => (0..*n)
            .map(|i| sum(at.wrapping_offset((i * strides[0]) as isize), rest, &strides[1..]))
            .sum(),
    }
}

/// total(x): other threads of Python run meanwhile, so the memory is imported.
unsafe extern "C" fn total(_: *mut Object, x: *mut Object) -> *mut Object {
    let mut want = Request::new("total(): x\0", &[FLOAT64]);
    want.alignment = size_of::<f64>() as i64;
    let tensor = match Import::new(x, &want) {
        Some(tensor) => tensor,
        None => return null_mut(),
    };
    let state = PyEval_SaveThread();
    let array = tensor.array();
    let found = match array.len() {
        0 => 0.0,
        _ => sum(array.first(), array.shape(), array.strides()),
    };
    drop(tensor);
    PyEval_RestoreThread(state);
    PyFloat_FromDouble(found)
}

/// ramp(n): 0, 1, 2 ... in memory of Rust.
unsafe extern "C" fn ramp(_: *mut Object, arg: *mut Object) -> *mut Object {
    let n = PyLong_AsLongLong(arg) as i64;
    if n < 0 {
        if PyErr_Occurred().is_null() {
            PyErr_SetString(PyExc_ValueError, c("n is negative\0"));
        }
        return null_mut();
    }
    let mut values: Vec<f64> = Vec::new();
    if values.try_reserve_exact(n as usize).is_err() {
        return PyErr_NoMemory();
    }
    values.extend((0..n).map(|i| i as f64));
    dlshim::export(values, &[n], FLOAT64)
}

fn method(name: &'static str, function: Function, flags: i32) -> Method {
    Method { name: c(name), function: Some(function), flags, doc: null() }
}

#[no_mangle]
pub unsafe extern "C" fn PyInit_rust_module() -> *mut Object {
    if !dlshim::load() {
        return null_mut();
    }
    // Python keeps both for ever.
    let methods = Box::leak(Box::new([
        method("scale\0", scale, 1), // METH_VARARGS
        method("total\0", total, 8), // METH_O
        method("ramp\0", ramp, 8),
        zeroed(),
    ]));
    let mut definition: Definition = zeroed();
    definition.name = c("rust_module\0");
    definition.size = -1;
    definition.methods = methods.as_ptr();
    PyModule_Create2(Box::leak(Box::new(definition)), 3)
}
