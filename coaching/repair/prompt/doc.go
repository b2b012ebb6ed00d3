// Package prompt writes what coaches are asked: the question for a model with the
// schema of its answer, and the task for a person.
package prompt
