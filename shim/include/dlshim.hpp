/* dlshim.hpp 0.1.0: dlshim.h for C++11, as types that give back what they hold.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   dlshim::array<const double, 2> x(obj);        // yours: may be moved, kept, used without the GIL
 *   dlshim::borrowed<double> y(obj, "blur(): y"); // of the object, until the end of the block
 *   x(i, j), x.at(i, j), x.size(), x.shape(0), x.data()
 *
 * `const T`: you only read, and read-only memory and copies are taken.  `T`: you write, and the
 * object sees it.  `void` and `const void`: any dtype; dlshim::visit(x, f) calls f with a view of
 * the type that it has.  A number of dimensions is demanded; dlshim::any_rank: any.
 *
 * Memory is the host's and has any strides; dlshim::options asks for more (row_major() and so on).
 * A constructor throws dlshim::python_error with a Python exception set: where nanobind or pybind11
 * is included before this header, it is their own type, and functions of theirs may have parameters
 * dlshim::array<...>: signatures name the dtype, overloads are tried one after the other. */
#ifndef DLSHIM_HPP
#define DLSHIM_HPP

#include <dlshim.h>

#include <complex>
#include <initializer_list>
#include <memory>
#if defined(__STDCPP_FLOAT16_T__) || defined(__STDCPP_FLOAT32_T__) || defined(__STDCPP_FLOAT64_T__) \
    || defined(__STDCPP_FLOAT128_T__) || defined(__STDCPP_BFLOAT16_T__)
#include <stdfloat>
#endif
#include <stdexcept>
#include <type_traits>
#include <utility>

#if defined(__GNUC__)
#define DLSHIM_HIDDEN_ __attribute__((visibility("hidden")))
#else /* a DLL shows what it says it shows */
#define DLSHIM_HIDDEN_
#endif

