// Package parse reads the answers of coaches and the raw outputs of models, in whatever
// notation they are written. It does not check what they say.
package parse
