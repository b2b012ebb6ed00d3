// JSON schemas to grammars.
#include "shim.h"
#include "shim_internal.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common.h"
#include "json-schema-to-grammar.h"
#include "json.h"

namespace {

// Bounds on what the converter does with a schema. It recurses over every level,
// also through references, and an overflow of the stack ends the process.
constexpr size_t max_levels = 1000;    // about 2 KiB of stack each
constexpr size_t max_nodes  = 10000;   // sub-schemas after allOf and lists of types are written out
constexpr size_t max_work   = 4 << 20; // bytes of names and values, and loops that grow as squares
constexpr size_t max_name   = 1000;    // bytes of a property name or reference: std::regex recurses for each
constexpr size_t max_written = 4 << 20; // bytes of the grammar, MaxGrammarBytes of limits.go
constexpr size_t max_hops   = 100;     // references that lead to nothing but another one

// schema_bounds walks a schema as the converter will and refuses what would cost
// it too much. It may see more than the converter does, never less.
class schema_bounds {
  public:
    explicit schema_bounds(const common_json & schema) : root(schema) {}

    void run() {
        visit(root, "", 0);
        // Which reference the converter enters first, and so from which depth,
        // depends on its order; the sum over all targets bounds every order.
        while (!targets.empty()) {
            const auto [target, name] = targets.back();
            targets.pop_back();
            levels += deepest + 1;
            deepest = 0;
            visit(*target, name, 0);
        }
    }

  private:
    // As the converter names rules: all else becomes "-".
    static std::string escape(const std::string & name) {
        std::string out;
        for (const unsigned char c : name) {
            if (std::isalnum(c) || c == '-') {
                out += static_cast<char>(c);
            } else if (out.empty() || out.back() != '-') {
                out += '-';
            }
        }
        return out;
    }

    static void check_name(const std::string & name) {
        if (name.size() > max_name) {
            throw std::runtime_error("a property name or $ref of " + std::to_string(name.size()) + " bytes, at most " +
                                     std::to_string(max_name) + " are possible");
        }
    }

    void charge(size_t amount) {
        work += amount;
        if (work > max_work) {
            throw std::runtime_error("it is too large or repeats itself too often to be turned into a grammar");
        }
    }

    // The schema that a reference names, NULL where the builder will say that
    // there is none.
    const common_json * resolve(const common_json & ref) const {
        if (!ref.is_string()) {
            return nullptr;
        }
        const std::string text = ref.get<std::string>();
        check_name(text);
        if (text.compare(0, 2, "#/") != 0) {
            return nullptr;
        }
        const common_json * at     = &root;
        const auto          tokens = string_split(text.substr(1), "/");
        for (size_t i = 1; i < tokens.size(); i++) {
            if (at->is_object() && at->contains(tokens[i])) {
                at = &at->at(tokens[i]);
                continue;
            }
            size_t index = 0;
            try {
                index = std::stoull(tokens[i]);
            } catch (const std::logic_error &) {
                return nullptr;
            }
            if (!at->is_array() || index >= at->size()) {
                return nullptr;
            }
            at = &at->at(index);
        }
        return at;
    }

    void visit(const common_json & s, const std::string & name, size_t depth) {
        if (++nodes > max_nodes) {
            throw std::runtime_error("more than " + std::to_string(max_nodes) + " sub-schemas");
        }
        deepest = std::max(deepest, depth);
        if (levels + depth > max_levels) {
            throw std::runtime_error("more than " + std::to_string(max_levels) +
                                     " levels through its references, or allOf with a schema that contains itself");
        }
        charge(name.size() + 16 * same_name[name]++); // a taken name is numbered, from 0 on each time
        if (!s.is_object()) {
            return;
        }
        if (s.contains("$ref")) {
            const common_json * target = resolve(s.at("$ref"));
            if (target != nullptr && seen.insert(s.at("$ref").get<std::string>()).second) {
                targets.emplace_back(target, "ref" + escape(s.at("$ref").get<std::string>()));
            }
            return;
        }
        for (const char * key : { "oneOf", "anyOf" }) {
            visit_list(s, key, name, depth);
        }
        if (s.contains("type") && s.at("type").is_array()) { // each type gets a copy of the rest
            const size_t types = s.at("type").size();
            charge(types * s.dump().size());
            for (size_t i = 0; i < types; i++) {
                visit_members(s, name + "-" + std::to_string(i), depth + 1);
            }
            return;
        }
        visit_members(s, name, depth);
    }

