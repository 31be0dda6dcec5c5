/* libvgc_bindings.so: has NVIDIA's Python package cuda-bindings call the process's CUDA runtime.
 *
 * Its module of the runtime (cuda.bindings._bindings.cyruntime; from 13.4 on cuda.bindings._internal.runtime) has
 * NVIDIA's runtime inside, which works with NVIDIA's driver only. Other modules of the package call what the module's
 * `__pyx_capi__` names: capsules with the addresses of functions. libvgc_search.so has the loader take this library in
 * the module's place; it loads the module itself, and once that is made, puts the addresses of the process's runtime
 * into the capsules. Functions that this has not keep theirs. Python is called by name: no header of its is needed. */
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

typedef struct _object PyObject;

/* Layouts of its stable interface, if it is not built without its global lock. */
enum { SLOT_EXEC = 2 };
struct slot {
    int kind;
    void *value;
};
struct module_def {
    void *base[5];
    const char *name;
    const char *doc;
    ssize_t size;
    void *methods;
    struct slot *slots;
};

extern PyObject *PyImport_ImportModule(const char *name);
extern PyObject *PyObject_GetAttrString(PyObject *object, const char *name);
extern PyObject *PyObject_CallMethod(PyObject *object, const char *name, const char *format, ...);
extern const char *PyUnicode_AsUTF8(PyObject *text);
extern int PyDict_Next(PyObject *dictionary, ssize_t *at, PyObject **key, PyObject **value);
extern int PyCapsule_SetPointer(PyObject *capsule, void *pointer);
extern void PyErr_Clear(void);
extern void PyErr_SetString(PyObject *kind, const char *text);
extern PyObject *PyExc_ImportError;

/* ---- the capsules --------------------------------------------------------------------------- */

/* The process's function; `is_per_thread`: its form for the calling thread's own default stream, if it has one. */
static void *function_of(const char *name, bool is_per_thread)
{
    static const char *const SUFFIXES[] = {"_ptsz", "_ptds", ""};
    char form[128];
    void *found = NULL;
    for (size_t i = is_per_thread ? 0 : 2; i < sizeof(SUFFIXES) / sizeof(SUFFIXES[0]) && found == NULL; i++) {
        (void)snprintf(form, sizeof(form), "%s%s", name, SUFFIXES[i]);
        found = dlsym(RTLD_DEFAULT, form);
    }
    return found;
}

static int point(PyObject *module, bool is_per_thread)
{
    PyObject *key, *capsule, *capsules = PyObject_GetAttrString(module, "__pyx_capi__");
    ssize_t at = 0;
    if (capsules == NULL)
        return -1;
    while (PyDict_Next(capsules, &at, &key, &capsule) != 0) {
        const char *name = PyUnicode_AsUTF8(key);
        name += name[0] == '_';
        void *function = strncmp(name, "cuda", 4) == 0 ? function_of(name, is_per_thread) : NULL;
        if (function != NULL && PyCapsule_SetPointer(capsule, function) != 0)
            return -1;
    }
    return 0;
}

static int point_shared(PyObject *module)
{
    return point(module, false);
}

static int point_per_thread(PyObject *module)
{
    return point(module, true);
}

/* ---- the module ----------------------------------------------------------------------------- */

/* Structures of releases differ: the process's runtime must be of the release that the package is for. */
static bool is_of_release(void)
{
    int (*ask)(int *) = (int (*)(int *))dlsym(RTLD_DEFAULT, "cudaRuntimeGetVersion");
    int version = 0;
    PyObject *package = PyImport_ImportModule("cuda.bindings");
    PyObject *text = package != NULL ? PyObject_GetAttrString(package, "__version__") : NULL;
    const char *own = text != NULL ? PyUnicode_AsUTF8(text) : NULL;
    PyErr_Clear();
    return own != NULL && ask != NULL && ask(&version) == 0 && atoi(own) == version / 1000;
}

static const char *path_of(const char *module)
{
    PyObject *finder = PyImport_ImportModule("importlib.util");
    PyObject *found = finder != NULL ? PyObject_CallMethod(finder, "find_spec", "s", module) : NULL;
    PyObject *origin = found != NULL ? PyObject_GetAttrString(found, "origin") : NULL;
    return origin != NULL ? PyUnicode_AsUTF8(origin) : NULL;
}

/* The module itself; two slashes tell libvgc_search.so that it is wanted. NULL: Python has the error. */
static void *open_module(const char *module)
{
    char path[PATH_MAX];
    const char *found = path_of(module);
    const char *slash = found != NULL ? strrchr(found, '/') : NULL;
    if (slash == NULL)
        return NULL;
    (void)snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - found), found, slash);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        PyErr_SetString(PyExc_ImportError, dlerror());
    return library;
}

/* One more step of making the module, behind its own. */
static bool add_step(struct module_def *def, int (*step)(PyObject *))
{
    size_t count = 0;
    while (def->slots != NULL && def->slots[count].kind != 0)
        count++;
    struct slot *slots = calloc(count + 2, sizeof(*slots));
    if (slots == NULL)
        return false;
    if (count > 0)
        memcpy(slots, def->slots, count * sizeof(*slots));
    slots[count] = (struct slot){SLOT_EXEC, (void *)step};
    def->slots = slots;
    return true;
}

static PyObject *begin(const char *module, int (*step)(PyObject *))
{
    char name[64];
    void *library = open_module(module);
    if (library == NULL)
        return NULL;
    (void)snprintf(name, sizeof(name), "PyInit_%s", strrchr(module, '.') + 1);
    PyObject *(*own)(void) = (PyObject * (*)(void)) dlsym(library, name);
    if (own == NULL) {
        PyErr_SetString(PyExc_ImportError, dlerror());
        return NULL;
    }
    PyObject *def = own();
    const bool has_lock = dlsym(RTLD_DEFAULT, "_PyCriticalSection_BeginSlow") == NULL;
    if (def != NULL && has_lock && is_of_release())
        (void)add_step((struct module_def *)def, step);
    return def;
}

#define MODULE(name, package, step)                                                                                    \
    API PyObject *PyInit_##name(void);                                                                                 \
    API PyObject *PyInit_##name(void)                                                                                  \
    {                                                                                                                  \
        return begin("cuda.bindings." package "." #name, step);                                                        \
    }

MODULE(cyruntime, "_bindings", point_shared)
MODULE(cyruntime_ptds, "_bindings", point_per_thread)
MODULE(runtime, "_internal", point_shared)
MODULE(runtime_ptds, "_internal", point_per_thread)