namespace dlshim {

#if defined(NB_VERSION_MAJOR)
using python_error = nanobind::python_error;
#elif defined(PYBIND11_VERSION_MAJOR)
using python_error = pybind11::error_already_set;
#else
/* A Python exception is set: return NULL to Python. */
struct python_error : std::runtime_error {
    python_error() : std::runtime_error("a Python exception is set") {}
};
#endif

static constexpr int any_rank = -1;

/* A dtype of one lane, as DLDataType has it. */
template <uint8_t Code, uint8_t Bits> struct dtype_is {
    static constexpr uint8_t code = Code, bits = Bits;
    static dlshim_dtype value() { return {Code, Bits, 1}; }
};

/* The dtype of a C++ type.  Each type is named below.  A type that only resembles one of them may be
 * another thing: long double has 80 bits on x86, and char is signed on some processors alone. */
template <class T, class = void> struct dtype_of {
    static dlshim_dtype value() {
        static_assert(sizeof(T) == 0,
                      "dlshim knows no dtype of this C++ type.  Use bool, int8_t to int64_t, uint8_t to "
                      "uint64_t, float, double, or std::complex of float or double; or say which dtype "
                      "it is, outside of all namespaces: template <> struct dlshim::dtype_of<YourType> "
                      ": dlshim::dtype_is<4, 16> {};  (code and bits of DLDataType; this is a bfloat16)");
        return {0, 0, 0};
    }
};
template <> struct dtype_of<bool> : dtype_is<6, 8> {};
#define DLSHIM_IS_(code, type) \
    template <> struct dtype_of<type> : dtype_is<code, 8 * sizeof(type)> {}
DLSHIM_IS_(0, signed char);
DLSHIM_IS_(0, short);
DLSHIM_IS_(0, int);
DLSHIM_IS_(0, long);
DLSHIM_IS_(0, long long);
DLSHIM_IS_(1, unsigned char);
DLSHIM_IS_(1, unsigned short);
DLSHIM_IS_(1, unsigned int);
DLSHIM_IS_(1, unsigned long);
DLSHIM_IS_(1, unsigned long long);
DLSHIM_IS_(2, float);
DLSHIM_IS_(2, double);
DLSHIM_IS_(5, std::complex<float>);
DLSHIM_IS_(5, std::complex<double>);
/* The types of <stdfloat>, which C++23 has where the compiler says so. */
#ifdef __STDCPP_FLOAT16_T__
DLSHIM_IS_(2, std::float16_t);
#endif
#ifdef __STDCPP_FLOAT32_T__
DLSHIM_IS_(2, std::float32_t);
#endif
#ifdef __STDCPP_FLOAT64_T__
DLSHIM_IS_(2, std::float64_t);
#endif
#ifdef __STDCPP_FLOAT128_T__
DLSHIM_IS_(2, std::float128_t);
#endif
#ifdef __STDCPP_BFLOAT16_T__
DLSHIM_IS_(4, std::bfloat16_t);
#endif
#undef DLSHIM_IS_

/* The floats of 16 bits, which C++ has since C++23 alone: they become a float, and a float may be
 * assigned to them, which rounds to the nearest. */
struct bfloat16 {
    uint16_t bits;
    operator float() const {
        const uint32_t word = static_cast<uint32_t>(bits) << 16;
        float value;
        memcpy(&value, &word, sizeof value);
        return value;
    }
    bfloat16 &operator=(float value) {
        uint32_t word;
        memcpy(&word, &value, sizeof word);
        const bool is_nan = (word & 0x7fffffff) > 0x7f800000;
        word = is_nan ? word | 0x400000 : word + 0x7fff + (word >> 16 & 1);
        bits = static_cast<uint16_t>(word >> 16);
        return *this;
    }
};
struct float16 {
    uint16_t bits;
    operator float() const {
        const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
        const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
        uint32_t word = sign | exponent << 23 | fraction << 13;
        float value;
        if (exponent == 0) { /* zero, or too small for an exponent: of 2^-24 each */
            value = static_cast<float>(fraction) / 16777216;
            return sign != 0 ? -value : value;
        }
        word += (exponent == 31 ? 224u : 112u) << 23; /* infinite and NaN: 255 there */
        memcpy(&value, &word, sizeof value);
        return value;
    }
    float16 &operator=(float value) {
        uint32_t word;
        memcpy(&word, &value, sizeof word);
        const uint32_t sign = word >> 16 & 0x8000;
        word &= 0x7fffffff;
        bits = static_cast<uint16_t>(sign | rounded(word));
        return *this;
    }

