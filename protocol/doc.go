// Package protocol implements the wire format of an agent server. It has the models of the
// inference and coaching contract, their strict decoding and their encoding. It validates a
// response against its request, and has the OpenAPI document of the HTTP API. It imports nothing else of this module.
//
// # Why our own decoder
//
// The models are structs with tags, see model.go. Decoder and encoder go by the tags, over the tokens of a
// JSON library. No library met both requirements:
//
//   - Located errors. A body is refused with all of its problems, each with its path and what to
//     write instead. Libraries that decode into structs stop at the first problem.
//   - Byte fidelity. JSON that belongs to an agent returns byte for byte: 1.0 stays 1.0, and keys
//     keep their order and escapes. Libraries parse such values and write them again. Histories
//     have megabytes, and every candidate repeats them, so a copy of the bytes is also faster.
//
// A new field appears in its struct and in openapi.json. Tests compare the two.
//
// # Decoding
//
// Every model has a Decode function for a whole JSON body. Decoding is strict. Names are
// case-sensitive. Unknown fields, duplicate names, invalid UTF-8, trailing data and wrong types
// are refused, and an integer must be an integer literal. The error of a Decode function is
// always [Problems]: all problems of the body, or the one place where it stops being JSON.
//
// # Raw JSON
//
// JSON that belongs to an agent (memory, attributes, tools, extra_keys, arguments, ...) stays
// [Raw]: the bytes of the body without whitespace between tokens. A decoded value refers to the
// body's bytes, so the body must not change afterwards. [Get], [Members], [AppendMember] and
// related functions read and edit raw values, and copy all other bytes unchanged.
//
// # Encoding
//
// Every model has AppendJSON, which appends compact JSON, and MarshalJSON. Raw values are copied
// and not parsed.
package protocol
