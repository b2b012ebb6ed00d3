// Package protocol is the wire of an agent server: the models of the inference
// and coaching contract, their strict decoding, their encoding, the checks of a
// whole response against its request, and the OpenAPI document of the HTTP API.
//
// # Decoding
//
// Every model has a Decode function that takes a whole JSON body. Decoding is
// strict: names are case-sensitive, unknown fields, duplicate names, invalid
// UTF-8, trailing data and wrong types are rejected, an integer is an integer
// literal. The error of a Decode function is always [Problems]: every problem
// of the body with its location, or, when the body is no JSON at all, the one
// place where it stops being JSON.
//
// # Raw JSON
//
// JSON whose meaning belongs to an agent (memory, attributes, tools,
// extra_keys, arguments, ...) is kept as [Raw]: the bytes of the body without
// the whitespace between tokens. Numbers, key order and string escapes survive.
// A decoded value refers to the body's bytes: do not change a body after
// decoding it. [Get], [Members], [AppendMember] and their kin read and change raw
// values without touching any byte that they need not touch.
//
// # Encoding
//
// Every model has AppendJSON, which appends its compact JSON, and MarshalJSON.
// Raw values are copied as they are, never parsed again.
//
// The package imports nothing else of this module.
package protocol