  private:
    static uint32_t rounded(uint32_t word) {
        const uint32_t exponent = word >> 23;
        if (word >= 0x477ff000) { /* from 65520 on */
            return word > 0x7f800000 ? 0x7e00 : 0x7c00;
        }
        if (exponent >= 113) {
            return (word + 0xfff + (word >> 13 & 1) - (112u << 23)) >> 13;
        }
        if (exponent < 102) { /* less than half of the smallest */
            return 0;
        }
        const uint32_t fraction = (word & 0x7fffff) | 0x800000, shift = 126 - exponent;
        const uint32_t whole = fraction >> shift, rest = fraction & ((1u << shift) - 1);
        const uint32_t half = 1u << (shift - 1);
        return whole + (rest > half || (rest == half && (whole & 1) != 0));
    }
};
template <> struct dtype_of<bfloat16> : dtype_is<4, 16> {};
template <> struct dtype_of<float16> : dtype_is<2, 16> {};

/* What is asked for beside dtype, rank and writing. */
struct options {
    dlshim_request request = DLSHIM_REQUEST_INIT;
    options() {}
    options(const char *name) { request.name = name; }
    options &row_major() { return request.contiguous = DLSHIM_ROW_MAJOR, *this; }
    options &row_or_column_major() {
        return request.contiguous = DLSHIM_ROW_OR_COLUMN_MAJOR, *this;
    }
    options &copy(int32_t when) { return request.copy = when, *this; }
    options &detach() { return request.detach = 1, *this; }
    options &device(int32_t type, int32_t id = 0) {
        return request.device_type = type, request.device_id = id, *this;
    }
    options &stream(dlshim_stream stream) { return request.stream = stream, *this; }
};

namespace detail {
/* Shape and strides by value.  Behind a pointer a compiler reads them again after each element of
 * int64_t that is written: it cannot know that the element is none of them. */
template <int Rank> struct dims {
    int64_t shape[Rank == 0 ? 1 : Rank], strides[Rank == 0 ? 1 : Rank];
    explicit dims(const dlshim_array &array) : shape(), strides() {
        for (int i = 0; i < Rank && i < array.ndim; i++) {
            shape[i] = array.shape[i];
            strides[i] = array.strides[i];
        }
    }
};
template <> struct dims<any_rank> {
    const int64_t *shape, *strides;
    explicit dims(const dlshim_array &array) : shape(array.shape), strides(array.strides) {}
};
inline int64_t offset(const int64_t *) { return 0; }
template <class... I> int64_t offset(const int64_t *strides, int64_t index, I... more) {
    return index * *strides + offset(strides + 1, more...);
}
} // namespace detail

/* An array that somebody else holds: elements of T, or of any type where T is void.  An array of
 * another rank has no elements. */
template <class T, int Rank = any_rank> class view {
  public:
    using element = T;
    static constexpr int rank = Rank;
    view() : view(dlshim_array()) {}
    explicit view(const dlshim_array &array)
        : array_(Rank == any_rank || array.ndim == Rank ? array : dlshim_array()), dims_(array_) {}

    const dlshim_array &as_c() const { return array_; }
    int32_t ndim() const { return array_.ndim; }
    int64_t shape(int32_t axis) const { return dims_.shape[axis]; }
    int64_t stride(int32_t axis) const { return dims_.strides[axis]; } /* in elements */
    int64_t size() const {
        uint64_t n = has_array(); /* unsigned: beside an extent of 0 it may overflow */
        for (int32_t i = 0; i < array_.ndim; i++) {
            n *= static_cast<uint64_t>(shape(i));
        }
        return static_cast<int64_t>(n);
    }
    T *data() const {
        return reinterpret_cast<T *>(static_cast<char *>(array_.data) + array_.byte_offset);
    }

    /* The element, without a check. */
    template <class U = T, class... I> U &operator()(I... index) const {
        constexpr int count = static_cast<int>(sizeof...(I));
        static_assert(Rank == any_rank || count == Rank, "as many indices as dimensions");
        return data()[detail::offset(dims_.strides, static_cast<int64_t>(index)...)];
    }
    /* The element; std::out_of_range where there is none.  Negative indices count as wrong. */
    template <class U = T, class... I> U &at(I... index) const {
        const int64_t at[sizeof...(I) + 1] = {static_cast<int64_t>(index)..., 0};
        bool is = has_array() && array_.ndim == static_cast<int32_t>(sizeof...(I));
        for (size_t i = 0; is && i < sizeof...(I); i++) {
            is = at[i] >= 0 && at[i] < dims_.shape[i];
        }
        if (!is) {
            throw std::out_of_range("dlshim: no such element");
        }
        return (*this)(index...);
    }

  protected:
    /* One without has no elements: it was moved away, or nothing was taken yet. */
    bool has_array() const { return array_.dtype.bits != 0; }
    void look_at(const dlshim_array &array) { *this = view(array); }

  private:
    dlshim_array array_;
    detail::dims<Rank> dims_;
};

namespace detail {
/* The request of a constructor: the options, and what the type says.  It points into itself. */
template <class T, int Rank> struct question {
    dlshim_request request;
    dlshim_dtype dtype;
    explicit question(const options &more) : request(more.request), dtype() {
        request.writable = !std::is_const<T>::value;
        if (Rank != any_rank) {
            request.ranks = DLSHIM_RANK(Rank == any_rank ? 0 : Rank);
        }
        ask(std::is_void<T>());
    }
    question(const question &) = delete;
    question &operator=(const question &) = delete;

    /* That of the type without options, one in each module: a T of the same name elsewhere may be
     * another type. */
    DLSHIM_HIDDEN_ static const dlshim_request &usual() {
        static const question made{options()};
        return made.request;
    }

  private:
    void ask(std::true_type) {}
    void ask(std::false_type) {
        dtype = dtype_of<typename std::remove_const<T>::type>::value();
        request.dtypes = &dtype;
        request.dtype_count = 1;
        if (request.alignment < static_cast<int64_t>(alignof(T))) {
            request.alignment = alignof(T);
        }
    }
};
} // namespace detail

/* Memory that is yours until the end of this object, on any thread, with or without the GIL. */
template <class T, int Rank = any_rank> class array : public view<T, Rank> {
  public:
    array() : tensor_(nullptr), flags_(0) {}
    /* Needs the GIL; throws python_error. */
    explicit array(PyObject *obj) : array() { need(take(obj)); }
    explicit array(PyObject *obj, const options &more) : array() { need(take(obj, more)); }
    array(array &&other) noexcept : array() { swap(other); }
    array &operator=(array &&other) noexcept {
        array(std::move(other)).swap(*this); /* what was here goes last, and now */
        return *this;
    }
    array(const array &) = delete;
    array &operator=(const array &) = delete;
    ~array() { hold(nullptr); }

    uint64_t flags() const { return flags_; } /* DLSHIM_READ_ONLY and the like */

    /* The same without throwing: false with a Python exception. */
    bool take(PyObject *obj) { return ask(obj, detail::question<T, Rank>::usual()); }
    bool take(PyObject *obj, const options &more) {
        return ask(obj, detail::question<T, Rank>(more).request);
    }
    void swap(array &other) noexcept {
        std::swap(tensor_, other.tensor_);
        std::swap(flags_, other.flags_);
        std::swap<view<T, Rank>>(*this, other);
    }

  private:
    static void need(bool taken) {
        if (!taken) {
            throw python_error();
        }
    }
    bool ask(PyObject *obj, const dlshim_request &want) {
        struct DLManagedTensorVersioned *tensor;
        if (dlshim_import(obj, &want, &tensor) < 0) {
            return false;
        }
        hold(tensor);
        return true;
    }
    /* The memory of before goes last: its deleter may run Python, which may come back to this object. */
    void hold(struct DLManagedTensorVersioned *tensor) {
        struct DLManagedTensorVersioned *before = tensor_;
        tensor_ = tensor;
        flags_ = 0;
        this->look_at(tensor ? dlshim_look(tensor, &flags_) : dlshim_array());
        dlshim_release(before);
    }
    struct DLManagedTensorVersioned *tensor_;
    uint64_t flags_;
};

/* Memory of an object until the end of the block.  Keep the object and the GIL meanwhile; neither
 * copied nor moved, so that it cannot be kept. */
template <class T, int Rank = any_rank> class borrowed : public view<T, Rank> {
  public:
    explicit borrowed(PyObject *obj) { ask(obj, detail::question<T, Rank>::usual()); }
    explicit borrowed(PyObject *obj, const options &more) {
        ask(obj, detail::question<T, Rank>(more).request);
    }
    borrowed(const borrowed &) = delete;
    borrowed &operator=(const borrowed &) = delete;
    ~borrowed() { dlshim_borrow_end(&view_); }

    uint64_t flags() const { return view_.flags; }

  private:
    /* dlshim gets the address of a local: with that of a member, the compiler would have to read shape
     * and strides again after each element of int64_t that is written. */
    void ask(PyObject *obj, const dlshim_request &want) {
        dlshim_view given;
        if (dlshim_borrow(obj, &want, &given) < 0) {
            throw python_error();
        }
        this->look_at(given.array);
        view_ = given;
    }
    dlshim_view view_;
};

namespace detail {
template <class U, class T, int Rank, class F>
bool visit_one(const view<T, Rank> &x, const dlshim_dtype &has, F &f) {
    const dlshim_dtype wants = dtype_of<U>::value();
    const char *data = static_cast<const char *>(x.as_c().data) + x.as_c().byte_offset;
    if (memcmp(&has, &wants, sizeof has) != 0
        || reinterpret_cast<uintptr_t>(data) % alignof(U) != 0) {
        return false;
    }
    using element = typename std::conditional<std::is_const<T>::value, const U, U>::type;
    f(view<element, Rank>(x.as_c()));
    return true;
}
template <class... Types> struct types {};
template <class T, int Rank, class F> bool visit_any(const view<T, Rank> &, F &, types<>) {
    return false;
}
template <class T, int Rank, class F, class U, class... More>
bool visit_any(const view<T, Rank> &x, F &f, types<U, More...>) {
    return visit_one<U>(x, x.as_c().dtype, f) || visit_any(x, f, types<More...>());
}
/* Whether a shape has so many elements. */
inline bool has_elements(const int64_t *shape, int32_t ndim, size_t count) {
    uint64_t product = 1;
    bool fits = true;
    for (int32_t i = 0; i < ndim; i++) {
        const uint64_t extent = static_cast<uint64_t>(shape[i]);
        fits = fits && shape[i] >= 0 && (extent == 0 || product <= UINT64_MAX / extent);
        product *= extent;
    }
    return fits && product == count;
}
template <class Values> void drop_values(void *values) { delete static_cast<Values *>(values); }
/* The last axes, as many as lie in memory like a single one: `count` elements, `step` apart.
 * axes: how many stand before them. */
struct run {
    int32_t axes;
    int64_t count, step;
};
template <class T, int Rank> run last_run(const view<T, Rank> &x) {
    run last = {x.ndim(), 1, 1};
    while (last.axes > 0) {
        const int64_t stride = x.stride(last.axes - 1);
        if (last.count != 1 && stride != last.count * last.step) {
            break;
        }
        last.step = last.count == 1 ? stride : last.step;
        last.count *= x.shape(--last.axes);
    }
    return last;
}
/* Where a run begins, in elements from element zero.  place: how many runs come before it in
 * row-major order. */
template <class T, int Rank>
int64_t run_offset(const view<T, Rank> &x, int32_t axes, int64_t place) {
    int64_t offset = 0;
    for (int32_t axis = axes - 1; axis > 0; axis--) {
        offset += place % x.shape(axis) * x.stride(axis);
        place /= x.shape(axis);
    }
    return axes > 0 ? offset + place * x.stride(0) : 0;
}
} // namespace detail

/* Call f with each element, in row-major order, whatever the strides are. */
template <class T, int Rank, class F> void each(const view<T, Rank> &x, F &&f) {
    const int64_t size = x.size(); /* of 0: the other extents may be endless */
    const detail::run last = size != 0 ? detail::last_run(x) : detail::run{0, 1, 1};
    for (int64_t place = 0; place < size / last.count; place++) {
        T *at = x.data() + detail::run_offset(x, last.axes, place);
        for (int64_t i = 0; i < last.count; i++) {
            f(at[i * last.step]);
        }
    }
}

/* Call f with a view of the elements' own type: bool, the integers, float, double, complex of both,
 * and More: visit<dlshim::float16, dlshim::bfloat16>(x, f), or other types that have a dtype_of.
 * false: it is another dtype, or its memory is not aligned for that type, and f is not called.
 * options.request.alignment = 8 has such memory copied. */
template <class... More, class T, int Rank, class F> bool visit(const view<T, Rank> &x, F &&f) {
    static_assert(std::is_void<T>::value, "visit() is for view<void> and view<const void>");
    return detail::visit_any(
        x, f,
        detail::types<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t,
                      float, double, std::complex<float>, std::complex<double>, More...>());
}

/* A new reference to a dlshim.Tensor that owns the values, which are moved into it and not copied: a
 * std::vector, or what else owns its elements and has data() and size().  They are the elements of
 * an array of that shape, in row-major order.  Needs the GIL; throws python_error. */
template <class Values>
PyObject *export_values(Values values, const int64_t *shape, int32_t ndim) {
    using given = typename std::remove_pointer<decltype(values.data())>::type;
    using element = typename std::remove_const<given>::type;
    std::unique_ptr<Values> owner(new Values(std::move(values)));
    if (!detail::has_elements(shape, ndim, owner->size())) {
        PyErr_Format(PyExc_ValueError, "%zu values are no array of this shape", owner->size());
        throw python_error();
    }
    const dlshim_array array = {const_cast<element *>(owner->data()), 1, 0, ndim,
                                dtype_of<element>::value(), shape, nullptr, 0};
    PyObject *tensor =
        dlshim_export_array(&array, std::is_const<given>::value ? DLSHIM_READ_ONLY : 0, owner.get(),
                            detail::drop_values<Values>, nullptr);
    if (tensor == nullptr) {
        throw python_error();
    }
    owner.release();
    return tensor;
}
template <class Values>
PyObject *export_values(Values values, std::initializer_list<int64_t> shape) {
    return export_values(std::move(values), shape.begin(), static_cast<int32_t>(shape.size()));
}
/* Of one dimension. */
template <class Values> PyObject *export_values(Values values) {
    const int64_t count = static_cast<int64_t>(values.size());
    return export_values(std::move(values), &count, 1);
}

} // namespace dlshim

