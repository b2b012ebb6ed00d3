// Package train holds the Python programs that train the default model. README.md
// describes them.
package train

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"agentd/defaultmodel/household"
)

// Program of lora.py, with what it imports.
//
//go:embed lora.py model.py export.py restore.py tokenizer.py packing.py reading.py copying.py lookup.py requirements.txt
var files embed.FS

// WriteLora writes lora.py and what it imports into a directory, which it makes. It
// returns the paths of the program and of the list of Python packages that it needs.
func WriteLora(dir string) (program, requirements string, err error) {
	own, template := filepath.Join(dir, "train"), filepath.Join(dir, "household")
	if err := errors.Join(os.MkdirAll(own, 0o750), os.MkdirAll(template, 0o750)); err != nil {
		return "", "", err
	}
	names, err := fs.Glob(files, "*")
	if err != nil {
		return "", "", err
	}
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(own, name), text, 0o600)
		}
		if err != nil {
			return "", "", err
		}
	}
	err = os.WriteFile(filepath.Join(template, "chat_template.jinja"), []byte(household.ChatTemplate), 0o600)
	return filepath.Join(own, "lora.py"), filepath.Join(own, "requirements.txt"), err
}
