/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of tensors. tn_file reads all kinds by one name: safetensors, PyTorch's, and sharded checkpoints.
 * tn_pt has what else a file of PyTorch holds.
 *
 * Files of PyTorch (.pt, .pth): the zip format that torch.save writes since version 1.6. A file holds values
 * under names: what is in dictionaries and lists has the keys and positions with dots between, such as
 * "model.0.weight". No code of a file runs: what is not made of dictionaries, lists, numbers, texts and
 * tensors is refused by its name.
 *
 *     tn_pt *file;
 *     if (tn_pt_open(ctx, "checkpoint.pt", &file)) return puts(tn_last_error()->message), 1;
 *     TN_STEP(s, ctx) tn_module_load_state(net, tn_pt_tensors(s, file, "model"), TN_STRICT);
 *     int64_t epoch = tn_pt_value(file, "epoch").as.i;
 *     tn_pt_close(file);
 *
 * Threads: a file may be used by several threads at once.
 */
#ifndef TENON_FILES_H
#define TENON_FILES_H

#include <tenon/nn.h>

#ifndef TN_PLUGIN
TN_BEGIN_DECLS

typedef struct tn_pt tn_pt;

/* Opens a file and reads all but the tensors' elements. TN_E_NOT_FOUND: there is none; TN_E_IO: it cannot be read;
 * TN_E_CORRUPT: it is damaged; TN_E_UNSUPPORTED: it holds what the error names. */
TN_API int32_t tn_pt_open(tn_context *ctx, const char *path, TN_OUT TN_GIVES tn_pt **out) TN_ANY_THREAD;
TN_API void tn_pt_close(TN_TAKES TN_NULLABLE tn_pt *file);

/* How many values it has, and the name of the i-th in the file's order, or NULL past the end; lives as long as the file. */
TN_API uint64_t tn_pt_count(const tn_pt *file) TN_ANY_THREAD;
TN_API const char *tn_pt_name(const tn_pt *file, uint64_t i) TN_ANY_THREAD;
/* A number, bool or text (which lives as long as the file); TN_TAG_NONE for tensors, None and names that are not there. */
TN_API tn_value tn_pt_value(const tn_pt *file, const char *name) TN_ANY_THREAD;
/* A row-major copy of a tensor on a device (0: the scope's default device). NULL on failure: TN_E_NOT_FOUND for other names. */
TN_API TN_SCOPED tn_tensor *tn_pt_get(tn_scope *s, tn_pt *file, const char *name, tn_device device);
/* All tensors whose names begin with `prefix` and a dot, without these; NULL: all tensors, with their whole names. They are on
 * the CPU. The scope owns the list. Those with one storage in the file have one here, but are not views in autograd. */
TN_API tn_named_tensors tn_pt_tensors(tn_scope *s, tn_pt *file, TN_NULLABLE const char *prefix);

/*
 * Writes what torch.load gives as an ordered dictionary of tensors, such as a module's state (tn_module_tensors). A new
 * file replaces the old one at the end as tn_safetensors_save does it, so a failure leaves the old one. Returns the status.
 * Tensors that share a storage share it in the file, which holds all of its bytes: save a clone of a small view of a large
 * tensor.
 */
TN_API int32_t tn_pt_save(tn_scope *s, const char *path, tn_named_tensors tensors);

/* ---- Files of any kind -------------------------------------------------------------------------------- */

/*
 * A file of tensors: safetensors; one of PyTorch; or a sharded checkpoint, by its index
 * (model.safetensors.index.json) or by its folder. Several threads may read from one at once.
 */
typedef struct tn_file tn_file;
/* TN_E_NOT_FOUND, TN_E_IO: it cannot be read; TN_E_CORRUPT: it is damaged; TN_E_UNSUPPORTED: it holds what
 * the error names. */
TN_API int32_t tn_file_open(tn_context *ctx, const char *path, TN_OUT TN_GIVES tn_file **out) TN_ANY_THREAD;
TN_API void tn_file_close(TN_TAKES TN_NULLABLE tn_file *file);
#ifdef TN_AUTO_TYPE
TN_AUTO_TYPE(tn_file, tn_file_close)
#endif
/* "safetensors", "pytorch" or "shards". */
TN_API const char *tn_file_format(const tn_file *file);
/* How many tensors, and their names in the file's order; NULL past the end. A name lives as long as the
 * file. */
TN_API uint64_t tn_file_count(const tn_file *file);
TN_API const char *tn_file_name(const tn_file *file, uint64_t i);
/* A copy of a tensor on a device (0: the scope's default device). NULL on failure: TN_E_NOT_FOUND for other names. */
TN_API TN_SCOPED tn_tensor *tn_file_get(tn_scope *s, tn_file *file, const char *name, tn_device device);
/* A tensor on the CPU, over the file's pages where the format allows (tn_safetensors_map says what that
 * means), else a copy. */
TN_API TN_SCOPED tn_tensor *tn_file_map(tn_scope *s, tn_file *file, const char *name);
/* All of them, as tn_file_map gives them; those of a file of PyTorch as tn_pt_tensors does. The list belongs to the scope. */
TN_API tn_named_tensors tn_file_tensors(tn_scope *s, tn_file *file);
/* The same on a device (0: the CPU), where it is not the CPU as copies. */
TN_API tn_named_tensors tn_file_tensors_on(tn_scope *s, tn_file *file, tn_device device);
/* The tensors of a file of any kind, on the scope's default device, by one call: tn_file_load(s, "gpt2.safetensors"). On the CPU
 * they stand over the file's pages where the format allows. */
TN_API tn_named_tensors tn_file_load(tn_scope *s, const char *path);

/*
 * Writes tensors as a sharded checkpoint: folder/model-00001-of-00003.safetensors, ..., each with tensors of at
 * most `most_bytes` (or one tensor). The file folder/model.safetensors.index.json says where each tensor is.
 * What fits into one file becomes folder/model.safetensors. The folder is made if it is not there, but none
 * above it. All shards are written beside the old ones before the first of them is replaced, and the index is
 * replaced last. Shards of a checkpoint with another number of them stay.
 */
TN_API int32_t tn_shards_save(tn_scope *s, const char *folder, tn_named_tensors tensors, uint64_t most_bytes);

/* The error of a failed call says where the program made it, as place.h does it. */
#if !defined(TN_NO_PLACES) && !defined(__cplusplus)
#define tn_pt_open(...)         TN_PLACED(tn_pt_open(__VA_ARGS__))
#define tn_pt_get(...)          TN_PLACED_IN(tn_pt_get, __VA_ARGS__)
#define tn_pt_tensors(...)      TN_PLACED_IN(tn_pt_tensors, __VA_ARGS__)
#define tn_pt_save(...)         TN_PLACED_IN(tn_pt_save, __VA_ARGS__)
#define tn_file_open(...)       TN_PLACED(tn_file_open(__VA_ARGS__))
#define tn_file_get(...)        TN_PLACED_IN(tn_file_get, __VA_ARGS__)
#define tn_file_map(...)        TN_PLACED_IN(tn_file_map, __VA_ARGS__)
#define tn_file_tensors(...)    TN_PLACED_IN(tn_file_tensors, __VA_ARGS__)
#define tn_file_tensors_on(...) TN_PLACED_IN(tn_file_tensors_on, __VA_ARGS__)
#define tn_file_load(...)       TN_PLACED_IN(tn_file_load, __VA_ARGS__)
#define tn_shards_save(...)     TN_PLACED_IN(tn_shards_save, __VA_ARGS__)
#endif

TN_END_DECLS
#endif
#endif