#if defined(NB_VERSION_MAJOR)
#define DLSHIM_BINDER_ nanobind
#elif defined(PYBIND11_VERSION_MAJOR)
#define DLSHIM_BINDER_ pybind11
#endif
#ifdef DLSHIM_BINDER_
namespace DLSHIM_BINDER_ {
namespace detail {
/* The name of a parameter in signatures: array[float64], array[float64, 2], array[].  A type of which
 * only a value() is known has its own name. */
template <class T, class = void> struct dlshim_name {
    static constexpr auto value = const_name<T>();
};
template <> struct dlshim_name<void> { static constexpr auto value = const_name(""); };
template <> struct dlshim_name<bool> { static constexpr auto value = const_name("bool"); };
template <class T>
struct dlshim_name<T, typename std::enable_if<(dlshim::dtype_of<T>::bits > 0)>::type> {
    static constexpr uint8_t code = dlshim::dtype_of<T>::code;
    static constexpr auto value =
        const_name<code == 0 || code == 1>(
            const_name<code == 1>("uint", "int"),
            const_name<code == 4>(const_name("bfloat"),
                                  const_name<code == 5>("complex", "float")))
        + const_name<dlshim::dtype_of<T>::bits>();
};
template <class T, int Rank> struct type_caster<dlshim::array<T, Rank>> {
    using array = dlshim::array<T, Rank>;
    static constexpr auto title =
        const_name("array[") + dlshim_name<typename std::remove_const<T>::type>::value
        + const_name<Rank == dlshim::any_rank>(
            const_name(""), const_name(", ") + const_name<Rank == dlshim::any_rank ? 0 : Rank>())
        + const_name("]");
#if defined(NB_VERSION_MAJOR)
    NB_TYPE_CASTER(array, title)
    bool from_python(handle src, uint8_t, cleanup_list *) noexcept {
        const bool taken = value.take(src.ptr());
        if (!taken) {
            PyErr_Clear(); /* the next overload is tried; nanobind lets no exception pass */
        }
        return taken;
    }
#else
    PYBIND11_TYPE_CASTER(array, title);
    /* Whether the exception says something of the object.  KeyboardInterrupt, SystemExit and the like
     * do not, nor does MemoryError. */
    static bool is_refusal() {
        return PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_MemoryError);
    }
    bool load(handle src, bool) {
        const bool taken = value.take(src.ptr());
        if (!taken && !is_refusal()) {
            throw dlshim::python_error();
        }
        if (!taken) {
            PyErr_Clear(); /* the next overload is tried */
        }
        return taken;
    }
#endif
};
} // namespace detail
} // namespace DLSHIM_BINDER_
#endif
#endif
