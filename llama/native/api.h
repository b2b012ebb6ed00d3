// The C interface of agentd's C++, which cgo calls. No function lets an exception out. Every error text is
// malloc'd, and the caller frees it with free().
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ggml-backend.h"
#include "llama.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- process -----------------------------------------------------------------

// Routes the lines of llama.cpp's and ggml's logs to the sink; a line ends at len and not with a NUL. llama-common's own
// logger has no hook and is silenced.
typedef void (*agd_log_sink)(int level, char * text, size_t len);
void agd_log_install(agd_log_sink sink);

// Makes a failed device an error of a context's calls (decode, logits, memory) instead of the end of the process. Once
// a GPU has failed, nothing is freed: that could end the process or block for ever.
void agd_faults_install(void);
bool agd_gpu_failed(void);

// Makes the process write a line to stderr, with the name of the program, when a signal ends it outside of Go's code,
// which lies from start up to end.
void agd_crash_install(uintptr_t start, uintptr_t end);
void agd_crash_build(const char * text);

// The name of the sources that this library was built from, as native_id of third_party/common.sh prints it.
const char * agd_native_id(void);

// The file that libllama.so was loaded from, or NULL.
const char * agd_lib_file(void);

// Loads a backend library. Its score, of a CPU variant, is 0 if this CPU can't run it, and -1 with an error.
bool agd_backend_load(const char * path, char ** err);
int  agd_backend_score(const char * path, char ** err);

// Whether there is a GPU that ggml can use.
bool agd_has_gpu(void);

// --- attention: see attention.go -----------------------------------------------

// Returns whether contexts made from now on have it.
bool agd_attention(bool on);
bool agd_attention_enabled(void);
void agd_attention_f32(bool on);

// Checks what shared attention relies on in llama.cpp, if it is on.
bool agd_attention_check(char ** err);

// For tests: breaks one of the assumptions in assumptions.h, or none.
void agd_break_assumption(int kind);

// Whether libllama has agentd's patch.
bool agd_patched(void);

// For tests: how many masks were read as lists.
uint64_t agd_attention_lists(void);

// --- model -------------------------------------------------------------------

// llama_model_load_from_file, with the reason of a failure.
struct llama_model * agd_model_load(const char * path, struct llama_model_params params, char ** err);

// Loads and frees a LoRA adapter of a model; the model must outlive it. No context of the model may be made at the same
// time, or decode for the first time after agd_context_adapter.
struct llama_adapter_lora * agd_adapter_load(struct llama_model * model, const char * path, char ** err);
void                        agd_adapter_free(struct llama_adapter_lora * adapter);
uint64_t                    agd_adapter_bytes(const struct llama_adapter_lora * adapter);

// Number of tensors for each ggml type, and of those with more than two dimensions, mostly experts. Both lists have
// GGML_TYPE_COUNT entries.
void agd_model_tensor_types(const struct llama_model * model, int32_t * counts, int32_t * experts);

// All pieces (special tokens rendered) in one buffer. offsets has n+1 entries,
// flags n: the token's attributes, with AGD_FLAG_EOG for end-of-generation.
#define AGD_FLAG_EOG (1 << 15)
bool agd_vocab_dump(const struct llama_vocab * vocab, char ** pieces, uint32_t * offsets, uint16_t * flags,
                    char ** err);

// Tokens in text: the count, or -needed when max is too small; INT32_MIN on error.
int32_t agd_tokenize(const struct llama_vocab * vocab, const char * text, int32_t len, llama_token * out, int32_t max,
                     bool add_special, bool parse_special, char ** err);

// Whether the patch cuts the words of published pre-tokenizers (third_party/patch/agentd-unicode.h).
bool agd_cuts_words(void);

// --- context -----------------------------------------------------------------

// The most sequences of a context, LLAMA_MAX_SEQ.
#define AGD_MAX_SEQUENCES 256

// Begins an error text that says what agentd relied on and llama.cpp no longer does.
#define AGD_INCOMPATIBLE "incompatible: "

struct agd_context; // a llama_context, its abort flag and the last error

