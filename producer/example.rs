//! Memory of Rust, exported by dlpack_producer.h: example_rust.c has the Python type.
//!
//!     INCLUDES=$(python -c "import sysconfig; print('-I' + sysconfig.get_path('include'))")
//!     rustc --edition 2021 -O -C panic=abort -C relocation-model=pic --crate-type staticlib example.rs
//!     cc -O2 -shared -fPIC $INCLUDES example_rust.c libexample.a -lpthread -ldl -lm -o example_rust.so
//!
//!     import example_rust; x = example_rust.zeros((2, 3)); numpy.from_dlpack(x)
//!
//! An export holds an `Arc` of its own, so that the deleter ends it on any thread without the GIL.
//! An image that was frozen is read-only for every consumer: Rust may hand out `&[f32]` of it.  One
//! that was not lies in `UnsafeCell`s, because those who have an export may write at any time.
use std::cell::UnsafeCell;
use std::os::raw::{c_int, c_void};
use std::ptr::null;
use std::slice::from_raw_parts;
use std::sync::Arc;

pub struct Image {
    shape: Vec<i64>,
    pixels: Vec<UnsafeCell<f32>>,
    frozen: bool,
}

/// `dlpack_array` of dlpack_producer.h.
#[repr(C)]
pub struct DlpackArray {
    data: *mut c_void,
    ndim: i32,
    code: u8,
    bits: u8,
    shape: *const i64,
    strides: *const i64,
    read_only: c_int,
    owner: *mut c_void,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
    context: *mut c_void,
}

/// A new image, which the caller gives to `image_release`; NULL without the memory for it.
///
/// # Safety
/// `shape` points to `ndim` extents, none of which is negative.
#[no_mangle]
pub unsafe extern "C" fn image_new(shape: *const i64, ndim: i32, frozen: c_int) -> *const Image {
    let shape = if ndim > 0 { from_raw_parts(shape, ndim as usize).to_vec() } else { Vec::new() };
    let count = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent as usize));
    let mut pixels = Vec::new();
    match count {
        Some(n) if pixels.try_reserve_exact(n).is_ok() => pixels.resize_with(n, || UnsafeCell::new(0.0)),
        _ => return null(),
    }
    Arc::into_raw(Arc::new(Image { shape, pixels, frozen: frozen != 0 }))
}

/// Ends one reference, on any thread.
///
/// # Safety
/// `image` is of `image_new`, or the context of an export.
#[no_mangle]
pub unsafe extern "C" fn image_release(image: *mut c_void) {
    drop(Arc::from_raw(image as *const Image));
}

/// Fills `array`, which takes a reference of its own.
///
/// # Safety
/// `image` is alive, and `array` points to a `dlpack_array` of zeros.
#[no_mangle]
pub unsafe extern "C" fn image_describe(image: *const Image, array: *mut DlpackArray) {
    Arc::increment_strong_count(image);
    let (image, array) = (&*image, &mut *array);
    array.data = image.pixels.as_ptr() as *mut c_void;
    array.ndim = image.shape.len() as i32;
    array.code = 2; // float
    array.bits = 32;
    array.shape = image.shape.as_ptr();
    array.read_only = image.frozen as c_int;
    array.release = Some(image_release);
    array.context = image as *const Image as *mut c_void;
}
