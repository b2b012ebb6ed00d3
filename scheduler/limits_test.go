package scheduler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"testing"
)

// A separate feature is a separate type, which the worker's loop calls.
func TestWorkerStaysSmall(t *testing.T) {
	if n := reflect.TypeFor[worker]().NumField(); n > 25 {
		t.Errorf("worker has %d fields", n)
	}
	if n := reflect.TypeFor[backend]().NumMethod(); n > 12 {
		t.Errorf("backend has %d methods", n)
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "worker.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "step" {
			found = true
			if n := files.Position(f.End()).Line - files.Position(f.Pos()).Line + 1; n > 35 {
				t.Errorf("step has %d lines", n)
			}
		}
	}
	if !found {
		t.Error("there is no step")
	}
}