    void visit_list(const common_json & s, const char * key, const std::string & name, size_t depth) {
        if (!s.contains(key) || !s.at(key).is_array()) {
            return;
        }
        size_t i = 0;
        for (const auto & child : s.at(key)) {
            visit(child, name + "-" + std::to_string(i++), depth + 1);
        }
    }

    void visit_members(const common_json & s, const std::string & name, size_t depth) {
        for (const char * key : { "const", "enum" }) {
            if (s.contains(key)) {
                charge(s.at(key).dump().size());
            }
        }
        if (s.contains("pattern")) {
            charge(8 * nodes); // all rules are copied for each
        }
        visit_properties(s, name, depth);
        for (const char * key : { "additionalProperties", "items" }) {
            if (s.contains(key) && s.at(key).is_object()) {
                visit(s.at(key), name + "-" + key, depth + 1);
            }
        }
        for (const char * key : { "items", "prefixItems", "allOf" }) {
            visit_list(s, key, name, depth);
        }
        if (s.contains("allOf") && s.at("allOf").is_array()) {
            for (const auto & part : s.at("allOf")) {
                merge(part, name, depth);
                for (const char * key : { "oneOf", "anyOf" }) {
                    if (part.is_object() && part.contains(key) && part.at(key).is_array()) {
                        for (const auto & alternative : part.at(key)) {
                            merge(alternative, name, depth);
                        }
                    }
                }
            }
        }
    }

    // allOf writes out the properties of what its parts refer to, every time.
    void merge(const common_json & part, const std::string & name, size_t depth) {
        const common_json * at = &part;
        for (size_t hops = 0; at != nullptr && at->is_object() && at->contains("$ref"); hops++) {
            if (hops == max_hops) {
                throw std::runtime_error("its references lead in a circle");
            }
            at = resolve(at->at("$ref"));
        }
        if (at != nullptr && at != &part) {
            visit_properties(*at, name, depth);
        }
    }

    void visit_properties(const common_json & s, const std::string & name, size_t depth) {
        if (!s.is_object() || !s.contains("properties") || !s.at("properties").is_object()) {
            return;
        }
        const common_json & properties = s.at("properties");
        charge(8 * properties.size() * properties.size()); // optional ones: each is followed by any later ones
        for (const auto & [key, property] : properties.items()) {
            check_name(key);
            visit(property, name + "-" + escape(key), depth + 1);
        }
    }

    const common_json &                                        root;
    std::vector<std::pair<const common_json *, std::string>> targets; // of references, still to be walked
    std::unordered_set<std::string>                            seen;    // references
    std::unordered_map<std::string, size_t>                    same_name;

