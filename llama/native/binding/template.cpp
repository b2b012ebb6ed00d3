// Chat templates. llama-common's Jinja engine is called directly, so that a caller can give any variable. A template is
// a program of somebody else: it is parsed, run and destroyed on its own stack, under limits.
#include "api.h"
#include "errors.h"
#include "limits.h"

#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>

#include "jinja/lexer.h"
#include "jinja/parser.h"
#include "jinja/runtime.h"
#include "json.h"

struct agd_template {
    jinja::program program;
    std::string    source;
    std::string    bos;
    std::string    eos;
};

namespace {

// Nested blocks and terms of a source are parsed by recursion.
constexpr agd::limits parsing{ 5000, size_t(512) << 20, size_t(16) << 20 };

// What raise_exception throws: its text alone. The interpreter hands on exceptions of this base as they are.
struct raised : jinja::rethrown_exception {
    using jinja::rethrown_exception::rethrown_exception;
};

std::string text_of(const agd::limits & l, agd::limit which) {
    switch (which) {
        case agd::limit::time:
            return "it takes more than " + std::to_string(l.cpu_ms) + " ms of processor time, its limit";
        case agd::limit::memory:
            return "its values take more than " + std::to_string(l.bytes >> 20) + " MiB of memory, its limit";
        default:
            return "its blocks, macros or values are nested too deeply: they take more than " +
                   std::to_string(l.stack >> 20) + " MiB of stack, its limit";
    }
}

// Runs f on a large stack, and makes an exception an error text.
void under(const agd::limits & l, char ** err, const std::function<void()> & f) {
    agd::guard(err, false, [&] {
        try {
            agd::on_large_stack(f);
        } catch (const agd::limit_reached & e) {
            agd::set(err, text_of(l, e.which));
        }
        return true;
    });
}

void define_raise(jinja::context & ctx) {
    ctx.set_val("raise_exception",
                jinja::mk_val<jinja::value_func>("raise_exception", [](const jinja::func_args & args) -> jinja::value {
                    args.ensure_count(1, 1);
                    throw raised(args.get_pos(0)->as_string().str());
                }));
}

std::string render(const agd_template & t, const common_json & values, int64_t now, const agd::limits & l) {
    std::string text;
    {
        agd::budget    budget(l);
        jinja::context ctx(t.source);
        ctx.current_time = static_cast<std::time_t>(now);
        define_raise(ctx);
        jinja::global_from_json(ctx, values, /*mark_input=*/false);
        jinja::runtime runtime(ctx);
        text = jinja::runtime::gather_string_parts(runtime.execute(t.program))->as_string().str();
        budget.check();
    }
    return text;
}

} // namespace

extern "C" struct agd_template * agd_template_new(const char * source, size_t len, const char * bos, const char * eos,
                                                  char ** err) {
    agd_template * made = nullptr;
    under(parsing, err, [&] {
        auto t = std::make_unique<agd_template>();
        t->bos = bos;
        t->eos = eos;
        agd::budget  budget(parsing);
        jinja::lexer lexer;
        auto         lexed = lexer.tokenize(std::string(source, len));
        t->program         = jinja::parse_from_tokens(lexed);
        t->source          = lexed.source;
        budget.check();
        made = t.release();
    });
    return made;
}

extern "C" void agd_template_free(struct agd_template * t) {
    char * err = nullptr;
    under(parsing, &err, [&] { delete t; });
    std::free(err); // without a thread it is leaked
}

extern "C" char * agd_template_render(const struct agd_template * t, const char * vars, size_t len, int64_t now,
                                      const struct agd_template_limits * limits, size_t * size, char ** err) {
    const agd::limits l{ limits->cpu_ms, limits->bytes, limits->stack };
    char *            out = nullptr;
    under(l, err, [&] {
        common_json values = common_json::parse(std::string(vars, len));
        if (!values.is_object()) {
            throw std::runtime_error("the variables are not a JSON object");
        }
        if (!values.contains("bos_token")) {
            values["bos_token"] = t->bos;
        }
        if (!values.contains("eos_token")) {
            values["eos_token"] = t->eos;
        }
        const std::string text = render(*t, values, now, l);
        *size                  = text.size();
        out                    = agd::dup(text);
    });
    return out;
}
