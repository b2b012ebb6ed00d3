package protocol

import (
	_ "embed"
	"slices"
)

// The document is written by hand; tests compare it with the models,
// the limits and the decoders.
//
//go:embed openapi.json
var openAPI []byte

// OpenAPI returns the OpenAPI 3.1 document of the HTTP API, as JSON.
func OpenAPI() []byte { return slices.Clone(openAPI) }