    size_t nodes   = 0;
    size_t work    = 0;
    size_t levels  = 0; // of the targets walked before
    size_t deepest = 0; // of the target being walked
};

// each_node calls f for a node of a schema and all that it is made of. References
// lead to nodes of the document's own list, so they are not followed.
template <typename F> void each_node(common_chat_schema * node, const F & f) {
    if (node == nullptr) {
        return;
    }
    f(*node);
    const auto each = [&](const std::vector<common_chat_schema_ptr> & children) {
        for (const auto & child : children) {
            each_node(child.get(), f);
        }
    };
    switch (node->kind()) {
        case common_chat_schema::KIND_ANY_OF:
            each(static_cast<const common_chat_schema_any_of *>(node)->children);
            break;
        case common_chat_schema::KIND_ALL_OF:
            each(static_cast<const common_chat_schema_all_of *>(node)->children);
            break;
        case common_chat_schema::KIND_ARRAY:
            each_node(static_cast<const common_chat_schema_array *>(node)->items.get(), f);
            break;
        case common_chat_schema::KIND_TUPLE:
            each(static_cast<const common_chat_schema_tuple *>(node)->items);
            break;
        case common_chat_schema::KIND_OBJECT: {
            const auto * object = static_cast<const common_chat_schema_object *>(node);
            for (const auto & property : object->properties) {
                each_node(property.schema.get(), f);
            }
            each_node(object->additional_properties.get(), f);
            break;
        }
        default:
            break;
    }
}

// Takes out the bounds of numbers that do not fit the converter's type, into which it would
// cut them: 2^63-1 is 2^63 once JavaScript has written it. On that side the number is free
// then, or, of a bound that leaves nothing, the call fails its check.
void drop_far_bounds(common_json & schema) {
    constexpr double far = 9.2e18;
    if (schema.is_array()) {
        for (size_t i = 0; i < schema.size(); i++) {
            drop_far_bounds(schema.at(i));
        }
    }
    if (!schema.is_object()) {
        return;
    }
    for (const char * key : { "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum" }) {
        if (schema.contains(key) && schema.at(key).is_number() && std::abs(schema.at(key).get<double>()) > far) {
            schema.erase(key);
        }
    }
    std::vector<std::string> keys;
    for (const auto & [key, value] : schema.items()) {
        if (key != "const" && key != "enum" && (value.is_object() || value.is_array())) {
            keys.push_back(key);
        }
    }
    for (const auto & key : keys) {
        drop_far_bounds(schema.at(key));
    }
}

// What the converter does not write as it should be. Constants that are objects or
// lists it writes without any white space; here they are written as prompts show JSON,
// as by Python's json.dumps. Of a pattern it makes strings that are no JSON, such as
// those with a quotation mark where the pattern has a dot, or any string at all. Until
// the grammar is made, strings that occur nowhere in the schema stand for both, and a
// number for an integer within bounds.
class placeholders {
  public:
    placeholders(const common_json & schema, const std::unordered_map<std::string, std::string> & patterns) : rules(patterns) {
        // Letters alone, which the converter leaves as they are.
        const auto                      text = schema.dump();
        std::unordered_set<std::string> taken; // what follows this word there
        for (size_t at = 0; (at = text.find(stem, at)) != std::string::npos;) {
            at += stem.size();
            taken.insert(text.substr(at, 4));
        }
        std::string suffix;
        for (size_t n = 0; suffix.empty() || taken.count(suffix) > 0; n++) {
            suffix.clear();
            for (size_t i = 0, rest = n; i < 4; i++, rest /= 26) {
                suffix += static_cast<char>('a' + rest % 26);
            }
        }
        stem += suffix;
        while (text.find(number) != std::string::npos) {
            number = std::to_string(std::stoll(number) + 1);
        }
    }

    void hide(common_chat_schema & node) {
        if (node.kind() == common_chat_schema::KIND_CONST) {
            hide(static_cast<common_chat_schema_const &>(node).value);
        } else if (node.kind() == common_chat_schema::KIND_ENUM) {
            for (auto & value : static_cast<common_chat_schema_enum &>(node).values) {
                hide(value);
            }
        } else if (node.kind() == common_chat_schema::KIND_STRING) {
            hide_pattern(static_cast<common_chat_schema_string &>(node).pattern);
        } else if (node.kind() == common_chat_schema::KIND_INTEGER) {
            hide_bounds(static_cast<common_chat_schema_integer &>(node));
        }
    }

    std::string show(const std::string & grammar) const {
        // Patterns last: what they make of escapes might be a placeholder. A string stands
        // as the converter writes it, what has a pattern between quotation marks.
        const auto numbers = replace(grammar, "\"" + number, "\"");
        return replace(replace(numbers, "\"\\\"" + stem, "\\\"\""), "\"" + stem, "\"");
    }

  private:
    void hide(common_json & value) {
        if (value.is_object() || value.is_array()) {
            value = common_json(placeholder(gbnf_format_literal(dumps(value)))); // the converter compares constants
        }
    }