// For tests, a device fails once fail_at nodes of graphs were computed (0: never): by GGML_ABORT, or by an exception with
// the VkResult fail_with.
struct agd_context *   agd_context_new(struct llama_model * model, struct llama_context_params params, int32_t fail_at,
                                       int32_t fail_with, char ** err);
void                   agd_context_free(struct agd_context * ctx);
struct llama_context * agd_context_raw(struct agd_context * ctx);

// What a context and its model keep on a device.
struct agd_use {
    ggml_backend_dev_t device; // NULL: host memory
    int32_t            layers; // whose first tensor lies there
    uint64_t           weights; // bytes, of all contexts of the model
    uint64_t           memory; // bytes: KV cache and recurrent state
    uint64_t           compute; // bytes: buffers for the evaluation of graphs
};

// Writes at most max uses, host memory first, and returns how many there are.
int32_t agd_context_uses(const struct agd_context * ctx, struct agd_use * out, int32_t max);

// llama_decode's code, or one of the AGD_DECODE_* codes; agd_context_detail says more about these.
#define AGD_DECODE_THROWN       (-100) // a C++ exception
#define AGD_DECODE_POSITION     (-101) // a sequence does not continue at its end
#define AGD_DECODE_LOST         (-102) // a device failed: see agd_context_lost
#define AGD_DECODE_INCOMPATIBLE (-103) // llama.cpp no longer does what agentd relies on
int          agd_decode(struct agd_context * ctx, struct llama_batch batch);
const char * agd_context_detail(const struct agd_context * ctx);
void         agd_abort(struct agd_context * ctx, bool on);

bool agd_context_adapter(struct agd_context * ctx, struct llama_adapter_lora * adapter); // NULL: none

// Whether a device failed in a call of this context. Only agd_context_free, which then frees nothing of the device, may
// follow.
bool agd_context_lost(const struct agd_context * ctx);

// All output rows of the last decode, contiguous, in batch order; synchronizes.
float * agd_logits(struct agd_context * ctx);

// Memory operations: 0 done, 1 refused (partial removal), -1 an exception.
int agd_seq_cp(struct agd_context * ctx, int32_t src, int32_t dst, int32_t p0, int32_t p1);
int agd_seq_rm(struct agd_context * ctx, int32_t seq, int32_t p0, int32_t p1);
int agd_memory_clear(struct agd_context * ctx, bool data);

// Copies the contents of a sequence's cells to host memory and back. scratch is an empty sequence that both leave
// empty. Loading needs as many free cells as were saved, and then frees those outside of [p0, p1). Saving returns
// NULL if it failed.
struct agd_state;
struct agd_state * agd_seq_save(struct agd_context * ctx, int32_t seq, int32_t scratch, int32_t p0, int32_t p1);
int  agd_seq_load(struct agd_context * ctx, const struct agd_state * s, int32_t scratch, int32_t seq, int32_t p0,
                  int32_t p1);
void agd_state_free(struct agd_state * s);

// --- sampling ----------------------------------------------------------------

struct agd_sampler_options {
    float               temperature; // <= 0: greedy
    float               top_p;
    float               min_p;
    int32_t             top_k;
    uint32_t            seed;
    const char *        grammar; // NULL: none
    bool                suppress_control;
    const llama_token * suppress;
    size_t              n_suppress;
    const llama_token * allow; // exceptions to suppress_control
    size_t              n_allow;
    int32_t             least; // tokens before one that ends a generation
    bool                score; // keep the probabilities of sampled tokens, see agd_sampler_score
    int32_t             top; // with score: how many of the most probable tokens agd_sampler_top lists
    size_t              mask; // with score: keep what a draw chose from, at most so many tokens; 0: no
};

struct agd_sampler;

// Shared by all samplers of a vocabulary. It must outlive them, and the model must outlive it.
struct agd_vocab_index;
struct agd_vocab_index * agd_vocab_index_new(const struct llama_vocab * vocab);
void                     agd_vocab_index_free(struct agd_vocab_index * index);