    void hide_pattern(std::string & pattern) {
        if (pattern.empty()) {
            return; // any string
        }
        const auto rule = rules.find(pattern);
        if (rule == rules.end()) {
            throw std::runtime_error("a pattern can't be turned into a grammar");
        }
        if (rule->second.front() == '!') {
            throw std::runtime_error(rule->second.substr(1));
        }
        pattern = "^" + placeholder(rule->second) + "$";
    }

    // Of an integer that can only be one number the converter makes a literal.
    void hide_bounds(common_chat_schema_integer & node) {
        const bool from = node.minimum != std::numeric_limits<int64_t>::min(), to = node.maximum != std::numeric_limits<int64_t>::max();
        if (node.minimum > node.maximum) {
            throw std::runtime_error("an integer has the minimum " + std::to_string(node.minimum) + " and the maximum " + std::to_string(node.maximum));
        }
        if (from || to) {
            const auto n = std::to_string(index_of("(" + agd::integer_range(node.minimum, node.maximum) + ")"));
            node.minimum = node.maximum = std::stoll(number + std::string(number_digits - n.size(), '0') + n);
        }
    }

    std::string placeholder(const std::string & rule) { return stem + std::to_string(index_of(rule)); }

    // The same for what is the same.
    size_t index_of(const std::string & rule) {
        const auto [it, added] = index.emplace(rule, written.size());
        if (added) {
            written.push_back(rule);
        }
        return it->second;
    }

    std::string replace(const std::string & grammar, const std::string & begins, const std::string & ends) const {
        std::string out;
        size_t      at = 0;
        for (size_t next; (next = grammar.find(begins, at)) != std::string::npos;) {
            out.append(grammar, at, next - at);
            size_t       digits = 0;
            const auto & rule   = written.at(std::stoul(grammar.substr(next + begins.size(), 20), &digits));
            if (out.size() + rule.size() > max_written) { // many places may have the same one
                throw std::runtime_error("its patterns and constants are more than " + std::to_string(max_written) + " bytes as a grammar");
            }
            out += rule;
            at = next + begins.size() + digits + ends.size();
        }
        return out.append(grammar, at, std::string::npos);
    }

    static std::string dumps(const common_json & value) {
        std::string out;
        if (value.is_object()) {
            for (const auto & [key, member] : value.items()) {
                out += (out.empty() ? "" : ", ") + common_json(key).dump() + ": " + dumps(member);
            }
            return "{" + out + "}";
        }
        if (value.is_array()) {
            for (const auto & element : value) {
                out += (out.empty() ? "" : ", ") + dumps(element);
            }
            return "[" + out + "]";
        }
        return value.dump();
    }

    const std::unordered_map<std::string, std::string> & rules; // of patterns
    std::string                                          stem   = "constant";
    std::string                                          number = "7000000000000"; // and number_digits more
    static constexpr size_t                              number_digits = 6;
    std::vector<std::string>                             written;
    std::unordered_map<std::string, size_t>              index; // in written
};

// Reads what llama.patterns of schema.go wrote: each pattern of the schema and its rule,
// or "!" and why there is none.
std::unordered_map<std::string, std::string> read_patterns(const char * text, size_t size) {
    std::unordered_map<std::string, std::string> out;
    for (const char *at = text, *end = text + size; at < end;) {
        const std::string pattern(at);
        at += pattern.size() + 1;
        const std::string rule(at);
        at += rule.size() + 1;
        out.emplace(pattern, rule);
    }
    return out;
}

} // namespace

extern "C" char * agd_schema_to_grammar(const char * schema, const char * patterns, size_t size, char ** err) {
    return agd::guard(err, static_cast<char *>(nullptr), [&] {
        common_json json = common_json::parse(schema);
        schema_bounds(json).run();
        drop_far_bounds(json);
        const common_chat_schema_document document = common_chat_schema_from_json(json);
        const auto                        rules    = read_patterns(patterns, size);
        placeholders                      hidden(json, rules);
        const auto                        hide = [&](common_chat_schema & node) { hidden.hide(node); };
        each_node(document.root.get(), hide);
        for (const auto & [name, node] : document.refs) {
            each_node(node.get(), hide);
        }
        return agd::dup(hidden.show(json_schema_to_grammar(document)));
    });
}