#define AGD_SAMPLE_DEAD      (-1) // the grammar and the suppressed tokens leave no token
#define AGD_SAMPLE_NOTFINITE (-2) // the row holds NaN, or nothing above -infinity
#define AGD_SAMPLE_THROWN    (-3) // agd_sampler_detail says which exception
#define AGD_SAMPLE_REJECTED  (-4) // accept: the grammar does not allow the token
#define AGD_SAMPLE_AMBIGUOUS (-5) // the grammar needs more work than is allowed

struct agd_sampler * agd_sampler_new(struct agd_vocab_index * index, struct agd_sampler_options opts, char ** err);
struct agd_sampler * agd_sampler_clone(const struct agd_sampler * s, bool reseed, uint32_t seed, char ** err);
void                 agd_sampler_free(struct agd_sampler * s);
llama_token          agd_sample(struct agd_sampler * s, const float * logits); // >= 0, or AGD_SAMPLE_*
int                  agd_sampler_accept(struct agd_sampler * s, llama_token token);
// Sampler.Force: returns how many tokens it wrote to out, at most max, or AGD_SAMPLE_THROWN.
int32_t agd_sampler_force(struct agd_sampler * s, llama_token * out, int32_t max, llama_token * end);
// Calls agd_sample for n samplers, each with its row, on so many OpenMP threads.
void         agd_sample_batch(int threads, struct agd_sampler * const * samplers, const float * const * rows, int32_t n,
                              llama_token * out);
const char * agd_sampler_detail(const struct agd_sampler * s);

// Natural logarithms of probabilities: see Score and Child of package llama.
struct agd_score {
    float  model;
    double drawn; // has double precision with the option mask
};
struct agd_score agd_sampler_score(const struct agd_sampler * s);
struct agd_child {
    llama_token token;
    float       logprob;
};
// Sampler.Top: returns how many. The list is the sampler's, until its next call.
int32_t agd_sampler_top(const struct agd_sampler * s, const struct agd_child ** list);
// Sampler.Mask: how many tokens the last one was drawn from, ascending; -1: not kept. The list is the sampler's.
int32_t agd_sampler_mask(const struct agd_sampler * s, const llama_token ** list);
// ScoreRows of package llama. top has n_top tokens for each row; the token is -1 after the last one.
struct agd_rank {
    float   logprob; // NaN: no memory
    int32_t rank;
};
void agd_score_rows(int threads, const float * const * rows, const llama_token * tokens, int32_t n, int32_t n_vocab,
                    int32_t n_top, struct agd_rank * out, struct agd_child * top);
// Sampler.Children: returns how many, or AGD_SAMPLE_*. The list is the sampler's, until its next call.
int32_t agd_sampler_children(struct agd_sampler * s, const float * logits, double share, const struct agd_child ** list,
                             double * rest);
// The natural logarithm of the sum of e^x over n logits, -infinity if none is above that.
double agd_log_sum(const float * logits, int32_t n);

// --- threads -----------------------------------------------------------------

// OpenMP's threads wait actively for about a microsecond only, or again as long as libgomp does by itself. False: the
// waits can't be changed. Any thread may call it.
bool agd_brief_waits(bool on);
// Writes the kernel's ids of this thread's OpenMP threads, itself first.
void agd_thread_ids(int threads, int * out);

// --- templates -----------------------------------------------------------------

struct agd_template;
struct agd_template * agd_template_new(const char * source, size_t len, const char * bos, const char * eos,
                                       char ** err);
void                  agd_template_free(struct agd_template * t);

// What rendering may use: milliseconds of processor time, bytes of memory at a time, and bytes of stack.
struct agd_template_limits {
    int64_t cpu_ms;
    size_t  bytes;
    size_t  stack;
};

// Renders with the variables of a JSON object to a text of *size bytes, which the caller frees; NULL on error. now is
// seconds since 1970.
char * agd_template_render(const struct agd_template * t, const char * vars, size_t len, int64_t now,
                           const struct agd_template_limits * limits, size_t * size, char ** err);

#ifdef __cplusplus
}
#endif
